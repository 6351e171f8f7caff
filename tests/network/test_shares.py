"""Work that several core groups do together: pieces of products, shares of other stages."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from support.examples import one_in
from tilewright.common.progress import uncounted
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.groups import CutTensor
from tilewright.network.interpret import interpret_plan
from tilewright.network.plan import Plan
from tilewright.network.planning import products
from tilewright.network.planning.form import Form, StoredDim, row_major
from tilewright.network.planning.pieces import Spacing, pieces_of
from tilewright.network.planning.planner import Planner
from tilewright.network.planning.products import Ranked, ranked_stages, steady
from tilewright.network.planning.shares import StageDivision, least_cycles_alone, share_of
from tilewright.network.plans import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Bias, Binary, Op, conv2d, gemm
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.mapping import InMemory

pytestmark = one_in(2)


MACHINE = load_machine("sw26010")


IMPLICIT = Search(algorithm="implicit", keep=1)


def of_one_operator(op: Op, search: Search = IMPLICIT) -> tuple[Network, Plan]:
    net = NetworkBuilder("one", "f64")
    x, w = net.input("x", op.input_shapes[0]), net.weight("w", op.input_shapes[1])
    whole = net.build((net.apply(op, x, w, name="y"),))
    return whole, build_plan(whole, MACHINE, search)


@pytest.mark.parametrize(
    "op",
    [
        conv2d(batch=1, in_channels=16, out_channels=64, height=6, width=6, kernel=1, stride=2),
        conv2d(
            batch=1,
            in_channels=18,
            out_channels=14,
            height=2,
            width=2,
            kernel=1,
            stride=2,
            groups=2,
        ),
        conv2d(batch=1, in_channels=8, out_channels=6, height=5, width=7, kernel=3, padding=1),
        conv2d(batch=1, in_channels=8, out_channels=5, height=8, width=7, kernel=3, padding=1),
        conv2d(
            batch=1,
            in_channels=8,
            out_channels=13,
            height=24,
            width=39,
            kernel=3,
            padding=(2, 0, 1, 1),
            stride=2,
            dilation=2,
        ),
    ],
    ids=[
        "rows that a stride leaves out",
        "rows that a stride leaves out of channel groups",
        "channels that come out even on fewer groups",
        "rows that read those of their neighbours",
        "rows that are apart and read every other one",
    ],
)
def test_a_product_that_groups_compute_together_is_exact(op: Op) -> None:
    net, plan = of_one_operator(op)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype(float) for shape in op.input_shapes)
    found = interpret_plan(plan, {"x": x}, {"w": w})
    np.testing.assert_array_equal(found["y"], net.evaluate({"x": x, "w": w})["y"])
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles


@pytest.mark.parametrize(
    "op",
    [
        gemm(m=16, n=16, k=2048, transpose_b=True),
        gemm(m=8, n=24, k=1024, alpha=2.0, dtype="f32"),
        gemm(m=24, n=8, k=2048, transpose_a=True),
    ],
    ids=["slices of rows", "slices of one operand are rows", "slices of both are rows"],
)
def test_groups_divide_the_sums_of_a_small_result_and_add_them_up(op: Op) -> None:
    net = NetworkBuilder("one", op.dtype)
    x, w = (net.input(name, shape) for name, shape in zip("xw", op.input_shapes, strict=True))
    whole = net.build((net.apply(op, x, w, name="y"),))
    plan = build_plan(whole, MACHINE, Search(keep=1))
    product, adding = plan.stages
    assert product.division is not None
    assert (product.division.kind, adding.label) == (
        "terms",
        f"map {op.m * op.n}: x0 + x1 + x2 + x3",
    )
    assert plan.values[product.writes].form == row_major((4, op.m * op.n))
    rng = np.random.default_rng(0)
    given = {t: rng.integers(-3, 4, whole.tensors[t].shape).astype(float) for t in (x, w)}
    found = interpret_plan(plan, given, {})
    np.testing.assert_array_equal(found["y"], whole.evaluate(given)["y"])
    run = simulate_plan(plan)
    assert plan.estimate_cycles == pytest.approx(run.cycles, rel=0.05)


@pytest.mark.parametrize(
    ("channels", "height", "kind"),
    [(64, 32, "rows"), (128, 7, "out_channels")],
    ids=["by rows", "by channels"],
)
def test_what_follows_a_product_is_computed_in_its_pieces(
    channels: int, height: int, kind: str
) -> None:
    op = conv2d(
        batch=1, in_channels=channels, out_channels=channels, height=height, width=32, kernel=1
    )
    net = NetworkBuilder("block", "f64")
    x = net.input("x", op.input_shapes[0])
    w, bias = net.weight("w", op.input_shapes[1]), net.weight("bias", (channels,))
    before = net.apply(op, x, w, name="before")
    y = net.apply(op, before, w, name="y")
    y = net.apply(Bias(op.out_shape), y, bias, name="biased")
    y = net.apply(Binary("add", op.out_shape, op.out_shape), y, before, name="sum")
    whole = net.build((net.apply(op, y, w, name="behind"),))
    plan = build_plan(whole, MACHINE, IMPLICIT)
    (fused,) = (stage for stage in plan.stages if stage.nodes == ("y", "biased", "sum"))
    assert fused.division is not None
    assert fused.division.kind == kind
    rng = np.random.default_rng(0)
    given = {t: rng.integers(-3, 4, whole.tensors[t].shape).astype(float) for t in (x, w, bias)}
    found = interpret_plan(plan, {x: given[x]}, {w: given[w], bias: given[bias]})
    np.testing.assert_array_equal(found["behind"], whole.evaluate(given)["behind"])


@pytest.mark.parametrize(
    ("op", "search", "images"),
    [
        (gemm(m=2, n=2048, k=2048, transpose_b=True), Search(keep=1), 1),
        (
            conv2d(batch=4, in_channels=64, out_channels=64, height=14, width=14, kernel=1),
            IMPLICIT,
            4,
        ),
    ],
    ids=["weights are read once by all groups", "each group has an image of its own"],
)
def test_a_few_images_are_computed_together_where_that_is_faster(
    op: Op, search: Search, images: int
) -> None:
    _, plan = of_one_operator(op, search)
    assert plan.groups == images
    assert plan.together == (4 if images == 1 else 1)


def test_pieces_of_rows_are_slices_of_an_image_with_its_border() -> None:
    op = conv2d(batch=1, in_channels=16, out_channels=16, height=8, width=6, kernel=3, padding=1)
    rows = next(p for p in pieces_of(op, 4) if p.kind == "rows")
    assert rows.piece == replace(op, height=2)
    assert rows.spacings == (Spacing(2, 2, 4), None, Spacing(2, 2, 2))
    order = (StoredDim(3, 1, 8), StoredDim(1, 1, 16))
    own = Form(rows.piece.input_shapes[0], (StoredDim(2, 1, 4), *order), (0, 0, 1, 1))
    whole = Form(op.input_shapes[0], (StoredDim(2, 1, 10), *order), (0, 0, 1, 1))
    assert rows.whole_form(0, own) == whole
    assert rows.steps([whole, row_major(op.input_shapes[1]), row_major(op.out_shape)])[0] == 256


def test_pieces_of_rows_compute_their_rows_whatever_the_window() -> None:
    """Each on its places of the image with its border, under a stride and a dilation of its own."""
    op = conv2d(
        batch=1, in_channels=2, out_channels=3, height=18, width=9, kernel=(3, 2),
        stride=(3, 2), dilation=(2, 1), padding=(1, 2, 1, 0),
    )  # fmt: skip
    rows = next(p for p in pieces_of(op, 3) if p.kind == "rows")
    taken, weights, made = rows.spacings
    assert (weights, rows.count, made) == (None, 3, Spacing(2, 2, 2))
    assert taken is not None
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype(float) for shape in op.input_shapes)
    top, left, bottom, right = op.padding
    whole = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    alone = replace(op, height=taken.places, width=whole.shape[3], padding=(0, 0, 0, 0))
    found = [
        alone.reference(whole[:, :, start : start + taken.places], w)
        for start in range(0, 3 * taken.step, taken.step)
    ]
    np.testing.assert_array_equal(np.concatenate(found, axis=2), op.reference(x, w))
    assert rows.piece.height + top + bottom == taken.places


def test_pieces_that_overlap_along_an_inner_dimension_are_no_parts_of_one_tensor() -> None:
    op = conv2d(batch=1, in_channels=16, out_channels=16, height=8, width=6, kernel=3, padding=1)
    rows = next(p for p in pieces_of(op, 4) if p.kind == "rows")
    dims = (StoredDim(1, 1, 16), StoredDim(2, 1, 4), StoredDim(3, 1, 8))
    assert rows.whole_form(0, Form(rows.piece.input_shapes[0], dims, (0, 0, 1, 1))) is None


def test_a_share_along_an_inner_dimension_sees_its_own_part_alone() -> None:
    turned = Access((5, 8), (((1, 1),), ((0, 1),)), (0, 0))
    found = share_of(InMemory((8, 5), straight((8, 5)), (turned,)), 4)
    assert found is not None
    share, division = found
    assert division == StageDivision("elements", 4, (2, 10))
    assert share.input_shapes == ((5, 4, 2),)
    assert share.out_shape == (2, 5)


def test_what_comes_out_even_on_no_number_of_groups_is_not_divided() -> None:
    assert share_of(InMemory((7, 5), straight((7, 5)), (straight((7, 5)),)), 4) is None


@pytest.mark.parametrize(
    ("shared", "moved", "elements"), [(True, True, 6), (False, True, 18), (False, False, 0)]
)
def test_a_shared_array_is_moved_once_and_one_that_lies_as_it_is_taken_never(
    shared: bool, moved: bool, elements: int
) -> None:
    """Three groups take two rows of three elements each."""
    form, whole = row_major((2, 3)), Box.whole((2, 3))
    stages = (of_one_operator(gemm(16, 16, 16), Search(keep=1))[1].stages,) * moved
    cut = CutTensor("x", "f64", (2, 3), (form,) * 3, (whole,) * 3, shared, stages)
    assert cut.moved_bytes == 8 * elements


def mapped(*extents: int, result: Access | None = None, body: str, **operands: Access) -> InMemory:
    return InMemory(extents, result or straight(extents), tuple(operands.values()), body)


TURNED = Access((4, 512, 49), (((0, 1),), ((2, 1),), ((1, 1),)), (0, 0, 0))
SIDE = Access((64, 58, 58), (((0, 1),), (), ((1, 1),)), (0, 57, 0))
EACH = Access((64,), (((1, 1),),), (0,))
WINDOWS = Access((64, 32), (((0, 1),), ((1, 1), (2, 1))), (0, 0))
STAGES = {
    "border": mapped(64, 58, result=SIDE, body="0.0"),
    "copy": mapped(4, 49, 512, body="x0", x=TURNED),
    "scaling": mapped(448, 64, 112, body="x0 * x1", x=straight((448, 64, 112)), s=EACH),
    "windows that overlap": mapped(64, 30, 3, body="x0", x=WINDOWS),
}


@pytest.mark.parametrize("op", STAGES.values(), ids=list(STAGES))
def test_one_group_takes_no_less_than_moving_each_place_once(op: InMemory) -> None:
    (alone,) = ranked_stages({op: "y"}, MACHINE).values()
    assert 0.03 * alone.cycles < least_cycles_alone(op, MACHINE) <= alone.cycles


def test_the_whole_of_a_stage_is_ranked_only_where_one_group_may_be_as_fast() -> None:
    planner, (border, *_, scaling, _) = Planner(MACHINE), STAGES.values()
    found = planner.scheduled({border: "border", scaling: "y"}, uncounted, divide=True)
    assert all(own.division is not None for own in found.values())
    assert [*planner.alone] == [border], "four groups save less than their meeting may take"


@pytest.mark.parametrize(("share_cycles", "refilled"), [(24_000, ["y"]), (20_000, [])])
def test_refills_of_a_product_are_left_that_groups_compute_in_half_the_time_and_two_meetings(
    monkeypatch: pytest.MonkeyPatch, share_cycles: int, refilled: list[str]
) -> None:
    found: list[str] = []

    def steadied(every, *_):
        found.extend(candidate.name for own in every for candidate in own)
        return [tuple(own) for own in every]

    monkeypatch.setattr(products, "steadied", steadied)
    op, whole = gemm(16, 16, 16), SimpleNamespace(cycles=50_000, name="y")
    shares = {op: (SimpleNamespace(cycles=share_cycles),)}
    ranked = Ranked({op: (whole,)}, shares=shares)
    assert steady(ranked, MACHINE).candidates == {op: (whole,)}
    assert found == refilled
