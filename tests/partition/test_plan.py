"""Plans: what the best division of a whole network moves, and what it is bounded by."""

from dataclasses import replace

import pytest

from tilewright.common.errors import PartitionError
from tilewright.graph import network
from tilewright.graph.builder import NetworkBuilder
from tilewright.machine import load_machine
from tilewright.ops import Softmax, add, max_pool2d, relu
from tilewright.partition.grids import ROWS, along, undivided
from tilewright.partition.layers import layers_of
from tilewright.partition.moves import held, moves_to, needs, reductions
from tilewright.partition.objective import (
    TIME,
    TRAFFIC,
    WITHOUT_INPUTS,
    Volume,
    Weights,
    core_model,
)
from tilewright.partition.parts import divide, imbalance
from tilewright.partition.placement import best_placed_plan, placed, placed_plan
from tilewright.partition.plan import fixed_plan, space
from tilewright.partition.strategies import reference_work

CORES = 56
VGG = layers_of(network("vgg16", 1))
IMAGES = [layer for layer in VGG if layer.name.startswith(("conv", "pool"))]
ACTIVATIONS = Weights(activations=1, weights=0, sums=1)


def counted(plan):
    """The plan's volume, message by message."""
    made = {p.layer.output: held(p.division, p.cores) for p in plan.layers}
    found = Volume()
    for planned in plan.layers:
        layer, division = planned.layer, planned.division
        for name, wanted in needs(layer, division, planned.cores).items():
            if name in made:
                sent = moves_to(made[name], wanted)
                found += Volume(activations=sum(move.values for move in sent))
            else:
                found += Volume(inputs=sum(box.size for _, box in wanted))
        found += Volume(sums=sum(m.values for m in reductions(layer, division, planned.cores)))
        for part in division.parts:
            boxes = layer.weights(part.summed, part.terms, part.kept)
            found += Volume(weights=sum(box.size for _, box in boxes))
    return found


def test_volumes_add_up_kind_by_kind_from_nothing_on():
    found = sum([Volume(1, 20, 300, 4000), Volume(weights=500)], Volume())
    assert (found, found.total) == (Volume(1, 20, 800, 4000), 4821)


@pytest.mark.parametrize("name", ["lenet5", "alexnet"])
def test_a_plan_moves_what_its_messages_carry(name):
    plan = space(layers_of(network(name, 1)), 6).best()
    assert counted(plan) == plan.volume
    assert plan.proven
    assert plan.bound <= plan.cost


@pytest.mark.parametrize(
    ("strategy", "activations", "weights"),
    [("input_rows", 11_648_000, 361_492_992), ("output_tiles", 8_512_512, 774_466_560)],
)
def test_what_the_strategies_of_the_paper_move_in_vgg16(strategy, activations, weights):
    found = fixed_plan(IMAGES, CORES, strategy).volume
    assert found == Volume(activations, 224_448, weights, 0)


def test_the_best_plan_of_vgg16_moves_half_of_that():
    plan = space(IMAGES, CORES, ACTIVATIONS).best()
    assert plan.proven
    assert plan.volume.activations + plan.volume.sums == plan.cost <= 4.4e6
    for planned in plan.layers:
        assert planned.work <= reference_work(planned.layer, CORES) + 1e-9


def test_shares_placed_by_assignment_move_less_and_the_numbers_are_those_of_the_messages():
    layers = layers_of(network("lenet5", 1))
    fixed = space(layers, 15, ACTIVATIONS).best()
    moved, best = placed(fixed), best_placed_plan(space(layers, 15, ACTIVATIONS))
    assert best.cost == best.volume.activations + best.volume.sums
    assert best.cost <= moved.volume.activations + moved.volume.sums <= fixed.cost
    assert [counted(plan) for plan in (moved, best)] == [moved.volume, best.volume]


def test_branches_are_placed_after_their_grids_were_chosen():
    net = NetworkBuilder("branch", "f64")
    x = net.apply(relu((1, 2, 4, 4)), net.input("x", (1, 2, 4, 4)), name="first")
    y = net.apply(max_pool2d((1, 2, 4, 4), 3, stride=1, padding=1), x, name="second")
    layers = layers_of(net.build((net.apply(add((1, 2, 4, 4)), x, y, name="sum"),)))
    with pytest.raises(
        PartitionError,
        match=r"^layer sum reads more than the layer before it; place a plan that is there: "
        r"placed\(plan\)$",
    ):
        best_placed_plan(space(layers, 4, ACTIVATIONS))
    plan = placed(space(layers, 4, ACTIVATIONS).best())
    assert counted(plan) == plan.volume
    found = placed_plan(space(layers, 4, ACTIVATIONS))
    assert (found.volume, found.cost) == (plan.volume, plan.volume.activations + plan.volume.sums)
    assert (found.proven, found.bound <= found.cost) == (False, True)


def test_with_weights_it_moves_a_tenth():
    papers = fixed_plan(VGG, CORES, "output_tiles").volume
    best = space(VGG, CORES).best()
    assert best.proven
    assert best.cost == best.volume.activations + best.volume.weights + best.volume.sums
    assert best.cost <= 0.21 * (papers.activations + papers.weights)


def test_halos_are_computed_again_where_that_moves_less_and_the_limit_allows_it():
    """The first layers of VGG-16 become a pyramid: nothing moves between them."""
    exchange = space(IMAGES[:3], 14, ACTIVATIONS, most_work=1.5).best()
    pyramid = space(IMAGES[:3], 14, ACTIVATIONS, most_work=1.5, recompute=True).best()
    assert pyramid.cost < exchange.cost
    recomputed = [one for one in pyramid.layers if one.division.strategy == "recomputed"]
    assert recomputed
    for planned in recomputed:
        assert planned.division.grid.overlaps
        assert planned.work <= 1.5 * reference_work(planned.layer, 14) + 1e-9
    after = pyramid.layers[pyramid.layers.index(recomputed[0]) + 1]
    assert after.volume.activations == 0
    assert counted(pyramid) == pyramid.volume


def test_halos_that_several_take_at_once_are_not_computed_again():
    """Sending one to all who need it is never more than each of them computing it."""
    grid = load_machine("bwdsp-56", {"fabrics.grid.multicast": "path"})
    model = replace(core_model(grid, "f32"), buffer_values=1 << 30)
    options = {"most_work": 1.5, "model": model}
    again = space(IMAGES[:2], 8, ACTIVATIONS, **options, recompute=True).best()
    assert again == space(IMAGES[:2], 8, ACTIVATIONS, **options).best()


def test_a_plan_is_proven_if_the_grids_that_were_left_out_cost_no_less():
    costs = space(layers_of(network("lenet5", 1))[:3], 4, ACTIVATIONS)
    least = costs.best()
    assert least.proven
    costs.others = least.cost
    assert costs.best() == least
    costs.others = least.cost - 1
    assert costs.best() == replace(least, proven=False, bound=least.cost - 1)


def test_inputs_count_where_they_have_a_weight():
    """Without one a looser limit may read the images more often than it saves elsewhere."""
    layers = layers_of(network("alexnet", 1))[:4]
    totals = {
        weights: [
            space(layers, CORES, weights, most_work=most).best().volume.total for most in (1, 2)
        ]
        for weights in (WITHOUT_INPUTS, TRAFFIC)
    }
    assert totals[TRAFFIC][1] <= totals[TRAFFIC][0] <= totals[WITHOUT_INPUTS][0]
    assert totals[TRAFFIC][1] <= totals[WITHOUT_INPUTS][1]
    plan = space(layers, CORES, TRAFFIC).best()
    assert plan.cost == plan.volume.total


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (TRAFFIC, "traffic"),
        (WITHOUT_INPUTS, "activations and weights and sums"),
        (TIME, "time"),
        (Weights(2, 1, 0), "2 x activations + 1 x weights"),
        (Weights(1, 0, 1, 3), "activations and sums and 3 for each cycle"),
    ],
)
def test_what_shall_be_least_in_words(weights, words):
    assert weights.describe() == words


def test_imbalance_is_of_what_the_cores_compute():
    """Ten cores that all compute the whole softmax are in balance; so are equal halos."""
    (prob,) = (layer for layer in VGG if isinstance(layer.op, Softmax))
    channels = fixed_plan([prob], 10, "output_channels").layers[0].division
    assert len(channels.parts) == 10
    assert imbalance(prob, channels.parts) == 1.0
    rows = fixed_plan([VGG[0]], 56, "output_tiles").layers[0].division
    assert imbalance(VGG[0], rows.parts) == 1.0
    uneven = divide(VGG[0], along(undivided(VGG[0]), ROWS, ((0, 24), (24, 224))), "rows")
    assert imbalance(VGG[0], uneven.parts) == pytest.approx(2 * 200 / 224)


def test_without_a_limit_one_core_does_everything():
    plan = space(layers_of(network("lenet5", 1)), CORES, ACTIVATIONS, most_work=None).best()
    assert plan.volume.activations == plan.volume.sums == plan.cost == 0


def test_more_cores_than_rows():
    plan = fixed_plan(layers_of(network("lenet5", 1))[:4], 300, "rows")
    assert [len(planned.division.parts) for planned in plan.layers] == [28, 14, 10, 5]


def test_a_strategy_that_does_not_apply_is_refused():
    (prob,) = (layer for layer in VGG if isinstance(layer.op, Softmax))
    with pytest.raises(
        PartitionError,
        match=r"^layer prob \(softmax 1x1000 along axis 1\) is not divided by 'tiles'; "
        r"take another strategy, or let the planner choose$",
    ):
        fixed_plan([prob], CORES, "tiles")


def test_a_limit_that_nothing_keeps_is_refused():
    with pytest.raises(
        PartitionError,
        match=r"^layer conv1_1: no division over 56 cores gives each at most 0.008929 of the work; "
        r"allow more work of one core, or more strategies$",
    ):
        space(IMAGES, CORES, most_work=0.5).best()
