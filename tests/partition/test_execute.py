"""Cores that see nothing but their own memory compute together what the reference computes."""

import numpy as np
import pytest

from support.partitions import GRIDS, Case, check_layers, numbers, random_case, residual_block
from tilewright.common.errors import PartitionError
from tilewright.graph import network
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import conv2d, relu
from tilewright.ops.box import Box
from tilewright.partition.divided import SUMS, Execution, _require_all_terms
from tilewright.partition.layers import layers_of
from tilewright.partition.objective import Weights
from tilewright.partition.plan import fixed_plan, given_plan, space
from tilewright.partition.strategies import find_strategy


@pytest.mark.parametrize("seed", range(60))
def test_random_layers_grids_and_tiles(seed):
    random_case(seed).check()


@pytest.mark.parametrize("cores", GRIDS)
@pytest.mark.parametrize("how", ["best", "input_rows", "output_tiles"])
def test_a_residual_block(cores, how):
    whole = residual_block()
    layers = layers_of(whole)
    plan = space(layers, cores).best() if how == "best" else fixed_plan(layers, cores, how)
    Case(whole, plan, numbers(whole, 1)).check()


@pytest.mark.parametrize("cores", GRIDS)
def test_lenet5(cores):
    whole = network("lenet5", 1)
    feeds = numbers(whole, 2)
    plan = space(layers_of(whole), cores).best()
    found = Execution(whole, plan, feeds).run()["prob"]
    np.testing.assert_allclose(found, whole.evaluate(feeds)["prob"], rtol=1e-12)


@pytest.mark.parametrize("cores", GRIDS)
def test_layers_of_lenet5_bit_for_bit(cores):
    """Softmax, too: a core adds up in the order in which one core does."""
    check_layers(network("lenet5", 1), cores)


def test_a_pyramid_computes_the_same_without_exchanges():
    net = NetworkBuilder("pyramid", "f64")
    x = net.input("x", (1, 3, 12, 12))
    for number, (channels, stride) in enumerate(((4, 1), (4, 2), (5, 1))):
        op = conv2d(batch=1, in_channels=net.shape(x)[1], out_channels=channels, kernel=3,
                    height=net.shape(x)[2], width=net.shape(x)[3], stride=stride,
                    padding=1)  # fmt: skip
        name = f"conv{number}"
        x = net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)
        x = net.apply(relu(op.out_shape), x, name=f"{name}_relu")
    whole = net.build((x,))
    layers = layers_of(whole)
    plan = space(layers, 4, Weights(1, 0, 1), most_work=2.5, recompute=True).best()
    strategies = [planned.division.strategy for planned in plan.layers]
    assert strategies == ["recomputed", "recomputed", "equal_products"]
    assert (plan.cost, len(plan.layers[2].division.parts)) == (0, 4)
    Case(whole, plan, numbers(whole, 1)).check()


def divided_sums(layers, cores):
    """Sums divided where a layer has any, rows elsewhere."""
    choices = []
    for layer in layers:
        name = "terms" if layer.op.terms else "rows"
        choices.append((name, find_strategy(name).grids(layer, cores).grid(0)))
    return given_plan(layers, cores, choices)


@pytest.mark.parametrize("kind", ["activations", "sums"])
def test_a_missing_move_is_an_error(kind):
    whole = residual_block()
    plan = divided_sums(layers_of(whole), 4)
    Case(whole, plan, numbers(whole, 1)).check()

    class Lossy(Execution):
        def messages(self, name, found):
            return found[1:] if name.endswith(SUMS) == (kind == "sums") else found

    with pytest.raises(PartitionError, match=r"; a move is missing in the plan$") as caught:
        Lossy(whole, plan, numbers(whole, 1)).run()
    assert ("parts of its sum" in caught.value.message) == (kind == "sums")


def test_what_a_core_never_got_is_named():
    whole = network("lenet5", 1)
    plan = fixed_plan(layers_of(whole), 4, "output_tiles")
    mute = type("Mute", (Execution,), {"messages": lambda self, name, found: ()})
    with pytest.raises(PartitionError) as caught:
        mute(whole, plan, numbers(whole, 2)).run()
    assert str(caught.value) == (
        "core 0 reads element (0, 0, 7, 0) of 'c1_tanh', which it neither computed nor got; "
        "a move is missing in the plan"
    )


def test_an_element_that_lacks_parts_of_its_sum_is_named_by_its_place_in_the_result():
    region, counts = Box.of((0, 1), (4, 6), (2, 5)), np.full((1, 2, 3), 2)
    layer = layers_of(network("lenet5", 1))[0]
    _require_all_terms(layer, 7, region, counts, 2)
    counts[0, 1, 2] = 1
    with pytest.raises(PartitionError) as caught:
        _require_all_terms(layer, 7, region, counts, 2)
    assert str(caught.value) == (
        "core 7 finishes element (0, 5, 4) of c1 with 1 of 2 parts of its sum; a move is missing "
        "in the plan"
    )
