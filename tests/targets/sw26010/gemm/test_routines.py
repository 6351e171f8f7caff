"""The matrix primitives of whole artifacts: found, emitted, and run as the emitted text says."""

from dataclasses import replace

import numpy as np
import pytest

from support.compiled import kernel_of
from support.explicit_programs import gemm_variant
from support.gemm_routine import run_routine
from tilewright import ops
from tilewright.common.errors import ProgramError, ScheduleError, SimulationError
from tilewright.ir.parser import parse
from tilewright.ir.visit import instantiate
from tilewright.isa import load_table
from tilewright.machine import load_machine
from tilewright.seeds.space import seeds_for
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.gemm import instances
from tilewright.targets.sw26010.gemm.assembly import emit_gemm_assembly, routine_name
from tilewright.targets.sw26010.gemm.instances import gemm_instances
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
TABLE = load_table("sw26010_cpe")
OPERATORS = {
    "aligned gemm": ops.Gemm(m=128, n=128, k=64),
    "unaligned gemm": ops.Gemm(m=300, n=70, k=44),
    "transposed gemm": ops.Gemm(m=200, n=65, k=50, transpose_a=True, transpose_b=True),
    "single gemm": ops.Gemm(m=130, n=36, k=40, dtype="f32"),
    "convolution": ops.Conv2d(
        batch=8, in_channels=16, out_channels=20, height=6, width=6, kernel=(3, 3)
    ),
    "single convolution": ops.Conv2d(
        batch=3, in_channels=5, out_channels=9, height=7, width=5, kernel=(3, 3), dtype="f32"
    ),
}


def best_programs(op, keep=1):
    """The best programs of every algorithm."""
    cases = [(op, seed) for seed in seeds_for(op)]
    return [
        instantiate(candidate.program(MACHINE), mesh_bindings(MACHINE))
        for ranking in rank(cases, MACHINE, keep=keep)
        for candidate in ranking.best[:keep]
    ]


def distinct_routines(op):
    """Every distinct instance, with the text of the program that it comes from."""
    found = {}
    for program in best_programs(op):
        for instance in gemm_instances(program, MACHINE):
            found.setdefault(instance, program)
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_every_routine_of_the_emitted_text_is_exact_and_keeps_what_c_expects(name):
    routines = distinct_routines(OPERATORS[name])
    assert routines
    for instance, program in list(routines.items())[:2]:
        text = CODE.emit(program, MACHINE).files[f"{program.name}_gemm.S"]
        run = run_routine(text, routine_name(program.name, instance), instance, TABLE)
        assert run.exact, instance.symbol
        assert run.keeps_registers, instance.symbol


@pytest.mark.parametrize(
    ("orders", "vector", "dtype"),
    [(("mk", "kn", "nm"), "m", "f64"), (("km", "nk", "mn"), "n", "f32")],
)
def test_a_routine_that_packs_is_exact(orders, vector, dtype):
    program = gemm_variant(*orders, vector, dtype)
    (instance,) = gemm_instances(program, MACHINE)
    assert instance.plan.packs_vector
    text = emit_gemm_assembly("product", [instance])
    run = run_routine(text, routine_name("product", instance), instance, TABLE)
    assert run.exact
    assert run.keeps_registers


PRODUCT = """\
def product():
    x: tensor("f64", "input", m=1024, k=128)
    w: tensor("f64", "input", k=128, n=1024)
    y: tensor("f64", "output", m=1024, n=1024)
    x_tile: buffer("f64", 16 * 8, offset_bytes=0)
    w_tile: buffer("f64", 8 * 32, offset_bytes=1024)
    y_tile: buffer("f64", 16 * 32, offset_bytes=3072)
    space: buffer("f64", SPACE, offset_bytes=7168)
    for i in range(9):
        for j in range(3):
            get(x[at(rid * 16, 16), at(cid * 8, 8)], x_tile[0])
            get(w[at(rid * 8, 8), at(cid * 32, 32)], w_tile[0])
            wait(x_tile[0])
            wait(w_tile[0])
            fill(y_tile[0](shape=(16, 32), roles="mn"), value=0.0)
            gemm(CALL)
            put(y_tile[0], y[at(rid * 16, 16), at(cid * 32, 32)])
            wait(y_tile[0])
"""


def product(call, space=256):
    return parse(PRODUCT.replace("CALL", call).replace("SPACE", str(space)))


def symbols(call):
    return [i.symbol for i in gemm_instances(product(call), MACHINE)]


OF_BOTH_LOOPS = (
    "y_tile[0](at(0, min(16, 68 - i * 8)), at(0, max(16, 32 - j * 16)), shape=(16, 32), "
    'roles="mn"), x_tile[0](at(0, min(16, 68 - i * 8)), at(0, 8), shape=(16, 8), roles="mk"), '
    'w_tile[0](at(0, 8), at(0, max(16, 32 - j * 16)), shape=(8, 32), roles="kn"), vector="n"'
)
"""Extents of three kinds in the iterations of one loop, of two in those of the other."""


def test_extents_that_loops_decide_give_an_instance_each():
    found = symbols(OF_BOTH_LOOPS)
    assert found == [f"gemm_f64_n_row_row_{m}x{n}x8_8_32_32" for m in (4, 12, 16) for n in (16, 32)]


def test_a_condition_around_the_call_counts():
    text = product(
        'y_tile[0](at(0, 4 * (i + 1)), at(0, 32), shape=(16, 32), roles="mn"), '
        'x_tile[0](at(0, 4 * (i + 1)), at(0, 8), shape=(16, 8), roles="mk"), '
        'w_tile[0](shape=(8, 32), roles="kn"), vector="n"'
    )
    assert len(gemm_instances(text, MACHINE)) == 9


@pytest.mark.parametrize("most", [5, 6])
def test_extents_of_more_combinations_than_are_looked_at_are_refused(most, monkeypatch):
    monkeypatch.setattr(instances, "MOST_POINTS", most)
    program = product(OF_BOTH_LOOPS, space=250 + most)
    if most == 6:
        assert len(gemm_instances(program, MACHINE)) == 6
        return
    with pytest.raises(ProgramError) as caught:
        gemm_instances(program, MACHINE)
    assert str(caught.value) == "the extents of a gemm take more than 5 combinations"


OPERANDS = (
    'y_tile[0](shape=(16, 32), roles="mn"), x_tile[0](shape=(16, 8), roles="mk"), '
    'w_tile[0](shape=(8, 32), roles="kn"), '
)
PACKING = (
    'y_tile[0](shape=(16, 32), roles="mn"), x_tile[0](shape=(16, 8), roles="mk"), '
    'w_tile[0](shape=(32, 8), roles="nk"), '
)


@pytest.mark.parametrize(
    ("call", "space", "error", "message"),
    [
        (
            PACKING + 'vector="n"',
            256,
            ProgramError,
            "gemm_f64_n_row_column_16x32x8_8_8_32 packs its vectorised operand into 2048 bytes, "
            "its workspace has 0; name a larger buffer in the call's attribute 'workspace'",
        ),
        (
            PACKING + 'vector="n", workspace="space"',
            252,
            ProgramError,
            "gemm_f64_n_row_column_16x32x8_8_8_32 packs its vectorised operand into 2048 bytes, "
            "its workspace has 2016; name a larger buffer in the call's attribute 'workspace'",
        ),
        (
            OPERANDS + 'vector="m"',
            256,
            ScheduleError,
            "gemm vectorises m, but the result is stored in row order; vectorise n, or store the "
            "result the other way",
        ),
        (
            OPERANDS.replace("shape=(16, 32)", "at(0, 8 + rid), at(0, 32), shape=(16, 32)", 1)
            + 'vector="n"',
            256,
            ProgramError,
            "the extents of a gemm differ between cores; pad the tiles of all cores alike",
        ),
        (
            OPERANDS.replace(
                "w_tile[0](shape=(8, 32)", "w_tile[0](at(0, 8), at(i, 16), shape=(8, 32)"
            ).replace("y_tile[0](shape=(16, 32)", "y_tile[0](at(0, 16), at(0, 16), shape=(16, 32)")
            + 'vector="n"',
            256,
            ScheduleError,
            "gemm reads vectors of 'w_tile' from element i, which is not always a multiple of 4; "
            "make the tile's contiguous extent a multiple of the vector lanes",
        ),
        (
            OPERANDS.replace("shape=(16, 32)", "at(0, 6), at(0, 32), shape=(16, 32)", 1)
            + 'vector="n"',
            256,
            ScheduleError,
            "dgemm_n_arow_brow: m = 6 per core is not a positive multiple of 4 (4 scalars); "
            "pad m to 8",
        ),
    ],
)
def test_what_the_primitive_cannot_do_is_refused(call, space, error, message):
    with pytest.raises(error) as caught:
        gemm_instances(product(call, space), MACHINE)
    assert str(caught.value) == message


def test_the_primitives_are_written_for_the_machines_mesh():
    small = load_machine("sw26010", {"mesh.rows": "4", "mesh.columns": "4"})
    program = product(OPERANDS + 'vector="n"')
    assert [i.shape.mesh for i in gemm_instances(program, MACHINE)] == [8]
    assert [i.shape.mesh for i in gemm_instances(program, small)] == [4]


@pytest.mark.parametrize(("rows", "columns"), [(7, 8), (17, 17)])
def test_a_mesh_without_a_primitive_is_refused(rows, columns):
    other = load_machine("sw26010", {"mesh.rows": str(rows), "mesh.columns": str(columns)})
    message = (
        "the matrix primitive needs a square mesh of at most 16 x 16 cores, machine 'sw26010' has "
        f"{rows} x {columns}; set mesh.rows and mesh.columns to one number of 1 to 16"
    )
    with pytest.raises(ScheduleError) as error:
        gemm_instances(product(OPERANDS + 'vector="n"'), other)
    assert str(error.value) == message
    with pytest.raises(ScheduleError) as error:
        kernel_of(ops.Gemm(m=64, n=64, k=64), other)
    assert str(error.value) == message


def test_a_product_without_extent_has_its_function_too():
    """The code calls it, whether or not it computes anything."""
    empty = product(
        'y_tile[0](at(0, min(0, i)), at(0, 32), shape=(16, 32), roles="mn"), '
        'x_tile[0](at(0, min(0, i)), at(0, 8), shape=(16, 8), roles="mk"), '
        'w_tile[0](shape=(8, 32), roles="kn"), vector="n"'
    )
    assert gemm_instances(empty, MACHINE) == ()
    artifact = CODE.emit(empty, MACHINE)
    assert "spm_gemm_f64(" in artifact.files["product_slave.c"]
    assert "void spm_gemm_f64(" in artifact.files["spm_gemm.c"]
    assert "void spm_gemm_f32(" not in artifact.files["spm_gemm.c"]
    built = {step.inputs[0] for step in artifact.build.steps}
    assert {"spm_gemm.c", "product_gemm.S"} <= built & set(artifact.files)
    inputs = {"x": np.ones((1024, 128)), "w": np.ones((128, 1024))}
    assert (run_emulated(artifact, inputs)["y"][:128, :256] == 0).all()


def emulated_report(before, after):
    """Report of the emulation on a packing program with one text changed."""
    program = product(PACKING + 'vector="n", workspace="space"')
    artifact = CODE.emit(program, MACHINE)
    text = artifact.files["product_slave.c"]
    assert before in text
    files = {**artifact.files, "product_slave.c": text.replace(before, after)}
    inputs = {"x": np.zeros((1024, 128)), "w": np.zeros((128, 1024))}
    with pytest.raises(SimulationError) as caught:
        run_emulated(replace(artifact, files=files), inputs)
    return str(caught.value).split("; the statement")[0].split(": ", 1)[1]


def test_the_emulation_misses_a_workspace():
    assert emulated_report("COLUMN_MAJOR, ROW_MAJOR, space", "COLUMN_MAJOR, ROW_MAJOR, 0") == (
        "core (0, 0): spm_gemm_f64 packs B, but is handed no workspace of 2048 bytes"
    )


def test_the_emulation_sees_a_workspace_on_an_operand():
    report = emulated_report("COLUMN_MAJOR, ROW_MAJOR, space", "COLUMN_MAJOR, ROW_MAJOR, w_tile")
    assert report == "core (0, 0): spm_gemm_f64: the workspace of 2048 bytes overlaps an operand"
