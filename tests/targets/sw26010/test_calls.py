"""Calls of primitives: what the generated code passes, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.explicit_programs import GEMM
from support.expressions import TANGLED
from tilewright.common.errors import ProgramError, ScheduleError, TilewrightError
from tilewright.common.expr import Const
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Buffer, Program, Tensor, Transfer, Wait, at
from tilewright.ir.parser import parse
from tilewright.ir.scalar import c_text, parse_scalar
from tilewright.machine import load_machine
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated

MACHINE = load_machine("sw26010")
P = 'p[0](shape=(64,), roles="a")'
TANGLED_IN_C = c_text(parse_scalar(TANGLED), ["(double)tw_from0[tw_at0]"])

BUFFERS = """\
def calls(PARAMETERS):
    x: tensor("f64", "input", core=64, n=64)
    y: tensor("f64", "output", core=64, n=64)
    p: buffer("f64", 64, offset_bytes=0)
    q: buffer("f64", 64, offset_bytes=512)
    single: buffer("f32", 64, offset_bytes=1024)
    get(x[rid * 8 + cid, at(0, 64)], p[0])
    wait(p[0])
    CALLS
    put(q[0], y[rid * 8 + cid, at(0, 64)])
    wait(q[0])
"""


TWIN = """\
/* NAME.h: y = -x0, along loops. Generated. */
#ifndef GUARD
#define GUARD
#ifdef TW_MAPS_IN_C
#include <math.h>
static void NAME(double *y, const double *const *x, const long *count,
        const long *move)
{
    long left[6], d, at;
    const double *x0 = x[0];
    for (d = 0; d < 6; d++) {
        if (count[d] < 1)
            return;
        left[d] = count[d];
    }
    for (;;) {
        for (at = 0; at < count[5]; at++) {
            *y = (double)(-(double)*x0);
            y += move[5];
            x0 += move[11];
        }
        for (d = 4; d >= 0; d--) {
            y += move[0 + d];
            x0 += move[6 + d];
            if (--left[d])
                break;
            left[d] = count[d];
        }
        if (d < 0)
            return;
    }
}
#else
extern void NAME(double *, const double *const *, const long *, const long *);
#endif
#endif
"""


def program(calls: str, parameters: str = "") -> Program:
    text = BUFFERS.replace("CALLS", calls.replace("\n", "\n    "))
    return parse(text.replace("PARAMETERS", parameters))


def statement(calls: str) -> str:
    """Calls between the wait for the input and the put, on one line."""
    text = CODE.emit(program(calls), MACHINE).files["calls_slave.c"]
    behind = text.split("dma_wait(&p_reply[0], p_issued[0]);")[1]
    return " ".join(behind.split("/* put")[0].split())


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (
            'fill(q[0](shape=(8, 8), roles="ab"), value=1.5)',
            "{ const long count[TW_LOOPS] = {1, 1, 1, 1, 1, 64}; "
            "const long tw_move[1 * TW_LOOPS] = {0, 0, 0, 0, -64, 1}; "
            "tw_map_NAME_f64(q, 0, count, tw_move); }",
        ),
        (
            'fill(q[0](at(2, 3), at(0, 3, 2), shape=(8, 8), roles="ab"), value=0)',
            "{ const long count[TW_LOOPS] = {1, 1, 1, 1, 3, 3}; "
            "const long tw_move[1 * TW_LOOPS] = {0, 0, 0, -24, 2, 2}; "
            "tw_map_NAME_f64(q + 16, 0, count, tw_move); }",
        ),
        (
            'copy(q[0](shape=(8, 8), roles="ab"), p[0](shape=(8, 8), roles="ba"))',
            "{ const long count[TW_LOOPS] = {1, 1, 1, 1, 8, 8}; "
            "const long tw_move[2 * TW_LOOPS] = {0, 0, 0, -64, 0, 1, 0, 0, 0, -8, -63, 8}; "
            "const double *const tw_from[1] = {p}; tw_map_NAME_f64(q, tw_from, count, tw_move); }",
        ),
        (
            'scale_add(q[0](shape=(4, 16), roles="ab"), p[0](0, at(0, 16), shape=(4, 16), '
            'roles=".b"), alpha=0.5)',
            "{ const long count[TW_LOOPS] = {1, 1, 1, 1, 4, 16}; "
            "const long tw_move[3 * TW_LOOPS] = {0, 0, 0, -64, 0, 1, 0, 0, 0, -64, 0, 1, 0, 0, 0, "
            "0, -16, 1}; const double *const tw_from[2] = {q, p}; "
            "tw_map_NAME_f64(q, tw_from, count, tw_move); }",
        ),
        (
            'multiply_accumulate(q[0](shape=(4, 16), roles="ab"), '
            'p[0](0, at(0, 16), shape=(4, 16), roles=".b"), '
            'p[0](at(0, 4), 3, shape=(4, 16), roles="a."))',
            "{ long tw_at0; for (tw_at0 = 0; tw_at0 < 4; tw_at0++) { "
            "const long count[TW_LOOPS] = {1, 1, 1, 1, 1, 16}; "
            "const long tw_move[4 * TW_LOOPS] = {0, 0, 0, 0, -16, 1, 0, 0, 0, 0, -16, 1, 0, 0, 0, "
            "0, -16, 1, 0, 0, 0, 0, 0, 0}; const double *const tw_from[3] = {q + tw_at0 * 16, "
            "p, p + 3 + tw_at0 * 16}; "
            "tw_map_NAME_f64(q + tw_at0 * 16, tw_from, count, tw_move); } }",
        ),
        (
            'map(q[0](shape=(4, 16), roles="ab"), p[0](shape=(4, 16), roles="ab"), '
            'p[0](at(0, 4), 3, shape=(4, 16), roles="a."), expression="x0 + x1")',
            "{ const long count[TW_LOOPS] = {1, 1, 1, 1, 4, 16}; "
            "const long tw_move[3 * TW_LOOPS] = {0, 0, 0, -64, 0, 1, 0, 0, 0, -64, 0, 1, 0, 0, 0, "
            "-64, 16, 0}; const double *const tw_from[2] = {p, p + 3}; "
            "tw_map_NAME_f64(q, tw_from, count, tw_move); }",
        ),
        (
            'map(q[0](shape=(64,), roles="a"), p[0](shape=(64,), roles="a"), '
            f'expression="{TANGLED}")',
            "{ double *const tw_to = q; const double *const tw_from0 = p; long tw_at0; "
            "for (tw_at0 = 0; tw_at0 < 64; tw_at0++) { "
            f"tw_to[tw_at0] = (double)({TANGLED_IN_C}); }} }}",
        ),
        (
            'reduce(q[0](shape=(4, 8), roles="ab"), p[0](shape=(2, 4, 8), roles="kab"), '
            'function="max")',
            "{ const long count[9] = {1, 1, 1, 1, 1, 32, 1, 1, 2}; "
            "const long tw_move[15] = {0, 0, 0, 0, -32, 1, 0, 0, 0, 0, -32, 1, 0, 0, 32}; "
            "tw_reduce_NAME_f64(q, p, count, tw_move); }",
        ),
    ],
)
def test_elementwise(calls, expected):
    named = re.sub("tw_(map|reduce)_[0-9a-f]{10}", r"tw_\1_NAME", statement(calls))
    assert named == expected


def test_a_map_in_assembly_comes_with_its_twin_in_c():
    calls = 'map(q[0](shape=(64,), roles="a"), p[0](shape=(64,), roles="a"), expression="-x0")'
    files = CODE.emit(program(calls), MACHINE).files
    (name,) = (
        file[: -len(".S")] for file in files if file.startswith("tw_map_") and file[-1] == "S"
    )
    assert f'#include "{name}.h"' in files["calls_slave.c"]
    assert f"{name}.o: {name}.S" in files["Makefile"]
    header = files[f"{name}.h"].replace(name, "NAME").replace(name.upper(), "GUARD")
    assert header == TWIN


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_takes_all_primitives_in_c_in_place_of_assembly(tmp_path: Path):
    """Declarations of maps are in their headers."""
    files = CODE.emit(
        program(
            'map(q[0](shape=(64,), roles="a"), p[0](shape=(64,), roles="a"), expression="-x0")\n'
            'winograd_filter(q[0](at(0, 16), shape=(64,), roles="x"), '
            'p[0](at(0, 3), at(0, 3), shape=(8, 8), roles="rc"), output_tile=2)'
        ),
        MACHINE,
    ).files
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (mapped,) = (name[:-2] for name in files if name.startswith("tw_map_") and name[-1] == "S")

    def commands(*words: str) -> list[str]:
        found = subprocess.run(
            ["make", "-n", "-C", tmp_path, *words], check=True, capture_output=True, text=True
        )
        lines = found.stdout.replace(mapped, "tw_map").splitlines()
        return sorted(line for line in lines if not line.startswith("make"))

    host, slave = "sw5cc -host -O3 -msimd", "sw5cc -slave -O2 -msimd"
    assert commands() == [
        "ar rcs libcalls.a calls_host.o calls_slave.o tw_winograd_filter_2_f64.o tw_map.o",
        f"{host} -c calls_host.c -o calls_host.o",
        f"{slave}  -c calls_slave.c -o calls_slave.o",
        f"{slave} -c tw_map.S -o tw_map.o",
        f"{slave} -c tw_winograd_filter_2_f64.S -o tw_winograd_filter_2_f64.o",
    ]
    assert commands("PRIMITIVES=tw_primitives.o") == [
        "ar rcs libcalls.a calls_host.o calls_slave.o tw_primitives.o",
        f"{host} -c calls_host.c -o calls_host.o",
        f"{slave} -DTW_MAPS_IN_C -c calls_slave.c -o calls_slave.o",
        f"{slave} -c tw_primitives.c -o tw_primitives.o",
    ]


@pytest.mark.parametrize(
    "calls",
    [
        'copy(q[0](shape=(4, 2, 8), roles="aab"), p[0](shape=(8, 8), roles="ba"))',
        'fill(q[0](shape=(64,), roles="a"), value=2)\n'
        'scale_add(q[0](at(8, 40), shape=(64,), roles="a"), '
        'p[0](at(3, 40), shape=(64,), roles="a"), alpha=-3.0, beta=0.5)',
        'copy(q[0](shape=(64,), roles="a"), p[0](shape=(64,), roles="a"))\n'
        'scale_add(q[0](shape=(8, 8), roles="ab"), p[0](0, at(0, 8), shape=(8, 8), roles=".b"))',
        'map(q[0](shape=(4, 16), roles="ab"), p[0](shape=(16, 4), roles="ba"), '
        'p[0](at(0, 4), 3, shape=(4, 16), roles="a."), expression="x0 - x1 if x0 < 3 else 0.5")\n'
        'map(q[0](at(0, 4), at(3, 8), shape=(4, 16), roles="ab"), '
        'q[0](at(0, 4), at(3, 8), shape=(4, 16), roles="ab"), expression="-x0")\n'
        'map(q[0](0, 5, shape=(4, 16), roles=".."), p[0](3, 1, shape=(4, 16), roles=".."), '
        'expression="x0 / 3.0")\n'
        'map(q[0](at(0, 2), 6, shape=(4, 16), roles="a."), expression="7.0")',
        'fill(q[0](shape=(64,), roles="a"), value=1)\n'
        'scale_add(q[0](shape=(64,), roles="a"), p[0](shape=(64,), roles="a"), '
        'p[0](shape=(64,), roles="a"), alpha=2.0, beta=3.0)',
        'fill(q[0](shape=(64,), roles="a"), value=-2)\n'
        'multiply_accumulate(q[0](shape=(4, 16), roles="ab"), '
        'p[0](0, at(0, 16), shape=(4, 16), roles=".b"), '
        'p[0](at(0, 4), 3, shape=(4, 16), roles="a."))',
        'fill(q[0](shape=(64,), roles="a"), value=5)\n'
        'windows(q[0](at(0, 4), at(0, 3), shape=(4, 16), roles="xt"), '
        'p[0](at(0, 2), at(0, 6), shape=(8, 8), roles="rc"), rows=2, cols=2, stride=2)',
        f'map(q[0](shape=(64,), roles="a"), {", ".join([P] * 6)}, '
        'expression="floor(x0 / 4.0) + ceil(x1 / 8.0) - x2 + x3 * x4 - x5")',
    ],
)
def test_elementwise_meaning(calls):
    tested = program(calls)
    inputs = {"x": np.random.default_rng(2).integers(-9, 10, (64, 64)).astype(np.float64)}
    outputs = run_emulated(CODE.emit(tested, MACHINE), inputs)
    np.testing.assert_array_equal(outputs["y"], interpret(tested, inputs)["y"])


def test_functions_mean_the_same_but_for_the_last_places():
    calls = (
        f'map(q[0](shape=(64,), roles="a"), {P}, expression="pow(abs(x0), 2.2) + log1p(abs(x0))")\n'
        'reduce(q[0](at(0, 2), shape=(64,), roles="a"), p[0](at(0, 2), at(0, 32), '
        'shape=(2, 32), roles="ak"), function="sum", expression="exp(x0)")'
    )
    tested = program(calls)
    inputs = {"x": np.random.default_rng(2).normal(size=(64, 64))}
    outputs = run_emulated(CODE.emit(tested, MACHINE), inputs)
    np.testing.assert_allclose(outputs["y"], interpret(tested, inputs)["y"], rtol=1e-14)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            'requantise(q[0](shape=(64,), roles="a"), p[0](shape=(64,), roles="a"))',
            "target sw26010 has no primitive 'requantise'; it has copy, fill, gemm, map, "
            "multiply_accumulate, reduce, repack, scale_add, windows, winograd_filter, "
            "winograd_input, winograd_output",
        ),
        (
            'copy(q[0](shape=(64,), roles="a"), single[0](shape=(64,), roles="a"))',
            "copy mixes element types f32, f64",
        ),
        (
            'copy(q[0](shape=(64,), roles="a"), p[0](shape=(32,), roles="a"))',
            "the operands of copy disagree about axis 'a'; "
            "give its dimensions the same extents in every operand",
        ),
        (
            'fill(q[0](shape=(8, 8), roles="a."), value=0)',
            "dimension 1 of a view of 'q' has no role and extent 8; give it a role or extent 1",
        ),
        (
            'fill(q[0](shape=(64,), roles="a"), value=float("nan"))',
            "fill: value is nan; give a finite number",
        ),
        (
            'winograd_filter(q[0](shape=(16, 4), roles="xa"), p[0](shape=(3, 3, 4), roles="rca"), '
            "output_tile=3)",
            "winograd_filter: output_tile is 3; use 2 or 4",
        ),
        (
            'winograd_filter(q[0](shape=(16, 3), roles="xa"), p[0](shape=(4, 4, 3), roles="rca"), '
            "output_tile=2)",
            "winograd_filter: 'p' must have 3 rows and one column axis",
        ),
        (
            'winograd_filter(q[0](shape=(9, 4), roles="xa"), p[0](shape=(3, 3, 4), roles="rca"), '
            "output_tile=2)",
            "winograd_filter: axis 'x' must have 4 x 4 points",
        ),
    ],
)
def test_refusals(calls, message):
    with pytest.raises(TilewrightError) as caught:
        CODE.emit(program(calls), MACHINE)
    assert str(caught.value) == message


def test_a_program_with_parameters():
    with pytest.raises(ProgramError) as caught:
        CODE.emit(program('fill(q[0](shape=(n,), roles="a"), value=0)', "n"), MACHINE)
    assert str(caught.value) == (
        "program 'calls' still has parameters: n; instantiate it before code is generated"
    )


def test_a_program_of_an_earlier_stage():
    seed = parse(
        'def seed():\n    y: tensor("f64", "output", n=64)\n    fill(y[at(0, 64)]("a"), value=0)\n'
    )
    with pytest.raises(ProgramError) as caught:
        CODE.emit(seed, MACHINE)
    assert str(caught.value) == (
        "fill works on tensor 'y' in main memory; stage its operands in the scratchpad first"
    )


def test_a_buffer_without_address():
    text = 'def bare():\n    p: buffer("f64", 64)\n    barrier()\n'
    with pytest.raises(ProgramError) as caught:
        CODE.emit(parse(text), MACHINE)
    assert str(caught.value) == (
        "buffer 'p' has no address in the scratchpad; run the buffer allocation pass first"
    )


def test_hostile_names_are_words_in_the_code():
    """Names that other tools let through neither break the C text nor leave it."""
    n = (Const(64),)
    x = Tensor("int", "f64", "input", ("*/ x",), n)
    y = Tensor('y"; system("true', "f64", "output", ("d",), n)
    buffer = Buffer("tile */", "f64", Const(64), offset_bytes=0)
    ranges = (at(0, 64),)
    body = (
        Transfer("get", x.name, ranges, buffer.name, Const(0)),
        Wait(buffer.name, Const(0)),
        Transfer("put", y.name, ranges, buffer.name, Const(0)),
        Wait(buffer.name, Const(0)),
    )
    hostile = Program("../../while", (), (x, y), (buffer,), body)
    artifact = CODE.emit(hostile, MACHINE)
    assert artifact.name == "while_"
    assert "system(" not in "".join(artifact.files.values())
    given = np.arange(64.0)
    np.testing.assert_array_equal(run_emulated(artifact, {"int": given})[y.name], given)


def test_a_product_of_integers_is_refused_in_words():
    """Straight from the IR, where no search asks the machine before."""
    text = GEMM.replace('"f64"', '"i32"').replace("value=0.0", "value=0")
    with pytest.raises(ScheduleError) as caught:
        CODE.emit(parse(text), MACHINE)
    assert str(caught.value) == (
        "the matrix primitive computes f64 and f32, the product has sums of i32; "
        "compute it in one of those, or on a machine whose cores multiply integers"
    )
