"""Sums of windows in C: the text of a block, and no access outside the operands."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fences import FENCE
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import F32, F64, DType
from tilewright.common.errors import ToolError
from tilewright.ir.parser import parse
from tilewright.ir.primitives import WindowSums
from tilewright.ir.visit import calls_of
from tilewright.machine import load_machine
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.emit.window_sums import window_function
from tilewright.targets.host.native import native_instruction_sets
from tilewright.targets.host.vectors.instruction_sets import InstructionSet, vector_text
from tilewright.targets.host.vectors.window_text import (
    WindowFunction,
    block_pixels,
    emit_window_function,
    is_short,
    row_pixels,
    shares_pixels,
    summed_lines,
)

FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

CHECK = """\
static void check_NAME(long channels, long apart)
{
    const long in_x = (LINES - 1) * X_LINE + (ROWS - 1) * X_ROW + (WINDOWS - 1) * X_WINDOW
            + (COLUMNS - 1) * X_COLUMN + (TERMS - 1) * apart + channels;
    const long in_w = (ROWS * COLUMNS * TERMS - 1) * apart + channels;
    const long in_y = (LINES * WINDOWS - 1) * apart + channels;
    TYPE *x = fenced(in_x * sizeof *x), *w = fenced(in_w * sizeof *w);
    TYPE *y = fenced(in_y * sizeof *y);
    for (long i = 0; i < in_x; i++) {
        const long row = i / (30 * PIXEL), column = i / PIXEL % 30;
        x[i] = row < TOP || row >= BOTTOM || column < LEFT || column >= RIGHT ? 0 : i * 7 % 15 - 7;
    }
    for (long i = 0; i < in_w; i++)
        w[i] = i * 5 % 17 - 8;
    for (long i = 0; i < in_y; i++)
        y[i] = 99;
    NAME(channels, x, w, y);
    for (long t = 0; t < LINES * WINDOWS; t++)
        for (long g = 0; g < apart && t * apart + g < in_y; g++) {
            TYPE sum = g < channels ? 0 : 99;
            for (long i = 0; i < ROWS * (g < channels); i++)
                for (long j = 0; j < COLUMNS; j++)
                    for (long k = 0; k < TERMS; k++)
                        sum += x[t / WINDOWS * X_LINE + t % WINDOWS * X_WINDOW
                                 + i * X_ROW + j * X_COLUMN + k * apart + g]
                                * w[((i * COLUMNS + j) * TERMS + k) * apart + g];
            if (y[t * apart + g] != sum) {
                printf("NAME %ld: window %ld, channel %ld\\n", channels, t, g);
                exit(4);
            }
        }
    release(x, in_x * sizeof *x);
    release(w, in_w * sizeof *w);
    release(y, in_y * sizeof *y);
}
"""


def windows(
    kind: DType, isa: InstructionSet, *, whole: bool = False, **numbers: int
) -> WindowFunction:
    """Windows of pixels 41 elements apart, 30 of them in a row, zeros outside a rectangle."""
    found = {"windows": 8, "rows": 3, "columns": 3, "terms": 1, "stride": 1, "step": 1, **numbers}
    found = {"lines": 1, "down": 1, "row_step": 1, **found}
    apart, terms, columns, step = 41, found["terms"], found["columns"], found["row_step"]
    found = {"top": 0, "left": 0, "bottom": 99, "right": 99, "far": 0, **found}
    several = summed_lines(found["rows"], columns, terms, found["down"], step, isa.registers)
    pixels = block_pixels(isa.registers, several, found["rows"] * columns)
    far = found["far"] and not is_short(pixels, several)
    summed = several if found["lines"] > 1 and not far else 1
    pixel = terms * apart
    return WindowFunction(
        kind,
        isa.lanes(kind),
        block_pixels(isa.registers, summed, found["rows"] * columns),
        windows=found["windows"],
        rows=found["rows"],
        columns=columns,
        terms=terms,
        x_row=30 * step * pixel,
        x_column=found["step"] * pixel,
        x_term=apart,
        x_window=found["stride"] * pixel,
        y_window=apart,
        w_point=pixel,
        w_term=apart,
        whole=whole,
        lines=found["lines"],
        x_line=30 * found["down"] * pixel,
        y_line=found["windows"] * apart,
        shares_pixels=shares_pixels(columns, terms, isa.registers),
        summed=summed,
        behind=found["down"] // step,
        part=found["far"] * isa.lanes(kind),
        order="cut" if is_short(pixels, summed) else "tcu",
        x_rows=range(30 * pixel * found["top"], 30 * pixel * found["bottom"]),
        x_columns=range(pixel * found["left"], pixel * found["right"]),
    )


def check(one: WindowFunction, name: str) -> str:
    """The function, and one that compares it with sums by plain loops."""
    words = {
        "TYPE": one.dtype.c_name,
        "NAME": name,
        "ROWS": one.rows,
        "COLUMNS": one.columns,
        "WINDOWS": one.windows,
        "LINES": one.lines,
        "TERMS": one.terms,
        "X_ROW": one.x_row,
        "X_WINDOW": one.x_window,
        "X_COLUMN": one.x_column,
        "X_LINE": one.x_line,
        "PIXEL": one.terms * 41,
        "TOP": one.x_rows.start // (30 * one.terms * 41),
        "BOTTOM": one.x_rows.stop // (30 * one.terms * 41),
        "LEFT": one.x_columns.start // (one.terms * 41),
        "RIGHT": one.x_columns.stop // (one.terms * 41),
    }
    text = CHECK
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, str(words[word]))
    return emit_window_function(one, name) + text


LAYER = """\
def sums():
    y: tensor("f32", "output", rows=28, cols=28, channels=192)
    x: tensor("f32", "input", rows=57, cols=57, channels=192)
    w: tensor("f32", "constant", kernel_rows=3, kernel_cols=3, channels=192)
    window_sums(
        y[at(0, 28), at(0, 28), at(0, 192)]("utg"),
        x[at(0, 57), at(0, 57), at(0, 192)]("rcg"),
        w[at(0, 3), at(0, 3), at(0, 192)]("xxg"),
        rows=3,
        cols=3,
        stride=2,
        row_stride=2,
    )
"""
"""Five elements come or go for each 18 operations, of 57 x 57 x 192 x 4 = 2,495,232 bytes."""


@pytest.mark.parametrize(
    ("second_bytes", "first", "second", "streamed"),
    [
        (2_495_231, 99, 17.7, True),
        (2_495_231, 1, 17.8, False),
        (2_495_232, 17.7, 99, True),
        (2_495_232, 17.8, 1, False),
        (4_990_463, 17.7, 99, True),
        (4_990_464, 17.7, 99, False),
    ],
)
def test_pixels_are_a_stream_where_they_come_more_slowly_than_they_are_multiplied(
    second_bytes: int, first: float, second: float, streamed: bool
) -> None:
    """20 bytes in the 9 / 8 cycles of 16 operations each are 17.78 a cycle, from the second cache,
    or from beyond it where that is smaller than the image.
    """
    machine = load_machine(
        "host",
        {
            "core.f32.flops_per_cycle": 16,
            "memory.caches.l1.fill_bytes_per_cycle": first,
            "memory.caches.l2.fill_bytes_per_cycle": second,
            "memory.caches.l2.capacity_bytes": second_bytes,
        },
    )
    layer = parse(LAYER)
    one = window_function(
        next(calls_of(layer.body, WindowSums))[0], layer, instruction_set_of(machine), machine
    )
    assert one is not None
    assert (one.part > 0, one.summed) == ((True, 1) if streamed else (False, 2))


@pytest.mark.parametrize(
    ("channels", "second_bytes", "order"),
    [(93, 524_288, "utc"), (94, 524_288, "tcu"), (93, 4 << 20, "tcu")],
)
def test_short_columns_of_an_image_from_afar_give_way_to_lines(
    channels: int, second_bytes: int, order: str
) -> None:
    """A block of 7 windows of 5 x 5 points has 11 pixels of a row: of 93 channels they are 4092
    bytes, of 94 they exceed a page. The image of 60 x 60 pixels takes 1.3 MB.
    """
    machine = load_machine("host_avx2", {"memory.caches.l2.capacity_bytes": second_bytes})
    text = LAYER.replace("rows=28, cols=28", "rows=56, cols=56").replace("at(0, 28)", "at(0, 56)")
    text = text.replace("=3", "=5").replace("at(0, 3)", "at(0, 5)").replace("57", "60")
    layer = parse(text.replace("192", str(channels)).replace("stride=2", "stride=1"))
    one = window_function(
        next(calls_of(layer.body, WindowSums))[0], layer, instruction_set_of(machine), machine
    )
    assert one is not None
    assert (one.order, one.summed) == (order, 1)
    loops = re.findall(r"for \(long ([ctu]) =", emit_window_function(one, "sums"))
    assert "".join(loops[:3]) == order


@pytest.mark.parametrize(("channels", "part"), [(163, 0), (164, 32), (480, 32)])
def test_channels_of_short_blocks_go_in_parts_whose_rows_stay_in_the_first_cache(
    channels: int, part: int
) -> None:
    """Two lines of 3 windows take 5 x 7 pixels, 9 factors and 6 results: 200 bytes a channel, of
    32768. Five rows of 57 pixels of 28 channels stay there: 6 parts, and 18, of whole lines.
    """
    machine, layer = load_machine("host_avx2"), parse(LAYER.replace("192", str(channels)))
    one = window_function(
        next(calls_of(layer.body, WindowSums))[0], layer, instruction_set_of(machine), machine
    )
    assert one is not None
    assert (one.summed, one.pixels, one.order, one.part) == (2, 3, "cut", part)


def program(isa: InstructionSet) -> str:
    """A C program that checks several functions for all numbers of channels."""
    functions = {
        "plain": windows(F32, isa),
        "wide": windows(F32, isa, windows=2 * block_pixels(isa.registers) + 3, stride=2),
        "point": windows(F64, isa, windows=1, rows=1, columns=1),
        "flat": windows(F32, isa, rows=1, columns=5, step=2),
        "strided": windows(F32, isa, columns=4, stride=2, step=3),
        "broad": windows(F32, isa, rows=2, columns=20),
        "lines": windows(F32, isa, lines=5),
        "down": windows(F32, isa, lines=4, down=2, stride=2, rows=5, row_step=2),
        "separate": windows(F64, isa, lines=3, down=3, rows=3),
        "far": windows(F32, isa, lines=21, down=2, stride=2, top=1, left=1, far=1),
        "whole": windows(F32, isa, lines=3, whole=True),
        "halved": windows(F32, isa, lines=3, rows=2, columns=2, far=1),
        "odd": windows(F64, isa, windows=7, lines=7, top=1, left=1, bottom=8, right=8),
        "bordered": windows(F32, isa, lines=6, top=1, left=1, bottom=7, right=9),
        "within": windows(F32, isa, lines=9, down=2, rows=5, columns=5, left=2, top=6, bottom=8),
        "alone": windows(F32, isa, lines=9, rows=5, columns=5, left=2, top=1, right=9, bottom=7),
        "beyond": windows(F32, isa, windows=9, lines=7, left=6, top=4, right=8, bottom=5),
        "dark": windows(F32, isa, lines=4, top=7, right=0),
        "terms": windows(F32, isa, lines=2, terms=2),
        "rowwise": replace(windows(F32, isa, windows=15, lines=5), order="utc"),
        "tall": windows(F64, isa, rows=4, columns=1, terms=2),
    }
    parts = [FENCE, vector_text(isa, (F32, F64))]
    parts += [check(one, name) for name, one in functions.items()]
    calls = "".join(
        f"        if (channels % {one.lanes if one.whole else 1} == 0)\n"
        f"            check_{name}(channels, 41);\n"
        for name, one in functions.items()
    )
    loop = f"    for (long channels = 1; channels <= 41; channels++) {{\n{calls}    }}\n"
    return "\n".join([*parts, f'int main(void)\n{{\n{loop}    puts("well");\n    return 0;\n}}\n'])


@pytest.mark.parametrize("isa", native_instruction_sets(), ids=lambda isa: isa.name)
def test_no_access_outside_the_operands(isa: InstructionSet) -> None:
    flags = (*FLAGS, *isa.compiler_flags, "-o", "program")
    try:
        (path,) = compiled_files("the test", "sanitized", {"program.c": program(isa)}, flags)
    except ToolError as error:
        if "asan" not in error.message:
            raise
        pytest.skip("the compiler has no sanitizers")
    done = subprocess.run([path], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr[:2000]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
def test_pixels_of_a_row_are_counted_once(
    windows: int, columns: int, stride: int, step: int
) -> None:
    pixels = {t * stride + j * step for t in range(windows) for j in range(columns)}
    assert row_pixels(windows, columns, stride, step) == len(pixels)
