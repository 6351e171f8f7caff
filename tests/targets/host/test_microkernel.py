"""Micro-kernels compute exactly what NumPy does, for every shape, layout and instruction set, and
touch nothing else.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples, one_in
from support.host_matrices import CANARY, pointer, stored
from tilewright.common.dtypes import F32, F64, FLOATS, dtype
from tilewright.common.errors import ScheduleError
from tilewright.ir.scalar import parse_scalar
from tilewright.targets.host.native import load_library, native_instruction_sets
from tilewright.targets.host.vectors.epilogue import Bias, Finish, Residual
from tilewright.targets.host.vectors.instruction_sets import AVX2, AVX512, PORTABLE, vector_text
from tilewright.targets.host.vectors.microkernel import (
    DEFAULT_BLOCKS,
    PREFETCHES,
    VARYING,
    Microkernel,
    Sets,
    UnderWay,
    column_counts,
    row_counts,
)
from tilewright.targets.host.vectors.microkernel_text import emit_microkernel

pytestmark = one_in(3)


EPILOGUE = Finish("leaky_relu(x0 + x1 + x2, 0.25)", (Bias("n"), Residual()))
C_RUN, C_GAP = 4, 16
SETS = Sets(way_bytes=4096, ways=8)
UNDER_WAY = UnderWay(sums=8, lines=4, lines_ahead=48, steps_ahead=44, latency_steps=64)
CHAIN = {"runs": True, "offsets": True, "start": "either", "inner": "n"}
OVERWRITING = {"start": "overwrite", "epilogue": EPILOGUE}
OTHER_EPILOGUE = Finish("relu(x0 + x1 + x2)", (Residual(), Bias("m")))


def variants(isa, kind):
    """Kernels that together take every choice."""
    full = DEFAULT_BLOCKS[isa.name]
    every = (
        Microkernel(isa, kind, *full),
        Microkernel(isa, kind, 1, 3, a_layout="panels", b_layout="panels", start="overwrite"),
        Microkernel(isa, kind, 2, 5, a_layout="column", start="either", epilogue=EPILOGUE),
        Microkernel(isa, kind, 3, 2, b_layout="panels", unroll=1, prefetch=PREFETCHES, inner="n"),
        Microkernel(isa, kind, 2, 4, "m", a_layout="column", b_layout="column", inner="n"),
        Microkernel(isa, kind, 1, 7, "m", a_layout="panels", b_layout="panels", start="either"),
        Microkernel(isa, kind, 2, 3, "m", a_layout="column", epilogue=OTHER_EPILOGUE),
        Microkernel(isa, kind, 2, 3, b_layout="panels", offsets=True, start="either"),
        Microkernel(isa, kind, 2, 5, b_layout="panels", prefetch=PREFETCHES, runs=True),
        Microkernel(isa, kind, 1, 7, "m", a_layout="panels", b_layout="column", **CHAIN),
        Microkernel(isa, kind, 2, 5, c_run=C_RUN, prefetch=PREFETCHES, epilogue=EPILOGUE),
        Microkernel(isa, kind, 2, 5, c_run=VARYING, prefetch=PREFETCHES, epilogue=EPILOGUE),
        *(replace(one, streams=one.can_stream) for one in streaming(isa, kind)),
        Microkernel(isa, kind, *full, b_layout="panels", **OVERWRITING, halves=isa is AVX512),
        Microkernel(isa, kind, 2, 5, b_layout="panels", lines_next=3, next_call=96),
        Microkernel(isa, kind, 2, 1, b_layout="panels", walks=4, epilogue=EPILOGUE),
        Microkernel(isa, kind, 1, 2, "m", a_layout="panels", b_layout="column", walks=3),
        Microkernel(isa, kind, 2, 1, b_layout="panels", walks=2, runs=True, start="either"),
        Microkernel(isa, kind, 2, 5, b_layout="panels", lines_next=1, next_call=64, inner="n"),
        Microkernel(isa, kind, 2, 5, offsets=True, start="either", halves=isa is AVX512),
    )
    return tuple(replace(one, under_way=UNDER_WAY, sets=SETS) for one in every)


@pytest.mark.parametrize("isa", [AVX512, AVX2], ids=lambda isa: isa.name)
def test_other_compilers_than_gcc_take_the_intrinsics_of_their_header(isa, tmp_path):
    source = tmp_path / "vectors.c"
    source.write_text(vector_text(isa, FLOATS))
    flags = (*isa.compiler_flags, "-DTW_INTRINSICS", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["cc", *flags, "-Wno-unused-function", "-fsyntax-only", source], check=True)


def streaming(isa, kind):
    """Kernels that store past the caches, if they can."""
    return (
        Microkernel(isa, kind, 2, 5, start="overwrite", prefetch=PREFETCHES, epilogue=EPILOGUE),
        Microkernel(isa, kind, 4, 2, "m", "column", "column", start="overwrite", c_run=C_RUN),
    )


def named(kernel, index):
    return f"kernel{index}_{kernel.dtype}"


def exported(kernel, name):
    """The kernel and a function that can be called from outside."""
    text = emit_microkernel(kernel, f"tw_{name}")
    head = text[text.rindex(f"static void tw_{name}(") :].partition("\n{")[0]
    arguments = [word.split()[-1].strip("*") for word in head.partition("(")[2][:-1].split(",")]
    outer = head.replace(f"static void tw_{name}", f"void {name}")
    return f"{text}{outer}\n{{\n    tw_{name}({', '.join(arguments)});\n}}\n"


@cache
def library(isa):
    parts = [vector_text(isa, FLOATS)]
    for kind in FLOATS:
        parts += [exported(k, named(k, i)) for i, k in enumerate(variants(isa, kind))]
    return load_library({"kernels.c": "\n".join(parts)}, isa.compiler_flags)


def whole(draw, *shape):
    """Small integers: sums of their products are exact in single precision."""
    seed = draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).integers(-8, 9, shape)


def after(c, epilogue, extra):
    """The epilogue in NumPy."""
    given = [
        extra[i][:, None] if beside == Bias("m") else extra[i]
        for i, beside in enumerate(epilogue.beside)
    ]
    return parse_scalar(epilogue.expression).value([c, *given]) if epilogue else c


def operands(draw, kernel, count, m, n, k, runs):
    """`count` pairs of A and B side by side in one matrix each, and both stored."""
    a, b = whole(draw, m, count * k), whole(draw, count * k, n)
    # Rows that would meet in one set of the cache are copied first.
    gap = -count * k % (SETS.way_bytes // kernel.dtype.size_bytes) if draw(st.booleans()) else 3
    panel_a = kernel.scalars if kernel.vectorised == "n" else kernel.width
    panel_b = kernel.width if kernel.vectorised == "n" else kernel.scalars
    number = kernel.dtype.numpy
    runs_a, runs_b = (runs, (1, 0)) if kernel.vectorised == "n" else ((1, 0), runs)
    in_a = stored(a.astype(number), kernel.a_layout, gap, panel_a, runs=runs_a)
    turned = {"row": "column", "column": "row", "panels": "panels"}[kernel.b_layout]
    in_b = stored(b.T.astype(number), turned, gap, panel_b, runs=runs_b)
    return a, b, in_a, in_b


def extras(draw, kernel, m, n, gap):
    """Operands of the epilogue's steps: values for NumPy and arguments for C."""
    values, arguments, kept = {}, [], []
    for index, step in enumerate(kernel.epilogue.beside):
        if isinstance(step, Residual):
            values[index] = whole(draw, m, n)
            kept.append(result(kernel, values[index].astype(kernel.dtype.numpy), gap))
            arguments.append(kept[-1].start)
        else:
            values[index] = whole(draw, n if step.along == "n" else m)
            kept.append(values[index].astype(kernel.dtype.numpy))
            arguments.append(pointer(kept[-1]))
    return values, arguments, kept


def result(kernel, c, gap, shift=0):
    """C with its vectorised dimension last, stored between canaries."""
    turned = c if kernel.vectorised == "n" else c.T
    runs = (C_RUN, C_GAP) if kernel.c_run else (1, 0)
    return stored(turned, "row", gap, fill=CANARY, runs=runs, shift=shift)


def in_order(kernel, z):
    """The matrix C of what `result` stored."""
    value = z.value()
    return value if kernel.vectorised == "n" else value.T


@pytest.mark.parametrize("index", range(16))
@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("isa", native_instruction_sets(), ids=lambda isa: isa.name)
@examples(25)
@given(data=st.data())
def test_exact_and_nothing_else_is_touched(isa, kind, index, data):
    kernel, draw = variants(isa, kind)[index], data.draw
    most = 2 * max(kernel.width, kernel.scalars) + 3
    m, n = draw(st.integers(0, most), "m"), draw(st.integers(0, most), "n")
    k, gap = draw(st.integers(0, 13), "k"), draw(st.integers(0, 5))
    if kernel.streams and draw(st.booleans(), "whole lines"):
        gap = -(n if kernel.vectorised == "n" else m) % (64 // kind.size_bytes)
    count = draw(st.integers(0, 3)) if kernel.offsets else 1
    runs = (draw(st.integers(1, 9)), draw(st.integers(0, 20))) if kernel.runs else (1, 0)
    a, b, in_a, in_b = operands(draw, kernel, count, m, n, k, runs)
    before = whole(draw, m, n)
    z = result(kernel, before.astype(kind.numpy), gap, draw(st.sampled_from((0, 0, 1, 8)), "shift"))
    surroundings = z.surroundings().copy()
    first, last = draw(st.booleans()), draw(st.booleans())
    values, more, _kept = extras(draw, kernel, m, n, gap)
    arguments = [in_a.start, in_a.leading, in_b.start, in_b.leading, z.start, z.leading]
    arguments += runs if kernel.runs else ()
    arguments += (C_GAP, 0, C_RUN)[: len(kernel.of_c)]
    if kernel.start == "either":
        arguments.append(ctypes.c_int(first))
    if kernel.offsets:
        step = kernel.width if kernel.vector_layout == "panels" else in_b.leading
        broadcast, loaded = np.arange(count) * k, np.arange(count) * k * step
        arguments += [count, pointer(broadcast), pointer(loaded)]
    if kernel.epilogue:
        arguments += [ctypes.c_int(last), *more]
    call = getattr(library(isa), named(kernel, index))
    call(*(ctypes.c_long(x) if isinstance(x, int) else x for x in (m, n, k, *arguments)))
    old = 0 if kernel.start == "overwrite" or (kernel.start == "either" and first) else before
    expected = a @ b + old
    if last:
        expected = after(expected, kernel.epilogue, values)
    assert np.array_equal(in_order(kernel, z), expected)
    assert np.array_equal(z.surroundings(), surroundings)


@given(st.integers(1, 60), st.sampled_from(["row", "panels"]), st.integers(1, 14))
def test_row_counts_are_those_of_the_generated_loop(extent, layout, scalars):
    kernel = Microkernel(AVX512, F32, 2, scalars, a_layout=layout)
    taken, left = [], extent
    while left:
        blocks = -(-left // scalars)
        taken.append(min(left, scalars) if layout == "panels" else -(-left // blocks))
        left -= taken[-1]
    assert row_counts(kernel, extent) == set(taken)
    if layout == "row":
        assert max(taken) - min(taken) <= 1


def test_a_call_may_restrict_the_blocks_that_are_written():
    kernel = Microkernel(PORTABLE, F64, 2, 4)
    text = emit_microkernel(kernel, "g", row_counts(kernel, 7), column_counts(kernel, 9))
    blocks = sorted(set(re.findall(r"g_(\w+)\(", text)))
    assert blocks == ["3x1_tail", "3x2", "4x1_tail", "4x2"]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"isa": AVX2, "vectors": 2, "scalars": 7},
            "a block of 7 x 2 vectors needs 17 registers, avx2 has 16; "
            "take fewer scalars or vectors",
        ),
        (
            {"vectors": 0},
            "the extents of a register block and the unrolling are at least 1",
        ),
        (
            {"b_layout": "column"},
            "b in column layout is not contiguous along n; pack it into panels",
        ),
        (
            {"vectorised": "m"},
            "a in row layout is not contiguous along m; pack it into panels",
        ),
        (
            {"a_layout": "column", "runs": True},
            "rows of a broadcast operand that come in runs have to lie along k; its other layout",
        ),
        (
            {"walks": 2},
            "parts of k are walked side by side in panels, of one product, by whole vectors; "
            "one walk",
        ),
        (
            {"streams": True},
            "non-temporal stores take whole cache lines that nothing is added to; "
            "C = A B by rows, blocks of a multiple of 64 bytes",
        ),
    ],
)
def test_refusals(choices, message):
    with pytest.raises(ScheduleError) as caught:
        Microkernel(**{"isa": AVX512, "dtype": dtype("f32"), "vectors": 2, "scalars": 4, **choices})
    assert str(caught.value) == message


def test_the_last_elements_of_lines_of_rows_in_place_are_fetched_ahead() -> None:
    """Rows that do not begin at lines touch one more, which begins in the next block."""
    for vectors, fetched in ((2, [15, 31]), (1, [15])):
        kernel = Microkernel(AVX512, F32, vectors, 8, prefetch=frozenset(("panels",)), inner="n")
        text = emit_microkernel(kernel, "product")
        whole = text[text.index(f"product_8x{vectors}(") :]
        found = re.findall(r"prefetch\(y0 \+ beyond \+ (\d+)", whole[: whole.index("\n}\n")])
        assert list(map(int, found)) == fetched


def test_rows_that_a_set_does_not_hold_beside_a_line_of_what_is_loaded_are_copied() -> None:
    """Of a first cache of 48 KB in 12 ways."""
    kernel = Microkernel(AVX512, F32, 2, 14)
    text = emit_microkernel(replace(kernel, sets=Sets(way_bytes=4096, ways=12)), "product")
    assert "if (ldx * 4 % 4096 == 0 && rows > 11 && k <= 4649)" in text
    assert "copy" not in emit_microkernel(kernel, "product")


def test_rows_in_place_are_fetched_so_many_lines_ahead() -> None:
    """Twenty lines are ten rows of two; behind the last rows come those of the next columns."""
    ahead = {"prefetch": frozenset(("panels",)), "under_way": UnderWay(lines_ahead=20)}
    text = emit_microkernel(Microkernel(AVX512, F32, 2, 4, inner="n", **ahead), "product")
    assert "const long beyond = p + 10 < k ? 10 * ldy : (10 - k) * ldy + 32;" in text


def test_lines_of_c_are_fetched_before_a_sum_where_rows_are_one_line_each() -> None:
    """The sum is then one loop over k; rows of two lines are spread over those of k."""
    for isa, loop in ((AVX2, "p = 0; p < k; p++"), (AVX512, "p = 0, end; p < k; p = end")):
        text = emit_microkernel(Microkernel(isa, F32, 2, 4, prefetch=frozenset("c")), "product")
        whole = text[text.index("product_4x2(") :]
        assert re.findall(r"for \(long (p.*?)\)", whole)[0] == loop
        assert (whole.index("prefetch(z") < whole.index("for (")) == (isa is AVX2)


def test_one_row_walks_parts_of_a_panel_side_by_side() -> None:
    """Each with sums of its own; blocks of more rows walk once."""
    kernel = Microkernel(AVX2, F32, 2, 6, b_layout="panels", walks=4)
    text = emit_microkernel(kernel, "product", [1, 2], [16])
    one, two = text.split("static __attribute__((noinline)) void ")[1:]
    assert len(set(re.findall(r"\w0_0 = tw_multiply_add", one))) == 4
    assert len(set(re.findall(r"\w0_0 = tw_multiply_add", two))) == 1
    assert "tw_load_f32(3 * part * 16 + y0 + 0)" in one


def test_shares_of_the_next_panel_are_fetched_at_the_start_of_blocks() -> None:
    """Of the panel behind the one that is swept, or of the next call's where all stay near."""
    ahead = {"b_layout": "panels", "lines_next": 2, "next_call": 4096}
    for inner, panel in (("m", "(j + 16 < columns ? ldy : 4096 - j / 16 * ldy)"), ("n", "4096")):
        kernel = Microkernel(AVX2, F32, 2, 6, inner=inner, **ahead)
        text = emit_microkernel(kernel, "product", [6], [16])
        block, sweep = text.split("static void product(")
        found = re.findall(r"prefetch\((.*?), 0, 2\)", block[: block.index("for (")])
        assert found == [f"(const char *)y + beyond + {at}" for at in (0, 64)]
        assert f"{panel} * 4 + turn * 128" in " ".join(sweep.split())


def test_blocks_that_hide_no_latency_have_two_sets_of_sums() -> None:
    """Two multiply-adds a cycle, of a latency of four, take eight sums: 6 x 1 are too few."""
    for scalars, sets in ((6, 2), (8, 1)):
        kernel = Microkernel(AVX512, F32, 1, scalars, under_way=UnderWay(sums=8))
        text = emit_microkernel(kernel, "product", [scalars], [16])
        sums = set(re.findall(r"([st]\d)_0 = tw_multiply_add", text))
        assert len(sums) == scalars * sets


def test_whole_vectors_take_no_mask() -> None:
    text = emit_microkernel(Microkernel(AVX2, F32, 2, 6), "product", [6], [8, 16])
    assert sorted(set(re.findall(r"product_(\w+)\(", text))) == ["6x1", "6x2"]
    assert "first" not in text


def test_partial_stores_leave_sums_in_registers() -> None:
    """An array of the lanes that are stored would keep a sum in memory from step to step."""
    for kind in FLOATS:
        text = vector_text(AVX2, (kind,))
        own = text[text.index(f"tw_store_first_{kind}(") :].partition("\n}\n")[0]
        assert "&v" not in own
        assert f"[{AVX2.lanes(kind)}]" not in own
