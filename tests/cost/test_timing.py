"""Costs of transfers and calls: shapes by hand, Eq. 1 against counting, Table II, whole spaces."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import pairwise, product
from math import gcd, prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.examples import examples
from support.meshes import with_timings
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Value, Var, evaluate
from tilewright.cost.calls import Costs, PricedCall, call_cycles, priced_call
from tilewright.cost.elementwise import LoopForm, elementwise_costs, matrix_operations
from tilewright.cost.nests import starts_of_vectors
from tilewright.cost.prices import call_costs
from tilewright.cost.timing import (
    TransferShape,
    _parts_of_line,
    asked_bytes,
    call_dims,
    issue_cycles,
    moved_bytes,
    moved_bytes_per_block,
    stream_bytes_per_second,
    transfer_cycles,
    transfer_shape,
    with_edges,
)
from tilewright.ir.nodes import Call, Direction, View, at
from tilewright.ir.parser import parse
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    MatrixProduct,
    Repack,
    ScaleAdd,
    WinogradFilter,
    WinogradInput,
    WinogradOutput,
)
from tilewright.ir.visit import walk
from tilewright.ir.winograd import TEXTBOOK_POINTS, transforms
from tilewright.machine import load_machine
from tilewright.machine.sections import GemmTiming

MACHINE = load_machine("sw26010_cg")
BY_HAND = with_timings(
    MACHINE,
    {
        "f64": GemmTiming(138.0, 14.0, 24.25, 16.0, 8.2, 40.0),
        "f32": GemmTiming(138.0, -55.0, 31.75, 19.0, 8.2, 40.0),
    },
)
"""The machine with cycles of its products that a reader can add up."""
F2, F4 = transforms(TEXTBOOK_POINTS[2]), transforms(TEXTBOOK_POINTS[4])


def _shape(*, block: int, blocks: int = 1, pitch: int = 0) -> TransferShape:
    return TransferShape(block, blocks, alignment_bytes=pitch)


@pytest.mark.parametrize(
    ("tensor", "extents", "steps", "expected"),
    [
        pytest.param([64], [64], [1], (512, 1, 1, 0), id="all of a vector"),
        pytest.param([64], [8], [4], (8, 8, 1, 32), id="a step makes blocks of one element"),
        pytest.param([9, 64], [4, 16], [1, 1], (128, 4, 1, 512), id="a tile of a matrix"),
        pytest.param([9, 64], [4, 64], [1, 1], (2048, 1, 1, 0), id="whole rows are one block"),
        pytest.param([9, 64], [4, 64], [2, 1], (512, 4, 1, 1024), id="every second row"),
        pytest.param([9, 64], [4, 1], [1, 1], (8, 4, 1, 512), id="a column"),
        pytest.param([9, 64], [1, 16], [1, 1], (128, 1, 1, 0), id="one row has no pitch"),
        pytest.param([5, 9, 64], [5, 9, 16], [1, 1, 1], (128, 45, 1, 512), id="one stride"),
        pytest.param([5, 9, 64], [5, 3, 16], [1, 1, 1], (128, 15, 5, 512), id="five requests"),
        pytest.param([5, 3, 1], [5, 2, 1], [1, 1, 1], (16, 5, 1, 24), id="size 1 is no gap"),
        pytest.param([5, 9, 64], [5, 0, 16], [1, 1, 1], (128, 0, 0, 4608), id="nothing"),
    ],
)
def test_transfer_shape(
    tensor: list[int], extents: list[int], steps: list[int], expected: tuple[int, ...]
) -> None:
    assert transfer_shape(8, tensor, extents, steps) == TransferShape(*expected)


def _regions(low: int, high: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Regions of `low` to `high` dimensions that lie inside their tensor: (size, extent, step)."""
    one = st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(1, 2)).map(
        lambda d: (d[0] * d[2] + d[2] // 2, min(d[1], d[0]), d[2])
    )
    return st.lists(one, min_size=low, max_size=high)


@given(_regions(1, 4))
def test_blocks_and_requests_cover_the_region(region: list[tuple[int, int, int]]) -> None:
    """The blocks are runs of addresses, a pitch apart in each request, and none is missing."""
    sizes, extents, steps = (list(column) for column in zip(*region, strict=True))
    shape = transfer_shape(1, sizes, extents, steps)
    index = np.indices(extents).reshape(len(extents), -1)
    starts = np.ravel_multi_index([i * s for i, s in zip(index, steps, strict=True)], sizes)
    assert shape.asked_bytes == prod(extents)
    if not starts.size:
        assert shape.requests == 0
        return
    jumps = np.flatnonzero(np.diff(starts, prepend=starts[0] - 2) != 1)
    assert len(jumps) <= shape.blocks
    blocks = starts.reshape(shape.requests, -1, shape.block_bytes)
    assert np.all(np.diff(blocks, axis=2) == 1)
    assert np.all(np.diff(blocks[:, :, 0], axis=1, n=2) == 0)


@given(st.lists(_regions(3, 3), min_size=2, max_size=6))
@examples(40)
def test_arrays_price_each_candidate_as_alone(regions: list[list[tuple[int, int, int]]]) -> None:
    columns = np.array(regions).transpose(2, 1, 0)  # (size, extent, step) x dimension x region
    together = transfer_shape(8, *(list(c) for c in columns))
    cycles = transfer_cycles(MACHINE, "put", together)
    for i, region in enumerate(regions):
        alone = transfer_shape(8, *(list(c) for c in zip(*region, strict=True)))
        assert alone.blocks == together.blocks[i]
        assert alone.requests == together.requests[i]
        assert transfer_cycles(MACHINE, "put", alone) == cycles[i]


@given(st.integers(1, 700), st.integers(1, 700))
def test_average_transactions_equal_a_count_over_the_period(block: int, gap: int) -> None:
    pitch = block + gap
    starts = np.arange(128) * pitch
    touched = (starts + block - 1) // 128 - starts // 128 + 1
    average = moved_bytes_per_block(128, _shape(block=block, blocks=128, pitch=pitch)) / 128
    assert average == touched.mean()


@given(st.integers(1, 8), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))
@example(cores=8, own=1, rows=9, columns=4)
def test_blocks_of_neighbours_touch_each_transaction_once(
    cores: int, own: int, rows: int, columns: int
) -> None:
    """Each core has `own` of the images that lie one behind the other, be it a single one."""
    block, region = 8 * own * rows * columns, ([own, rows, columns], [1, 1, 1])
    shape = transfer_shape(8, [cores * own, rows, columns], *region, [own, 0, 0], [cores, 1, 1])
    starts = np.arange(cores) * block
    alone = (starts + block - 1) // 128 - starts // 128 + 1
    together = -(-cores * block // 128)
    touched = together if block >= 128 else alone.sum()
    assert moved_bytes_per_block(128, shape) * shape.blocks * cores == 128 * touched


def test_a_single_block_is_aligned_and_whole_transactions_move() -> None:
    cores = MACHINE.cores
    assert moved_bytes(MACHINE, _shape(block=129)) == cores * 256
    assert moved_bytes(MACHINE, _shape(block=128, blocks=10, pitch=512)) == cores * 1280
    assert moved_bytes(MACHINE, _shape(block=128, blocks=10, pitch=192)) == cores * 1920


@given(
    st.tuples(*[st.integers(1, 60)] * 2),
    st.tuples(*[st.integers(1, 9)] * 2),
    st.tuples(*[st.integers(0, 3)] * 2),
)
def test_every_core_is_charged_what_it_moves(
    sizes: tuple[int, int], tiles: tuple[int, int], overlap: tuple[int, int]
) -> None:
    """Tiles of a mesh along both dimensions: whole, cut and empty, and more of them cut where they
    overlap.
    """
    cores = (MACHINE.mesh.rows, MACHINE.mesh.columns)
    apart = [max(1, tile - more) for tile, more in zip(tiles, overlap, strict=True)]

    def shape_of(extents: Sequence[int], *_: Sequence[int]) -> TransferShape:
        return transfer_shape(8, sizes, extents, [1, 1])

    def extents_at(at: tuple[int, ...]) -> list[int]:
        along = zip(sizes, tiles, apart, at, strict=True)
        return [max(0, min(tile, size - i * away)) for size, tile, away, i in along]

    left = [
        min(size, tile + 7 * away) for size, tile, away in zip(sizes, tiles, apart, strict=True)
    ]
    together = with_edges(extents_at((0, 0)), apart, cores, left, ("rid", "cid"), shape_of)
    alone = [shape_of(extents_at(at)) for at in np.ndindex(*cores)]
    asked = sum(int(one.asked_bytes) for one in alone)
    moved = sum(one.blocks * moved_bytes_per_block(128, one) for one in alone)
    assert asked_bytes(MACHINE, together) == pytest.approx(asked)
    if not any(overlap):
        assert moved_bytes(MACHINE, together) == pytest.approx(moved)


@given(st.integers(1, 400), st.integers(16, 60), st.integers(1, 3), st.integers(0, 15))
@example(size=114, tile=114, rows=1, offset=0)
def test_cores_share_transactions_only_with_neighbours_that_have_a_part(
    size: int, tile: int, rows: int, offset: int
) -> None:
    """Tiles side by side up to the end of their row, which whole transactions follow: the last one
    is cut, and cores behind it move nothing.
    """
    columns, pitch = MACHINE.mesh.columns, 16 * (tile * MACHINE.mesh.columns + offset)
    left = min(size, columns * tile)

    def shape_of(
        own: Sequence[int], cores: Sequence[int], before: Sequence[int] = ()
    ) -> TransferShape:
        line = [0, tile], cores
        return transfer_shape(8, [9, pitch], own, [1, 1], *line, offset=offset, before=before)

    edges = [rows, min(tile, size)], [0, tile], [1, columns], [0, left], ["", "cid"]
    ends = [(offset + min(i * tile, left)) * 8 for i in range(columns + 1)]
    counted = 0
    for start, end in pairwise(ends):
        if start < end:
            neighbour = start % 128 > 0 and start > ends[0] and end - start >= 128
            counted += (end - 1) // 128 - start // 128 + 1 - neighbour
    moved = moved_bytes(MACHINE, with_edges(*edges, shape_of))
    assert moved == pytest.approx(128 * counted * rows * MACHINE.mesh.rows)


@given(st.integers(1, 9), st.sampled_from([1, 2, 4]))
def test_windows_lie_side_by_side_with_those_that_start_at_their_end(
    lines: int, several: int
) -> None:
    """Neighbours are half transactions apart, and each window reaches up to another core's."""
    cores, away = MACHINE.mesh.columns, 8 * lines
    window = away * several
    shape = transfer_shape(8, [1, 1 << 20], [1, window], [1, 1], [0, away], [1, cores])
    starts = [run * 8 * away for run in range(several)]
    ends = [[at + i * window * 8 for i in range(cores // several + 1)] for at in starts]
    counted = 0
    for start, end in (pair for run in ends for pair in pairwise(run)):
        shared = start % 128 > 0 and end - start >= 128 and start not in starts
        counted += (end - 1) // 128 - start // 128 + 1 - shared
    assert moved_bytes_per_block(128, shape) * cores == 128 * counted


@given(st.integers(1, 90), st.integers(1, 40), st.integers(2, 5), st.integers(0, 20))
def test_turns_start_their_blocks_where_they_move_them(
    elements: int, move: int, turns: int, first: int
) -> None:
    """Placed turn by turn, by the element at which each starts, the transactions are counted; all
    turns at once are their mean where the blocks are whole transactions or the turns are many.
    """
    at = [transfer_shape(8, [999], [elements], [1], offset=t * move % 16) for t in range(turns)]
    counted = [(t * move * 8 % 128 + elements * 8 - 1) // 128 + 1 for t in range(turns)]
    assert [moved_bytes_per_block(128, one) / 128 for one in at] == counted
    many = transfer_shape(8, [999], [elements], [1], moves=[(0, move, 16)], offset=first)
    every = [((first + t * move) * 8 % 128 + elements * 8 - 1) // 128 + 1 for t in range(16)]
    assert moved_bytes_per_block(128, many) == pytest.approx(128 * np.mean(every))
    few = transfer_shape(8, [999], [16], [1], moves=[(0, move, turns)])
    here = [1 if t * move % 16 == 0 else 2 for t in range(min(turns, 16 // np.gcd(move, 16)))]
    assert moved_bytes_per_block(128, few) == pytest.approx(128 * np.mean(here))


def _published() -> list[tuple[int, float, float]]:
    path = resources.files("tilewright.papers") / "swdnn" / "published" / "table2.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [(int(s), float(g), float(p)) for s, g, p in list(csv.reader(lines))[1:]]


@pytest.mark.parametrize(
    ("direction", "column", "mean", "worst"), [("get", 1, 0.028, 0.12), ("put", 2, 0.031, 0.14)]
)
def test_bandwidth_of_table_ii(
    direction: Direction, column: int, mean: float, worst: float
) -> None:
    """Sizes of 64 bytes and more; the machine file states the same errors of its fit."""
    rows = [row for row in _published() if row[0] >= 64]
    errors = [
        abs(
            stream_bytes_per_second(MACHINE, direction, _shape(block=row[0])) / 1e9 / row[column]
            - 1
        )
        for row in rows
    ]
    assert len(rows) == 11
    assert np.mean(errors) < mean
    assert max(errors) < worst


def test_service_by_hand_and_issue_per_request() -> None:
    shape = _shape(block=256, blocks=4, pitch=1024)
    cycles = transfer_cycles(MACHINE, "get", shape)
    assert cycles == pytest.approx(64 * 4 * (2 + 0.89) * 128 / 33.1e9 * 1.45e9)
    assert issue_cycles(MACHINE, transfer_shape(8, [5, 9, 64], [5, 3, 16], [1, 1, 1])) == 150
    assert transfer_cycles(MACHINE, "get", transfer_shape(8, [9, 64], [0, 8], [1, 1])) == 0


@pytest.mark.parametrize(
    ("dims", "product", "dtype", "expected"),
    [
        ({"m": 16, "n": 4, "k": 1}, MatrixProduct("m"), "f64", 138 + 14 + 8 * (16 + 24.25)),
        ({"m": 16, "n": 16, "k": 1}, MatrixProduct("n"), "f64", 138 + 14 + 4 * 8 * (16 + 24.25)),
        (
            {"m": 17, "n": 9, "k": 32},
            MatrixProduct("m"),
            "f64",
            138 + 2 * 14 + 2 * 3 * 8 * (32 * 16 + 24.25),
        ),
        (
            {"m": 32, "n": 4, "k": 9},
            MatrixProduct("m", workspace="w"),
            "f64",
            138 + 2 * 14 + 2 * 8 * (9 * 16 + 24.25) + 3 * (8.2 + 2 * 40),
        ),
        (
            {"m": 16, "n": 4, "k": 2},
            MatrixProduct("m"),
            "f32",
            138 - 55 + 8 * (2 * 19 + 31.75),
        ),
        ({"m": 16, "n": 0, "k": 8}, MatrixProduct("m"), "f64", 0),
    ],
)
def test_gemm(dims: dict[str, int], product: MatrixProduct, dtype: str, expected: float) -> None:
    assert _priced(product, dims, dtype) == pytest.approx(expected)


def test_gemm_over_a_space_and_its_flops() -> None:
    dims = {"m": np.array([16, 32]), "n": 8, "k": np.array([8, 0])}
    product = MatrixProduct("m")
    cycles = _priced(product, dims)
    assert cycles.tolist() == [138 + 14 + 2 * 8 * (8 * 16 + 24.25), 0]
    assert product.flops(dims, MACHINE.mesh.columns).tolist() == [2 * 16 * 8 * 8 * 8, 0]
    assert Fill().flops(dims, MACHINE.mesh.columns) == 0


def _priced(primitive: Primitive, dims: Mapping[str, Value], dtype: str = "f64") -> Value:
    return call_cycles(BY_HAND, PricedCall(primitive, dims, dtype), call_costs(BY_HAND))


def _view(shape: tuple[int, ...], extents: tuple[int, ...], roles: str) -> View:
    ranges = tuple(at(0, e) for e in extents)
    return View("tile", Const(0), tuple(map(Const, shape)), ranges, roles)


def _cycles(call: Call) -> float:
    """Cycles of a call in compiled loops."""
    dims = {name: evaluate(e, {}) for name, e in call_dims(call).items()}
    loops = elementwise_costs(LoopForm())
    return float(call_cycles(BY_HAND, PricedCall(call.primitive, dims), loops))


def test_vector_primitives_by_hand() -> None:
    """Vectors of 4; per vector one cycle a load, store and operation, and 2 for the loop."""
    whole, strip = _view((6, 10), (6, 10), "ab"), _view((6, 10), (6, 5), "ab")
    assert _cycles(Call(Fill(), (whole,))) == 15 * (1 + 2)
    assert _cycles(Call(Fill(), (strip,))) == 6 * 2 * (1 + 2)
    assert _cycles(Call(Copy(), (whole, whole))) == 15 * (2 + 2)
    assert _cycles(Call(ScaleAdd(), (whole, whole))) == 15 * (3 + 1 + 2)
    assert _cycles(Call(ScaleAdd(0.5), (whole,))) == 15 * (2 + 1 + 2)


@pytest.mark.parametrize("extents", list(product((1, 2, 3), (1, 2, 3), (2, 3))), ids=str)
def test_the_run_of_a_call_is_contiguous_in_each_operand(extents: tuple[int, int, int]) -> None:
    """As many elements as lie side by side from the first one on."""
    for sizes in product(*(range(extent, 4) for extent in extents)):
        places = np.ravel_multi_index(tuple(map(np.ravel, np.indices(extents))), sizes)
        beside = int((places == np.arange(len(places))).cumprod().sum())
        view, whole = _view(sizes, extents, "abc"), _view(extents, extents, "abc")
        for operands in ((view, view), (view, whole), (whole, view)):
            dims = call_dims(Call(Copy(), operands))
            assert evaluate(dims["common_run"], {}) == beside


def test_repack_costs_loads_of_the_old_and_stores_of_the_new_tile() -> None:
    new, old = _view((8, 16), (8, 16), "ab"), _view((6, 10), (6, 10), "ab")
    assert _cycles(Call(Repack(), (new, old))) == 6 * 3 * 1 + 8 * 4 * (1 + 2)


def test_axes_that_a_repack_leaves_alone_are_taken_together() -> None:
    """So tiles of any rank that change along as many axes are priced side by side."""
    new, old = (2, 3, 8, 5, 7, 16), (2, 3, 6, 5, 7, 10)
    flat_new, flat_old = (6, 8, 35, 16), (6, 6, 35, 10)
    dims = [
        call_dims(Call(Repack(), (_view(n, n, "." * len(n)), _view(o, o, "." * len(o)))))
        for n, o in ((new, old), (flat_new, flat_old))
    ]
    assert dims[0] == dims[1]
    axes = {name: evaluate(e, {}) for name, e in dims[0].items() if name.startswith("axis_")}
    assert axes == {"axis_0": 6, "axis_1": 8, "axis_2": 35, "axis_3": 16, "axis_4": 1}


def test_repack_costs_a_core_whose_own_tile_is_whole_as_much_as_the_others() -> None:
    """Cores run in lockstep: the tile of the last core is the one that has a boundary."""
    whole = _view((8, 16), (8, 16), "ab")
    assert _cycles(Call(Repack(), (whole, whole))) == 8 * 4 * 1 + 8 * 4 * (1 + 2)


@pytest.mark.parametrize(
    ("matrix", "operations"),
    [
        (F2.input, 4),
        (F2.filter, 6),
        (F2.output, 4),
        (F4.input, 2 + 3 + 3 + 3 + 3 + 2),
        (F4.filter, 1 + 3 + 3 + 2 + 2 + 1),
        (F4.output, 4 + 3 + 3 + 4),
    ],
)
def test_operations_of_the_transform_matrices(matrix: np.ndarray, operations: int) -> None:
    assert matrix_operations(matrix) == operations


def test_winograd_by_hand() -> None:
    """F(2, 3): 4 x 4 points; 2 x 6 tiles of 8 channels are 24 vectors."""
    transformed = _view((16, 12, 8), (16, 12, 8), "xtk")
    window = _view((6, 14, 8), (6, 14, 8), "rck")
    assert _cycles(Call(WinogradInput(2), (transformed, window))) == 24 * (32 + 8 * 4 + 2)
    result = _view((4, 12, 8), (4, 12, 8), "rck")
    assert _cycles(Call(WinogradOutput(2), (result, transformed))) == 24 * (16 + 4 + 6 * 4 + 4 + 2)
    kernel, points = _view((3, 3, 8), (3, 3, 8), "rck"), _view((16, 8), (16, 8), "xk")
    assert _cycles(Call(WinogradFilter(2), (points, kernel))) == 2 * (9 + 16 + 7 * 6 + 2)


def test_dims_of_a_gemm_multiply_the_extents_of_a_role() -> None:
    i = Var("i")
    c = View("c", Const(0), (Const(8), i, Const(4)), (at(0, 8), at(0, i), at(0, 4)), "mnn")
    a = View("a", Const(0), (Const(8), Const(2)), (at(0, 8), at(0, 2)), "mk")
    b = View("b", Const(0), (Const(2), i, Const(4)), (at(0, 2), at(0, i), at(0, 4)), "knn")
    dims = call_dims(Call(MatrixProduct(), (c, a, b)))
    assert {name: str(dims[name]) for name in "mnk"} == {"m": "8", "n": "i * 4", "k": "2"}


def test_another_table_and_an_unknown_primitive() -> None:
    costs: Costs = {MatrixProduct: lambda machine, call: 7 * call.dims["k"]}
    product = PricedCall(MatrixProduct(), {"m": 1, "n": 1, "k": 3})
    assert call_cycles(MACHINE, product, costs) == 21
    with pytest.raises(ProgramError) as error:
        call_cycles(MACHINE, PricedCall(Copy(), {}), costs)
    assert str(error.value) == "primitive 'copy' has no cost; those with one are gemm"


@example(3, 1, 4, 1)  # neighbours
@example(1, 1, 4, 1)  # of one place
@example(3, 0, 4, 1)  # all at the first place
@example(0, 3, 4, 1)  # without a place
@given(st.integers(0, 20), st.integers(0, 25), st.integers(1, 9), st.integers(0, 80))
def test_parts_of_a_line_of_cores_are_what_its_cores_have(
    extent: int, distance: int, cores: int, beyond: int
) -> None:
    """Cores `distance` apart have `extent` places each, as far as there are so many, `beyond` those
    of the first; none if that is all that every core has.
    """
    left = extent + beyond
    own = [min(max(left - core * distance, 0), extent) for core in range(cores)]
    parts = _parts_of_line(extent, distance, cores, left)
    assert (parts == []) == (own == [extent] * cores)
    if parts:
        assert sum(part.share * part.extent for part in parts) * cores == pytest.approx(sum(own))
        assert sum(part.share for part in parts) * cores == pytest.approx(np.count_nonzero(own))
        assert parts[0].share * cores == own.count(extent)


TAPS = """\
def taps():
    y_tile: buffer("f64", 40)
    x_tile: buffer("f64", 80)
    w_tile: buffer("f64", 4)
    for tap in range(3):
        for line in range(5):
            multiply_accumulate(
                y_tile[0](line, at(0, 8), shape=(5, 8), roles=".q"),
                x_tile[0](line, at(tap * {step}, 8), shape=(5, {width}), roles=".q"),
                w_tile[0](tap, shape=(3,), roles="."),
            )
"""


@pytest.mark.parametrize(
    ("step", "width", "start", "turns"),
    [(4, 16, 1, 1), (2, 16, 2, 3), (1, 12, 4, 3), (2, 14, 2, 15), (4, 15, 4, 5)],
)
def test_where_operands_start_within_a_vector(
    step: int, width: int, start: int, turns: int
) -> None:
    """Taps move x by `step` elements, lines by `width`; y keeps its place, whatever w does."""
    program = parse(TAPS.format(step=step, width=width))
    (call,) = (s for s in walk(program.body) if isinstance(s, Call))
    found = starts_of_vectors(call, {"tap": Const(3), "line": Const(5)})
    places = [line * width + tap * step for tap in range(3) for line in range(5)]
    assert start == max(4 // gcd(place, 4) for place in places)
    assert {name: evaluate(e, {}) for name, e in found.items()} == {
        "y_starts": 1, "x_starts": start, "x_turns": turns
    }  # fmt: skip


PRODUCTS = """\
def products():
    c: tensor("f64", "output", m=4, n=8)
    a: tensor("f64", "{kind}", m=4, k=4)
    b: tensor("f64", "input", k=4, n=8)
    c_tile: buffer("f64", 32)
    a_tile: buffer("f64", 16)
    b_tile: buffer("f64", 64)
    get(a[at(0, 4), at(0, 4)], a_tile[0])
    gemm(c_tile[0](shape=(4, 8), roles="mn"), {a}, {b}, vector="n")
"""
A, B = (f'{x}_tile[0](shape=({shape}), roles="{roles}")' for x, shape, roles in
        (("a", "4, 4", "mk"), ("b", "4, 8", "kn")))  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "a", "b", "packed"),
    [
        ("input", A, B, True),
        ("input", 'a[at(0, 4), at(0, 4)]("mk")', B, False),
        ("input", A, 'b[at(0, 4), at(0, 8)]("kn")', False),
        ("input", A, 'b_tile[0](at(0, 4), at(0, 8), shape=(4, 16), roles="kn")', False),
        ("input", 'a_tile[0](shape=(2, 2, 4), roles="mmk")', B, False),
        ("constant", A, B, False),
    ],
)
def test_a_product_is_packed_if_both_factors_are_whole_matrices_in_buffers(
    kind: str, a: str, b: str, packed: bool
) -> None:
    program = parse(PRODUCTS.format(kind=kind, a=a, b=b))
    (call,) = (s for s in walk(program.body) if isinstance(s, Call))
    assert priced_call(call, {}, program).packed is packed
