"""Convolutions that write their results inside the border that the next one wants."""

from types import SimpleNamespace

import numpy as np
import pytest

from support.plans import GROUP
from tilewright.common.expr import Const
from tilewright.graph.builder import NetworkBuilder
from tilewright.ir.nodes import Range
from tilewright.ir.parser import parse
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.plan import Scheduled
from tilewright.network.planning import bordered as bordered_rows
from tilewright.network.planning.bordered import Bordered, bordered, names_in_place, range_behind
from tilewright.network.planning.form import row_major
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.memory import Draft, Heading, unbordered
from tilewright.network.planning.memory import with_border as with_border
from tilewright.network.planning.planner import Planner
from tilewright.network.planning.products import one_group
from tilewright.network.plans import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Bias, Binary, conv2d, relu
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, emit_network
from tilewright.tune.candidate import Candidate


def two_convolutions(between=True):
    net = NetworkBuilder("two", "f64")
    y = net.input("x", (2, 16, 12, 12))
    for number, padding in enumerate((0, 1)):
        _, channels, height, width = net.shape(y)
        op = conv2d(
            batch=2, in_channels=channels, out_channels=32, height=height, width=width,
            kernel=1 if padding == 0 else 3, padding=padding,
        )  # fmt: skip
        y = net.apply(op, y, net.weight(f"w{number}", op.input_shapes[1]), name=f"conv{number}")
        if between:
            y = net.apply(
                Bias(op.out_shape), y, net.weight(f"shift{number}", (32,)), name=f"bias{number}"
            )
            y = net.apply(relu(op.out_shape), y, name=f"relu{number}")
    return net.build((y,))


@pytest.mark.parametrize("between", [False, True], ids=["alone", "with its epilogue"])
def test_a_result_inside_a_border_needs_no_copy_and_is_exact(between):
    net = two_convolutions(between)
    plan = build_plan(net, GROUP, Search(algorithm="implicit", keep=4))
    inside = next(s for s in plan.stages if s.name == "conv0")
    assert inside.nodes == (("conv0", "bias0", "relu0") if between else ("conv0",))
    assert plan.values[inside.writes].form.has_zeros
    assert sum("border" in s.name for s in plan.stages) == 4
    run = simulate_plan(plan)
    number = plan.stages.index(inside)
    assert run.runs[number].cycles == pytest.approx(inside.candidate.cycles, rel=0.1)
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-3, 4, (2, 16, 12, 12)).astype(float)}
    weights = {t.name: rng.integers(-2, 3, t.shape).astype(float) for t in net.weights}
    (expected,) = net.evaluate({**inputs, **weights}).values()
    (found,) = interpret_plan(plan, inputs, weights).values()
    np.testing.assert_array_equal(found, expected)
    artifact = emit_network(plan, GROUP)
    block = constant_block(plan, weights)
    (found,) = run_emulated(artifact, {**inputs, artifact.block: block}).values()
    np.testing.assert_array_equal(found, expected)


def test_a_border_is_priced_and_what_is_none_is_refused():
    net, single = two_convolutions(), one_group(GROUP)
    plan = build_plan(net, GROUP, Search(algorithm="implicit", keep=4), fuse=False)
    candidate = next(s.candidate for s in plan.stages if s.name == "conv1")
    own = Forms().of(candidate)["y"]
    around = with_border(own, (0, 0, 1, 2), (0, 0, 2, 1))
    inside = bordered(candidate, own, around, single)
    assert inside is not None
    assert inside.form == around == Forms().of(inside)["y"]
    assert inside.cycles >= candidate.cycles
    wider = bordered(candidate, own, with_border(own, (0, 0, 1, 2), (0, 0, 2, 2)), single)
    assert len({c.key(single) for c in (candidate, inside, wider) if c}) == 3
    assert bordered(candidate, own, with_border(own, (0, 1, 0, 0), (0,) * 4), single) is None
    assert bordered(candidate, own, own, single) is None
    assert bordered(inside, own, around, single) is None
    planner = Planner(GROUP)
    assert planner.bordered(candidate, own, around) is planner.bordered(candidate, own, around)
    assert planner.bordered(candidate, own, own) is None


def test_what_a_border_adds_is_kept(monkeypatch):
    plan = build_plan(two_convolutions(), GROUP, Search(algorithm="implicit", keep=4), fuse=False)
    candidate = next(s.candidate for s in plan.stages if s.name == "conv1")
    own, single = Forms().of(candidate)["y"], one_group(GROUP)
    around = with_border(own, (0, 0, 1, 2), (0, 0, 2, 1))
    first = bordered(candidate, own, around, single)
    with monkeypatch.context() as patch:
        patch.setattr("tilewright.network.planning.bordered.estimate", None)
        assert bordered(candidate, own, around, single).cycles == first.cycles
    monkeypatch.setattr("tilewright.network.planning.bordered.keeps", lambda _: False)
    assert bordered(candidate, own, around, single).cycles == first.cycles


def test_who_needs_no_border_reads_inside_it_and_is_exact():
    """Of three readers one needs places around the pixels: the others get no copy without."""
    net = NetworkBuilder("readers", "f64")
    shape, kernels = (2, 32, 12, 12), (1, 3, 1, 1)
    ops = [
        conv2d(batch=2, in_channels=32, out_channels=32, height=12, width=12, kernel=k,
               padding=k // 2)
        for k in kernels
    ]  # fmt: skip
    weights = [net.weight(f"w{i}", op.input_shapes[1]) for i, op in enumerate(ops)]
    y = net.apply(ops[0], net.input("x", shape), weights[0], name="conv0")
    total, *others = (net.apply(ops[i], y, weights[i], name=f"conv{i}") for i in (1, 2, 3))
    for number, other in enumerate(others):
        total = net.apply(Binary("add", shape, shape), total, other, name=f"sum{number}")
    net = net.build((total,))
    plan = build_plan(net, GROUP, Search(algorithm="implicit", keep=4))
    (read,) = {s.reads[0] for s in plan.stages if s.name in ("conv1", "conv2", "conv3")}
    assert plan.values[read].form.has_zeros
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-3, 4, shape).astype(float)}
    numbers = {t.name: rng.integers(-2, 3, t.shape).astype(float) for t in net.weights}
    (expected,) = net.evaluate({**inputs, **numbers}).values()
    artifact, block = emit_network(plan, GROUP), constant_block(plan, numbers)
    for found in (
        interpret_plan(plan, inputs, numbers),
        run_emulated(artifact, {**inputs, artifact.block: block}),
    ):
        np.testing.assert_array_equal(*found.values(), expected)


def with_a_shortcut():
    """Convolutions of pixels alone, the second with a shortcut around it."""
    net = NetworkBuilder("shortcut", "f64")
    op = conv2d(batch=2, in_channels=32, out_channels=32, height=12, width=12, kernel=1)
    y = first = net.apply(
        op, net.input("x", op.input_shapes[0]), net.weight("w0", op.input_shapes[1]), name="conv0"
    )
    y = net.apply(op, y, net.weight("w1", op.input_shapes[1]), name="conv1")
    y = net.apply(Binary("add", op.out_shape, op.out_shape), y, first, name="sum")
    return net.build((net.apply(op, y, net.weight("w2", op.input_shapes[1]), name="conv2"),))


def test_what_an_epilogue_reads_lies_inside_a_border_of_its_own():
    plan = build_plan(with_a_shortcut(), GROUP, Search(algorithm="implicit", keep=4))
    stage = next(s for s in plan.stages if s.nodes == ("conv1", "sum"))
    plain = Candidate(*(getattr(stage.candidate, n) for n in ("op", "seed", "nests", "blocks")))
    own = unbordered(plan.values[stage.writes].form)
    around = with_border(own, (0, 0, 1, 1), (0, 0, 1, 1))
    inside = bordered(plain, own, own, one_group(GROUP), around)
    assert inside is not None
    assert (inside.form, inside.beside) == (own, around)
    program = inside.program(GROUP)
    assert program.tensor("beside0").shape != program.tensor("y").shape


def chained_windows():
    """Convolutions of windows with a shortcut around the second."""
    net = NetworkBuilder("windows", "f64")
    x = y = net.input("x", (8, 32, 13, 14))
    op = conv2d(
        batch=8, in_channels=32, out_channels=32, height=13, width=14, kernel=3, padding=1
    )  # fmt: skip
    for number in range(3):
        y = net.apply(op, y, net.weight(f"w{number}", op.input_shapes[1]), name=f"conv{number}")
        y = net.apply(Bias(op.out_shape), y, net.weight(f"shift{number}", (32,)), name=f"b{number}")
        if number == 1:
            y = net.apply(Binary("add", op.out_shape, op.out_shape), y, x, name="sum")
        y = net.apply(relu(op.out_shape), y, name=f"relu{number}")
    return net.build((y,))


@pytest.mark.usefixtures("routines_in_the_cache")
@pytest.mark.parametrize("algorithm", ["winograd2", "winograd4", "winograd2_fused"])
def test_transformed_tiles_take_epilogues_and_borders_and_are_exact(algorithm):
    net = chained_windows()
    plan = build_plan(net, GROUP, Search(algorithm=algorithm, keep=4))
    products = [s for s in plan.stages if s.work == "product"]
    assert {s.candidate.seed.name for s in products} == {algorithm}
    assert products[0].nodes == ("conv0", "b0", "relu0")
    assert isinstance(products[0].candidate, Bordered)
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-3, 4, (8, 32, 13, 14)).astype(float)}
    weights = {t.name: 4.0 * rng.integers(-2, 3, t.shape) for t in net.weights}
    (expected,) = net.evaluate({**inputs, **weights}).values()
    (found,) = interpret_plan(plan, inputs, weights).values()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * scale)
    artifact = emit_network(plan, GROUP)
    block = constant_block(plan, weights)
    (found,) = run_emulated(artifact, {**inputs, artifact.block: block}).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * scale)


def test_what_lies_inside_a_border_is_moved_up_to_where_it_ends():
    whole, part = Range(Const(2), Const(3)), Range(Const(2), Const(3), stop=Const(4))
    assert range_behind(whole, 1) == Range(Const(2) + 1, Const(3))
    assert range_behind(part, 1) == Range(Const(2) + 1, Const(3), stop=Const(4) + 1)


def test_a_tensor_is_named_in_place_where_a_call_takes_its_tiles():
    program = parse("""\
def p():
    x: tensor("f64", "input", cols=4)
    y: tensor("f64", "output", cols=4)
    tile: buffer("f64", 4)
    get(x[at(0, 4)], tile[0])
    wait(tile[0])
    copy(y[at(0, 4)]("a"), tile[0](shape=(4,), roles="a"))
""")
    assert [names_in_place(program, name) for name in ("x", "y")] == [False, True]


@pytest.mark.parametrize(
    ("rows_cycles", "readers", "role", "found"),
    [
        (129.0, 0, "scratch", {1: 2}),
        (130.0, 0, "scratch", {}),
        (131.0, 0, "scratch", {}),
        (None, 0, "scratch", {}),
        (100.0, 1, "scratch", {}),
        (100.0, 0, "output", {}),
    ],
)
def test_rows_are_written_inside_a_border_where_that_takes_less_than_their_copy(
    monkeypatch, rows_cycles, readers, role, found
):
    """A product of 100 cycles and 30 to move its result, which nothing but the copy may read."""
    made = None if rows_cycles is None else SimpleNamespace(cycles=rows_cycles)
    monkeypatch.setattr(bordered_rows, "_by_rows", lambda *_: made)
    monkeypatch.setattr(bordered_rows, "moving_cycles", lambda *_: 30.0)
    product = Scheduled(100.0, SimpleNamespace(cycles=100.0))
    op = InMemory((4,), straight((4,)), (straight((4,)),))
    drafts = [
        Draft(Heading("c", "product"), op, (("x", 0), ("y", 1)), product),
        Draft(Heading("c_layout", "layout"), op, (("x0", 1), ("y", 2))),
        *[Draft(Heading("r", "elementwise"), op, (("x0", 1), ("y", 3)))] * readers,
    ]
    values = [SimpleNamespace(role=role, form=row_major((4,)), size_bytes=32)] * 4
    memory = SimpleNamespace(drafts=list(drafts), values=values)
    assert bordered_rows.rows_written(memory, GROUP) == found
    if found:
        (both,) = memory.drafts
        assert (both.name, both.arguments) == ("c", (("x", 0), ("y", 2)))
        assert (both.scheduled.cycles, both.scheduled.candidate) == (rows_cycles, made)
    else:
        assert memory.drafts == drafts
