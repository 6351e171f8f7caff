"""InMemory that are printed from accesses compute what mappings and reductions mean."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.mappings import inputs_of, mappings, reductions
from support.native import quick_library
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.targets.host.emit.threads import THREAD, THREADS, thread_functions
from tilewright.targets.host.network.loops import turns_text, write_in_memory
from tilewright.targets.host.vectors.functions import SEPARATE, called_functions
from tilewright.targets.host.vectors.instruction_sets import PORTABLE

HEADERS = "#include <math.h>\n#include <string.h>\n"
UNTOUCHED = 77.0
"""Content of memory that nothing writes."""


def written(op: InMemory, threads: int = 1) -> str:
    """The C text of an operator."""
    writer = CWriter()
    write_in_memory(op, writer, threads, squares_ahead=4)
    return writer.text()


def library(ops: Sequence[InMemory], threads: int) -> ctypes.CDLL:
    """A function for each operator: `case3(y, x0, x1, ..., thread, threads)`."""
    writer = CWriter()
    writer.lines(thread_functions())
    for number, op in enumerate(ops):
        kind = dtype(op.dtype).c_name
        given = [f"const {kind} *x{i}" for i in range(len(op.input_shapes))]
        team = [f"long {THREAD}", f"long {THREADS}"]
        writer.head(f"void case{number}", [f"{kind} *y", *given, *team])
        with writer.block():
            writer.lines(written(op, threads))
    text = writer.text()
    files = {"loops.c": HEADERS + called_functions(text, PORTABLE) + turns_text(text) + text}
    return quick_library(files, ("-lm", SEPARATE))


def check_case(op: InMemory, function: Any, threads: int, seed: int = 0) -> None:
    """The function computes the reference, each thread its part, and leaves the rest alone."""
    kind = dtype(op.dtype).numpy
    operands = [x.astype(kind) for x in inputs_of(op, np.random.default_rng(seed))]
    found = np.full(op.out_shape, UNTOUCHED, kind)
    arguments = [ctypes.c_void_p(a.ctypes.data) for a in (found, *operands)]
    for thread in range(threads):
        function(*arguments, ctypes.c_long(thread), ctypes.c_long(threads))
    expected = np.full(op.out_shape, UNTOUCHED, kind)
    index = op.result.index(op.extents[: op.outer])
    expected[index] = op.reference(*operands)[index]
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=repr(op))


@pytest.mark.hypothesis
@pytest.mark.parametrize("threads", [1, 3])
def test_loops_compute_the_reference_and_leave_the_rest_alone(threads: int) -> None:
    cases = st.lists(st.one_of(mappings(), reductions(beyond=True)), min_size=12, max_size=12)

    @examples(4)
    @given(cases)
    def check(ops: list[InMemory]) -> None:
        code = library(ops, threads)
        for number, op in enumerate(ops):
            check_case(op, code[f"case{number}"], threads, number)

    check()


PIXELS, CHANNELS = 6, 32


def test_windows_skip_what_lies_beyond_the_operand_with_vectors_of_channels() -> None:
    windows = Access((PIXELS, CHANNELS), (((0, 2), (2, 1)), ((1, 1),)), (-1, 0), -np.inf)
    op = InMemory((3, CHANNELS, 3), straight((3, CHANNELS)), (windows,), gather="max", dtype="f32")
    assert (
        written(op)
        == """\
for (long i0 = 0; i0 < 3; i0++) {
    #pragma GCC ivdep
    for (long i1 = 0; i1 < 32; i1++) {
        y[i0 * 32L + i1] = -INFINITY;
    }
    const long at2 = -1 + i0 * 2L;
    const long first2 = at2 < 0 ? 0 - at2 : 0;
    const long end2 = at2 + 2 < 6 ? 3 : 6 - at2;
    for (long i2 = first2; i2 < end2; i2++) {
        #pragma GCC ivdep
        for (long i1 = 0; i1 < 32; i1++) {
            const float x = x0[-32 + i0 * 64L + i1 + i2 * 32L];
            y[i0 * 32L + i1] = y[i0 * 32L + i1] < x ? x : y[i0 * 32L + i1];
        }
    }
}
"""
    )


def test_planes_are_interleaved_by_vectors_of_pixels() -> None:
    planes = Access((3, 5, 40), (((2, 1),), ((0, 1),), ((1, 1),)), (0, 0, 0))
    op = InMemory((5, 40, 3), straight((5, 40, 3)), (planes,), dtype="f32")
    assert (
        written(op)
        == """\
for (long i0 = 0; i0 < 5; i0++) {
    #pragma GCC ivdep
    for (long i1 = 0; i1 < 40; i1++) {
        #pragma GCC unroll 3
        for (long i2 = 0; i2 < 3; i2++) {
            y[i0 * 120L + i1 * 3L + i2] = x0[i0 * 40L + i1 + i2 * 200L];
        }
    }
}
"""
    )


def test_what_lies_beyond_a_tensor_must_change_nothing() -> None:
    windows = Access((4,), (((0, 1), (1, 1)),), (-1,), 0.0)
    with pytest.raises(ShapeError) as caught:
        InMemory((4, 3), straight((4,)), (windows,), gather="max")
    assert str(caught.value) == (
        "reduce: places beyond the tensor would count as 0.0 in a max, of which -inf changes "
        "nothing"
    )
    with pytest.raises(ShapeError) as caught:
        InMemory((4, 3), straight((4, 3)), (windows,))
    assert str(caught.value) == "map: only what a reduction gathers may lie beyond a tensor"


def test_products_are_summed_as_they_lie() -> None:
    """Depthwise windows: what lies beyond the image is skipped, whatever the weight is there."""
    image = Access((4, PIXELS), (((0, 1),), ((1, 1), (2, 1))), (0, -1), 0.0)
    weights = Access((4, 3), (((0, 1),), ((2, 1),)), (0, 0))
    op = InMemory((4, PIXELS, 3), straight((4, PIXELS)), (image, weights), "x0 * x1", "sum")
    x, w = inputs_of(op, np.random.default_rng(0))
    found = np.full(op.out_shape, UNTOUCHED)
    arguments = [ctypes.c_void_p(a.ctypes.data) for a in (found, x, w)]
    library([op], 1)["case0"](*arguments, ctypes.c_long(0), ctypes.c_long(1))
    np.testing.assert_array_equal(found, op.reference(x, w))
    padded = np.pad(x, ((0, 0), (1, 1)))
    by_hand = sum(padded[:, t : t + PIXELS] * w[:, t : t + 1] for t in range(3))
    np.testing.assert_array_equal(found, by_hand)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(90,), (4, 30)])
def test_angles_of_any_size_are_computed_in_place(shape: tuple[int, ...], threads: int) -> None:
    """Rows of small ones, of large ones, of both, and of what is no number."""
    chance, own = np.random.default_rng(0), straight(shape)
    x, z = (chance.uniform(-9, 9, shape).astype(np.float32) for _ in range(2))
    x[1:2], x[2:3, ...], z[3:, ...] = 3e9, 1e30, z[3:, ...] * 1e6
    x[-1:] = np.inf
    op = InMemory(shape, own, (own, own), "sin(2 * x0) + x0 * cos(x1)", dtype="f32")
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
        expected = np.sin(2 * wide) + wide * np.cos(z.astype(np.float64))
    function = library([op], threads)["case0"]
    for thread in range(threads):
        arguments = [ctypes.c_void_p(a.ctypes.data) for a in (x, x, z)]
        function(*arguments, ctypes.c_long(thread), ctypes.c_long(threads))
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(5, 37), (2, 128)])
def test_functions_are_computed_by_vectors_of_rows_columns_and_elements(
    shape: tuple[int, int], threads: int
) -> None:
    """Rows of any length, beside one row for all of them and one element for each."""
    rows, columns = shape
    row, column = Access((columns,), (((1, 1),),), (0,)), Access((rows,), (((0, 1),),), (0,))
    text = "exp(x0) + log(1 + x1) * pow(x2, 1.5)"
    op = InMemory(shape, straight(shape), (straight(shape), row, column), text, dtype="f32")
    assert "tw_vector_f32" in written(op, threads)
    chance = np.random.default_rng(0)
    operands = [chance.uniform(0.1, 9, s).astype(np.float32) for s in op.input_shapes]
    found = np.full(shape, UNTOUCHED, np.float32)
    arguments = [ctypes.c_void_p(a.ctypes.data) for a in (found, *operands)]
    function = library([op], threads)["case0"]
    for thread in range(threads):
        function(*arguments, ctypes.c_long(thread), ctypes.c_long(threads))
    np.testing.assert_allclose(found, op.reference(*operands), rtol=1e-6)


def test_windows_whose_results_turn_follow_the_memory_of_what_they_read() -> None:
    """Channel by channel, neighbours of a line of memory would be read far apart."""
    pairs = Access((PIXELS, CHANNELS), (((1, 2), (2, 1)), ((0, 1),)), (0, 0))
    shape = (CHANNELS, PIXELS // 2)
    op = InMemory((*shape, 2), straight(shape), (pairs,), gather="max", dtype="f32")
    assert re.findall(r"for \(long (i\d)", written(op)) == ["i1", "i0", "i2"]
    check_case(op, library([op], 1)["case0"], 1)


def test_what_is_read_backwards_is_one_loop() -> None:
    turned = Access((PIXELS,), (((0, -1),),), (PIXELS - 1,))
    op = InMemory((PIXELS,), straight((PIXELS,)), (turned,))
    assert (
        written(op)
        == """\
#pragma GCC ivdep
for (long i0 = 0; i0 < 6; i0++) {
    y[i0] = x0[5 + i0 * -1L];
}
"""
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_read_across_goes_by_squares(threads: int) -> None:
    """Whole squares and parts of them at both ends, beside operands as they lie."""
    shape = (2, 75, 37)
    turned = Access((2, 40, 80), (((0, 1),), ((2, 1),), ((1, 1),)), (0, 2, 5))
    row = Access((37,), (((2, 1),),), (0,))
    ops = [
        InMemory(shape, straight(shape), (straight(shape), turned, row), text, dtype=kind)
        for text in ("x0 - x1 * x2", "x1 if x0 < x2 else x0")
        for kind in ("f32", "f64", "i32", "i16", "u8")
    ]
    code = library(ops, threads)
    for number, op in enumerate(ops):
        assert "tw_turn_" in written(op, threads)
        check_case(op, code[f"case{number}"], threads)


def test_lines_that_squares_are_written_to_are_fetched_some_squares_ahead() -> None:
    """Squares of 16 x 16 go down 75 rows: four of them ahead are 64 rows of 37 elements."""
    turned = Access((37, 75), (((1, 1),), ((0, 1),)), (0, 0))
    op = InMemory((75, 37), straight((75, 37)), (turned,), dtype="f32")
    assert "__builtin_prefetch(y + i0 * 37L + i1 + 2368L, 1);" in written(op)


def test_body_and_finish_of_a_reduction_name_their_parts_apart() -> None:
    """All gathered axes are of one step, so that no loop stands between the two."""
    text = "(x0 + x1) * (x0 + x1)"
    place = Access((PIXELS, 1), (((0, 1),), ((1, 1),)), (0, 0))
    op = InMemory((PIXELS, 1), straight((PIXELS,)), (place, place), text, "sum",
                  "(x0 - 1) * (x0 - 1)")  # fmt: skip
    check_case(op, library([op], 1)["case0"], 1)


def test_a_number_without_operands_becomes_an_element_of_bf16() -> None:
    """Borders of tensors that are moved in a type that C does not have."""
    op = InMemory((4,), straight((4,)), (), "-inf", dtype="bf16")
    assert "y[i0] = tw_to_bf16((-INFINITY));" in written(op, 1)


@pytest.mark.parametrize("threads", [2, 3])
def test_a_border_is_filled_by_the_threads_that_have_the_rows_beside_it(threads: int) -> None:
    rows, cols, channels = 9, 5, 4
    shape = (rows, cols, channels)
    sides = [((1, cols, channels), (0, 0, 0)), ((1, cols, channels), (rows - 1, 0, 0)),
             ((rows, 1, channels), (0, 0, 0)), ((rows, 1, channels), (0, cols - 1, 0))]  # fmt: skip
    axes = (((0, 1),), ((1, 1),), ((2, 1),))
    fills = [
        InMemory(extents, Access(shape, axes, starts), (), "0.0", dtype="f32")
        for extents, starts in sides
    ]
    code, written = library(fills, threads), np.full(shape, -1)
    for number, thread in product(range(len(fills)), range(threads)):
        y = np.full(shape, UNTOUCHED, np.float32)
        arguments = ctypes.c_void_p(y.ctypes.data), ctypes.c_long(thread), ctypes.c_long(threads)
        code[f"case{number}"](*arguments)
        written[y == 0] = thread
    own = np.arange(threads).repeat(-(-y.size // threads))[: y.size].reshape(shape)
    border = np.ones(shape, bool)
    border[1:-1, 1:-1] = False
    assert (written[border] >= 0).all()
    assert (written[~border] == -1).all()
    assert np.abs(written - own)[border].max() <= 1
    assert (written[0] == 0).all()
    assert (written[-1] == threads - 1).all()
