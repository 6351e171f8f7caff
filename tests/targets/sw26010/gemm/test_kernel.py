"""The GEMM primitive on the simulated 8 x 8 mesh: exact results, refusals, speed."""

import random
from dataclasses import replace
from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from support.examples import one_in
from support.gemm_mesh import run_gemm
from tilewright.asm import assemble
from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import SymbolReference, load_table, make_instruction
from tilewright.machine import load_machine
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import encode_program
from tilewright.targets.sw26010.code_lines import executed_length, kernel_length
from tilewright.targets.sw26010.gemm.assembly import frame
from tilewright.targets.sw26010.gemm.exact import product_run, simulated_gemm_cycles
from tilewright.targets.sw26010.gemm.instances import GemmInstance
from tilewright.targets.sw26010.gemm.kernel import gemm_kernel
from tilewright.targets.sw26010.gemm.parts import ROLES, BodyStep
from tilewright.targets.sw26010.gemm.shape import (
    F32,
    F64,
    SINGLE_VARIANTS,
    VARIANTS,
    GemmShape,
    GemmVariant,
    plan_gemm,
)
from tilewright.targets.sw26010.gemm.steps import Unrolling, unrolling
from tilewright.targets.sw26010.gemm.template import gemm_template

pytestmark = one_in(3)


NAMED = {variant.name: variant for variant in VARIANTS}


def oriented(variant, vector, scalar, k):
    """A shape with the given extent of the vectorised dimension."""
    by_m = variant.vectorised == "m"
    return GemmShape(vector, scalar, k) if by_m else GemmShape(scalar, vector, k)


def shapes(variant):
    """Corner cases (one block, one k, no whole group of k) and a random choice for each variant."""
    pick = random.Random(variant.name)
    fixed = [(16, 4, 1), (32, 4, 3), (16, 8, 5)]
    drawn = [(16 * pick.randint(1, 3), 4 * pick.randint(1, 4), pick.randint(1, 9)) for _ in "ab"]
    return [oriented(variant, *extents) for extents in fixed + drawn]


@pytest.mark.parametrize("name", NAMED)
def test_the_product_is_exact(name):
    variant = NAMED[name]
    wrong = [shape for shape in shapes(variant) if not run_gemm(variant, shape).exact]
    assert wrong == []


@pytest.mark.parametrize("variant", SINGLE_VARIANTS, ids=lambda variant: variant.name)
def test_single_precision_is_exact(variant):
    grid = [(16, 4, 1), (32, 8, 3), (16, 12, 6)]
    wrong = [e for e in grid if not run_gemm(variant, oriented(variant, *e)).exact]
    assert wrong == []


def test_single_precision_pays_for_the_missing_load_and_broadcast():
    template = gemm_template(F32)
    assert (template.interval_cycles, template.schedule.proven_minimum) == (19, True)
    run = run_gemm(SINGLE_VARIANTS[1], GemmShape(16, 48, 48))
    assert 0.80 < run.efficiency < 16 / 19


@pytest.mark.parametrize("mesh", [1, 2, 3, 5, 7, 9, 16])
def test_the_product_is_exact_on_square_meshes(mesh):
    for variant, k in ((VARIANTS[1], 3), (VARIANTS[6], 9), (SINGLE_VARIANTS[0], 1)):
        shape = replace(oriented(variant, 32, 8, k), mesh=mesh)
        assert run_gemm(variant, shape).exact, variant.name


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8, 9, 15, 17, 23, 26, 31, 37])
def test_every_k_is_exact_however_it_is_unrolled(k):
    for variant in (VARIANTS[1], SINGLE_VARIANTS[4]):
        assert run_gemm(variant, oriented(variant, 16, 8, k)).exact, variant.name


def test_the_loop_over_k_is_unrolled_as_far_as_the_instruction_cache_has_room():
    found = {k: unrolling(plan_gemm(VARIANTS[1], GemmShape(16, 48, k))) for k in (1, 4, 16, 48)}
    assert found == {
        1: Unrolling(body=0, trips=0, rest=0),
        4: Unrolling(body=0, trips=0, rest=3),
        16: Unrolling(body=7, trips=2, rest=1),
        48: Unrolling(body=9, trips=5, rest=2),
    }


@given(k=st.integers(1, 200), step=st.sampled_from([128, 2048, 16000]))
def test_an_unrolling_covers_all_iterations_but_the_last(k, step):
    plan = replace(plan_gemm(VARIANTS[1], GemmShape(16, 4, 1)), vector_step=step)
    plan = replace(plan, shape=replace(plan.shape, k=k))
    how = unrolling(plan)
    assert how.body * how.trips + how.rest == k - 1
    assert (how.body + 1) * step <= 32767


@given(
    variant=st.sampled_from(VARIANTS + SINGLE_VARIANTS),
    blocks=st.tuples(st.integers(1, 4), st.integers(1, 8)),
    k=st.integers(1, 70),
    mesh=st.sampled_from([1, 2, 4, 8]),
    links=st.sampled_from([1, 1, 2, 9]),
    leading=st.sampled_from([0, 256, 4000]),
)
def test_a_program_is_as_long_as_its_plan_says(variant, blocks, k, mesh, links, leading):
    """Leading dimensions of 4000 take several instructions to pass."""
    shape = oriented(variant, 16 * blocks[0], 4 * blocks[1], k)
    shape = replace(shape, lda=leading, mesh=mesh, links=links, local_memory_bytes=1 << 24)
    try:
        plan = plan_gemm(variant, shape)
    except (CapacityError, ScheduleError):
        reject()
    assert kernel_length(plan) == len(gemm_kernel(variant, shape).instructions)


@pytest.mark.parametrize("name", NAMED)
def test_leading_dimensions_may_exceed_the_extents(name):
    variant = NAMED[name]
    shape = replace(oriented(variant, 16, 8, 6), lda=28, ldb=36, ldc=40)
    assert run_gemm(variant, shape).exact


@pytest.mark.parametrize(("k", "target"), [(16, 0.908), (32, 0.952), (48, 0.967)])
def test_the_best_primitive_keeps_the_vector_pipe_busy(k, target):
    run = run_gemm(GemmVariant("m", "column", "row"), GemmShape(16, 48, k))
    assert run.exact
    assert run.efficiency >= target


@pytest.mark.parametrize(("k", "target"), [(16, 0.77), (32, 0.86), (48, 0.89)])
def test_taken_branches_and_changes_of_roles_leave_most_of_the_peak(k, target):
    machine, dims = load_machine("sw26010_measured"), {"m": 16, "n": 48, "k": k}
    cycles = simulated_gemm_cycles(machine, PricedCall(MatrixProduct("m"), dims, "f64"))
    assert GemmShape(**dims).multiply_adds / cycles >= target


@pytest.mark.parametrize("entries", [1, 2, 4, 8])
@pytest.mark.parametrize("latency", [1, 40])
def test_no_result_depends_on_the_timing_of_the_buses(entries, latency):
    communication = msgspec.structs.replace(
        load_table("sw26010_cpe").communication,
        transfer_buffer_entries=entries,
        transfer_latency_cycles=latency,
    )
    assert run_gemm(VARIANTS[1], GemmShape(16, 8, 3), communication=communication).exact


def test_packing_costs_little():
    shape = GemmShape(32, 32, 16)
    best, packing = (
        run_gemm(GemmVariant("m", layout, "row"), shape) for layout in ("column", "row")
    )
    assert best.cycles < packing.cycles < 1.02 * best.cycles


def test_one_schedule_serves_all_roles_in_sixteen_cycles():
    template = gemm_template(F64)
    assert (template.interval_cycles, template.schedule.proven_minimum) == (16, True)
    for role in ROLES:
        slots = [t % 16 for p, t in template.times.items() if p.belongs_to(role)]
        assert max(slots.count(slot) for slot in set(slots)) <= 2


@pytest.mark.parametrize("precision", [F64, F32], ids=lambda precision: precision.name)
def test_the_last_iteration_does_not_count_on_a_pointer_step_of_the_next(precision):
    template = gemm_template(precision)
    for operand in ("vector", "scalar"):
        step = template.times[BodyStep(f"step_{operand}")]
        assert template.interval_cycles <= step < 2 * template.interval_cycles


def test_the_code_fits_the_instruction_cache():
    # Double precision is longest at k = 48, single precision at 51.
    for variant, k in (*product(VARIANTS, (11, 48)), *product(SINGLE_VARIANTS, (51,))):
        kernel = gemm_kernel(variant, oriented(variant, 32, 4, k))
        assert kernel.code_bytes <= 16 * 1024, (variant.name, k)


@pytest.mark.parametrize("variant", [VARIANTS[1], SINGLE_VARIANTS[4]], ids=lambda v: v.name)
def test_the_text_assembles_to_the_same_instructions(variant):
    kernel = gemm_kernel(variant, oriented(variant, 32, 8, 5))
    placed = assemble(kernel.text(), kernel.table).instructions
    assert [p.instruction.text() for p in placed] == [i.text() for i in kernel.instructions]


def test_stack_link_and_global_pointer_survive():
    run = run_gemm(VARIANTS[0], GemmShape(16, 4, 2), registers={"$29": 29, "$30": 30})
    core = run.mesh.cores[9]
    assert core.integer_registers[[29, 30], 0].tolist() == [29, 30]


def test_the_code_runs_anywhere_and_beside_another_primitive():
    table = load_table("sw26010_cpe")
    one = gemm_kernel(VARIANTS[1], GemmShape(16, 4, 1))
    two = gemm_kernel(VARIANTS[4], GemmShape(4, 16, 2))
    call = make_instruction(table, "bsr", [SymbolReference(two.entry)])
    halt = make_instruction(table, "halt")
    program = encode_program([call, halt, *one.instructions, *two.instructions], table)
    registers = {"$16": 0, "$17": 8192, "$18": 16384, "$19": 24576}
    run = simulate_mesh(program, SimulatedMesh(8, 8), registers=registers)
    assert run.cores[0].instruction(1).mnemonic == "halt"
    assert run.cores[0].executed[1] == 64


@pytest.mark.parametrize(
    ("variant", "shape", "message"),
    [
        (
            GemmVariant("m"),
            GemmShape(24, 4, 8),
            "dgemm_m_acolumn_brow: m = 24 per core is not a positive multiple of 16 "
            "(4 vectors of 4 lanes); pad m to 32",
        ),
        (
            GemmVariant("n"),
            GemmShape(6, 16, 8),
            "dgemm_n_acolumn_brow: m = 6 per core is not a positive multiple of 4 (4 scalars); "
            "pad m to 8",
        ),
        (
            GemmVariant("m"),
            GemmShape(16, 4, 0),
            "dgemm_m_acolumn_brow: k = 0 per core is not a positive multiple of 1 "
            "(the reduction); pad k to 1",
        ),
        (
            GemmVariant("m"),
            GemmShape(16, 4, 8, lda=18),
            "lda = 18 elements of 8 bytes breaks the 32-byte alignment of vectors; use lda = 20",
        ),
        (
            GemmVariant("m"),
            GemmShape(16, 4, 8, ldc=12),
            "ldc = 12 is smaller than the contiguous extent 16; use ldc >= 16",
        ),
    ],
)
def test_illegal_shapes_are_refused_with_the_rule(variant, shape, message):
    with pytest.raises(ScheduleError) as error:
        gemm_kernel(variant, shape)
    assert str(error.value) == message


def test_operands_that_do_not_fit_are_refused_with_their_sizes():
    with pytest.raises(CapacityError) as error:
        gemm_kernel(GemmVariant("m"), GemmShape(64, 64, 64))
    assert str(error.value) == (
        "A 32768 + B 32768 + C 32768 + workspace 0 + tables 640 = 98944 bytes exceed the 65536 "
        "bytes of local memory; use smaller extents per core"
    )


def test_a_block_out_of_reach_of_its_pointer_is_refused():
    with pytest.raises(CapacityError) as error:
        gemm_kernel(GemmVariant("m", b_layout="column"), GemmShape(16, 4, 1, ldb=1500))
    assert str(error.value) == (
        "the block reaches 36008 bytes from its pointer, a displacement at most 32767; "
        "use a smaller leading dimension"
    )


@pytest.mark.parametrize(
    ("name", "blocks", "k", "mesh", "links"),
    [
        ("dgemm_n_arow_brow", (1, 1), 9, 8, 1),
        ("dgemm_m_acolumn_brow", (2, 3), 30, 4, 1),
        ("dgemm_n_acolumn_brow", (2, 2), 5, 2, 3),
        ("dgemm_m_acolumn_brow", (1, 1), 2, 4, 2),
        ("dgemm_n_arow_bcolumn", (1, 4), 33, 1, 1),
    ],
)
def test_cores_execute_all_but_changes_of_blocks_in_rows_of_one(name, blocks, k, mesh, links):
    variant = NAMED[name]
    shape = oriented(variant, 16 * blocks[0], 4 * blocks[1], k)
    instance = GemmInstance(variant, replace(shape, mesh=mesh, links=links))
    (executed,) = {
        tuple(np.flatnonzero(core.executed)) for core in product_run(instance, "sw26010_cpe").cores
    }
    frames = len([*frame("", chain=links > 1)])
    assert executed == tuple(range(frames + executed_length(instance.plan)))
