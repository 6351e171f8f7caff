"""Windows that are pooled inside the convolution before them, on the finished tile."""

import numpy as np
import pytest
from msgspec import structs

from support.examples import one_in
from support.plans import GROUP, quick_search
from tilewright.graph.builder import NetworkBuilder
from tilewright.isa import load_table
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.planning.bordered import Bordered
from tilewright.network.planning.pieces import Spacing, pieces_of
from tilewright.network.planning.variants import variants
from tilewright.network.plans import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Bias, Unary, average_pool2d, conv2d, max_pool2d, relu
from tilewright.seeds.convolution.winograd import applies
from tilewright.seeds.pooling import PoolWindows
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, emit_network
from tilewright.tune import refills

pytestmark = one_in(2)


MACHINE = load_machine("sw26010")
POOLS = {"max": max_pool2d, "average": average_pool2d}
FUSED = ("conv", "pool", "bias", "relu")


def network(
    batch=8,
    size=16,
    pool="max",
    kernel=2,
    stride=2,
    dtype="f64",
    behind="",
    early=False,
    channels=16,
):
    """A convolution, windows of its result, bias and rectifier; the windows last unless `early`,
    and an operator `behind` them.
    """
    net = NetworkBuilder("windows", dtype)

    def convolved(y, channels, name):
        _, own, height, width = net.shape(y)
        op = conv2d(
            batch=batch, in_channels=own, out_channels=channels, height=height, width=width,
            kernel=3, padding=1, dtype=dtype,
        )  # fmt: skip
        return net.apply(op, y, net.weight(f"w_{name}", op.input_shapes[1]), name=name)

    def pooled(y):
        own = POOLS[pool](net.shape(y), kernel, stride=stride, dtype=dtype)
        return net.apply(own, y, name="pool")

    y = convolved(net.input("x", (batch, channels // 2, size, size)), channels, "conv")
    y = pooled(y) if early else y
    if pool == "max":
        y = net.apply(
            Bias(net.shape(y), 1, dtype=dtype), y, net.weight("b", (channels,)), name="bias"
        )
        y = net.apply(relu(net.shape(y), dtype=dtype), y, name="relu")
    y = y if early else pooled(y)
    if behind == "conv":
        y = convolved(y, channels, "behind")
    if behind == "neg":
        y = net.apply(Unary("neg", net.shape(y), dtype=dtype), y, name="neg")
    return net.build((y,))


def numbers(net):
    rng = np.random.default_rng(0)
    kind = {"f64": np.float64, "f32": np.float32}[net.inputs[0].dtype]
    inputs, weights = (
        {t.name: (4 * rng.integers(-3, 4, t.shape)).astype(kind) for t in own}
        for own in (net.inputs, net.weights)
    )
    return inputs, weights


def computed(plan):
    return [stage.nodes for stage in plan.stages if stage.work != "layout"]


def require_exact(net, plan, machine=GROUP):
    inputs, weights = numbers(net)
    ((name, expected),) = net.evaluate({**inputs, **weights}).items()
    np.testing.assert_array_equal(interpret_plan(plan, inputs, weights)[name], expected)
    artifact = emit_network(plan, machine)
    found = run_emulated(artifact, {**inputs, artifact.block: constant_block(plan, weights)})
    np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    ("algorithm", "dtype", "early"),
    [("winograd2", "f64", False), ("winograd4", "f32", True)],
)
def test_windows_bias_and_rectifier_are_part_of_the_convolution(algorithm, dtype, early):
    net = network(dtype=dtype, early=early, behind="neg", channels=32)
    plan = build_plan(net, GROUP, Search(algorithm=algorithm, keep=2))
    assert computed(plan) == [(*FUSED, "neg")]
    fused = next(stage for stage in plan.stages if stage.work == "product")
    assert fused.label == "conv2d 8x16x16x16 -> 32, 3x3 s1 p1 pool2d bias relu neg"
    assert plan.values[fused.writes].form.shape == (8, 32, 8, 8)
    require_exact(net, plan)
    assert simulate_plan(plan).cycles == pytest.approx(plan.estimate_cycles, rel=0.02)


def test_it_is_faster_than_stages_of_their_own(monkeypatch):
    net, search = network(behind="neg", channels=32), Search(algorithm="winograd4", keep=2)
    fused = build_plan(net, GROUP, search)
    monkeypatch.setattr("tilewright.network.planning.variants.windows_of", lambda pool: None)
    plain = build_plan(net, GROUP, search)
    assert computed(plain) == [("conv",), ("pool",), ("bias", "relu", "neg")]
    assert fused.lower_bound_cycles <= fused.estimate_cycles
    assert simulate_plan(fused).cycles < 0.97 * simulate_plan(plain).cycles


@pytest.mark.parametrize("kibibytes", [16, 8])
def test_routines_that_evict_each_other_stay_apart(kibibytes, monkeypatch, request):
    """With windows, bias and rectifier behind the product they exceed half of the cache."""
    table = load_table(GROUP.core.instruction_table)
    cache = structs.replace(table.instruction_cache, capacity_bytes=1024 * kibibytes)
    table = structs.replace(table, instruction_cache=cache)
    monkeypatch.setattr("tilewright.targets.sw26010.code_lines.load_table", lambda name: table)
    monkeypatch.setattr("tilewright.tune.refills.keeps", lambda machine: False)
    refills._without_and_with.cache_clear()
    request.addfinalizer(refills._without_and_with.cache_clear)
    net, search = network(behind="neg", channels=32), Search(algorithm="winograd2_fused", keep=2)
    plan = build_plan(net, GROUP, search)
    apart = [("conv",), ("pool",), ("bias", "relu", "neg")]
    assert computed(plan) == ([(*FUSED, "neg")] if kibibytes == 16 else apart)
    run = simulate_plan(plan)
    assert run.cycles == pytest.approx(plan.estimate_cycles, rel=0.01)


def test_averages_follow_the_convolution_alone():
    net = network(pool="average")
    plan = build_plan(net, GROUP, Search(algorithm="winograd2_fused", keep=2))
    assert computed(plan) == [("conv", "pool")]
    require_exact(net, plan)


@pytest.mark.parametrize(
    "windows", [{"size": 15}, {"kernel": 3}, {"kernel": 3, "stride": 3}], ids=str
)
def test_windows_that_leave_something_out_overlap_or_are_large_are_a_stage(windows):
    net = network(behind="neg", **windows)
    plan = build_plan(net, GROUP, Search(algorithm="winograd2_fused", keep=1))
    assert ("pool",) in computed(plan)
    require_exact(net, plan)


@pytest.mark.parametrize("what", ["an output", "read", "pooled alone"])
def test_what_others_read_too_is_not_pooled_where_it_is_made(what):
    net = NetworkBuilder("twice", "f64")
    op = conv2d(
        batch=1, in_channels=8, out_channels=8, height=8, width=8, kernel=3, padding=1
    )  # fmt: skip
    y = net.apply(op, net.input("x", (1, 8, 8, 8)), net.weight("w", (8, 8, 3, 3)), name="conv")
    outputs = [net.apply(max_pool2d(op.out_shape, 2, stride=2), y, name="pool")]
    outputs += [y] if what == "an output" else []
    outputs += [net.apply(Unary("neg", op.out_shape), y, name="neg")] if what == "read" else []
    (variant,) = variants(net.build(tuple(outputs)), applies, fuse=True)
    nodes = [tuple(node.name for node in chain.nodes) for chain in variant.chains]
    assert (("conv", "pool") in nodes) == (what == "pooled alone")
    (unfused,) = variants(net.build(tuple(outputs)), applies, fuse=False)
    assert all(len(chain.nodes) == 1 for chain in unfused.chains)


@pytest.mark.usefixtures("routines_in_the_cache")
def test_windows_are_put_inside_the_border_that_the_next_convolution_wants():
    net = network(batch=8, size=16, behind="conv")
    plan = build_plan(net, GROUP, Search(algorithm="winograd2_fused", keep=4))
    inside = next(stage for stage in plan.stages if stage.name == "conv")
    assert inside.nodes == FUSED
    assert isinstance(inside.candidate, Bordered)
    form = plan.values[inside.writes].form
    assert (form.shape, form.has_zeros) == ((8, 16, 8, 8), True)
    require_exact(net, plan)


@pytest.mark.usefixtures("routines_in_the_cache")
@pytest.mark.parametrize(("batch", "groups", "divided"), [(1, 1, 4), (8, 4, 1)])
def test_groups_divide_rows_that_are_pooled_or_have_images_of_their_own(batch, groups, divided):
    net = network(batch=batch, behind="conv", channels=64)
    plan = build_plan(net, MACHINE, Search(algorithm="winograd2_fused", keep=2))
    stage = next(s for s in plan.stages if s.name == "conv")
    assert (stage.nodes, stage.groups, plan.groups) == (FUSED, divided, groups)
    assert plan.values[stage.writes].form.shape == (batch // groups, 64, 8, 8)
    if groups == 1:
        assert stage.division is not None
        assert (stage.division.kind, len(stage.division.steps)) == ("rows", 4)
        require_exact(net, plan, MACHINE)
    else:
        inputs, weights = numbers(net)
        (expected,) = net.evaluate({**inputs, **weights}).values()
        (found,) = PlannedNetwork(net, plan).run(*inputs.values(), weights=weights).values()
        np.testing.assert_array_equal(found, expected)


def test_windows_in_two_pieces_are_not_pooled_there():
    op = conv2d(
        batch=1, in_channels=8, out_channels=8, height=12, width=12, kernel=3, padding=1
    )  # fmt: skip
    by_kind = {pieces.kind: pieces for pieces in pieces_of(op, 4)}
    rows, channels = by_kind["rows"], by_kind["out_channels"]
    assert rows.spacings[-1] == Spacing(2, 3, 3)
    assert rows.pooled(PoolWindows("max", (2, 1))) is None
    columns = rows.pooled(PoolWindows("max", (1, 2)))
    assert (columns.spacings, columns.out_shape) == (rows.spacings, (1, 8, 12, 6))
    assert rows.pooled(PoolWindows("max", (3, 1))).spacings[-1] == Spacing(2, 1, 1)
    assert channels.pooled(PoolWindows("max", (2, 2))).spacings == channels.spacings


def test_a_product_that_is_faster_for_its_windows_lowers_the_bound():
    """A quarter is put, and pooled tiles lie where the transformed images were."""
    net = network(batch=1, size=64, behind="conv", channels=64)
    plan = build_plan(net, MACHINE, Search(algorithm="winograd2_fused", keep=2))
    candidates = [s.candidate for s in plan.stages if s.work == "product"]
    products = sum(own.cycles - own.refill_cycles for own in candidates)
    assert plan.lower_bound_cycles == pytest.approx(products)
    assert products < plan.estimate_cycles


def test_sums_of_averages_have_no_border_and_that_of_the_averages_is_filled_once():
    """The last windows reach beyond the image: the sums are divided by the counts of each."""
    net = NetworkBuilder("averages", "f64")

    def convolved(y, name, stride, groups):
        _, channels, height, width = net.shape(y)
        op = conv2d(
            batch=9, in_channels=channels, out_channels=4, height=height, width=width, kernel=1,
            stride=stride, padding=1, groups=groups, dtype="f64",
        )  # fmt: skip
        return net.apply(op, y, net.weight(f"w_{name}", op.input_shapes[1]), name=name)

    y = convolved(net.input("x", (9, 4, 6, 6)), "conv", 1, 1)
    pool = average_pool2d((9, 4, 8, 8), 3, stride=2, ceil_mode=True, dtype="f64")
    y = convolved(net.apply(pool, y, name="pool"), "behind", 2, 2)
    built = net.build((y,))
    plan = build_plan(built, MACHINE, quick_search(built))
    sums = next(stage for stage in plan.stages if stage.nodes == ("pool",))
    assert not plan.values[sums.writes].form.has_zeros
    fills = [stage.op for stage in plan.stages if "border" in stage.name]
    assert len(fills) == len(set(fills))
    inputs, weights = numbers(built)
    found = PlannedNetwork(built, plan).run(weights=weights, **inputs)
    for name, expected in built.evaluate({**inputs, **weights}).items():
        np.testing.assert_allclose(found[name], expected, atol=1e-12)
