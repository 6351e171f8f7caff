"""What the matrix primitives take on a core: derived from their own code by simulating it.

In: an instruction table and the size of a square mesh. Out: for each element type the coefficients
of the form that follows the code (`gemm_calibrate`, "blocks") and how far it is from the simulated
cycles. The result for the shipped cores comes with tilewright; it is used while code and table are
those that it was derived from. Others are derived when they are asked for, which takes some 30
seconds, and kept in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np

from tilewright.asm import assemble
from tilewright.codegen.fitting import fit_relative
from tilewright.common.cache import Cache
from tilewright.common.digest import PACKAGE, digest, digest_of_files
from tilewright.isa import InstructionTable, load_table
from tilewright.machine.sections import GemmTiming
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import Mesh
from tilewright.simulate.program import encode_program
from tilewright.targets.sw26010.gemm.assembly import frame
from tilewright.targets.sw26010.gemm.kernel import gemm_kernel
from tilewright.targets.sw26010.gemm.shape import (
    F32,
    F64,
    MESH_STEPS,
    VECTOR_LANES,
    GemmPlan,
    GemmShape,
    GemmVariant,
    Precision,
)
from tilewright.targets.sw26010.gemm.tables import TABLE_BYTES
from tilewright.targets.sw26010.timing.chain import (
    CHAIN_SAMPLES,
    DerivedChain,
    derive_chain,
)
from tilewright.targets.sw26010.timing.shipped import read_timings, write_timings

TIMINGS = "gemm.json"
"""What `derive_timings` gives; `pytest tests/targets/sw26010 --update-golden` writes it anew."""
MAKERS = (
    "targets/sw26010/gemm/blocks.py",
    "targets/sw26010/gemm/chain.py",
    "targets/sw26010/gemm/chain_blocks.py",
    "targets/sw26010/gemm/kernel.py",
    "targets/sw26010/gemm/pack.py",
    "targets/sw26010/gemm/parts.py",
    "targets/sw26010/gemm/shape.py",
    "targets/sw26010/gemm/steps.py",
    "targets/sw26010/gemm/tables.py",
    "targets/sw26010/gemm/templates.toml",
    "targets/sw26010/timing/chain.py",
)
"""What makes the primitives' code."""
SHIPPED_TABLES = ("sw26010_cpe", "sw26010_cpe_measured")
BLOCKS_AND_K = ((1, 1, 2), (1, 3, 8), (2, 1, 5), (1, 6, 16), (2, 3, 12), (3, 1, 33), (1, 2, 48))
PACKED_BLOCKS_AND_K = ((1, 1, 4), (1, 1, 16), (3, 1, 8), (2, 1, 24))
"""Register blocks and k of the samples, without and with packing."""
_CALLEE = "callee"


class DerivedTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form's coefficients for one element type, and its relative errors over the samples."""

    timing: GemmTiming
    mean_error: float
    worst_error: float


class DerivedTimings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The timings of one core; `question` is a digest of all that they are derived from."""

    question: str
    f64: DerivedTiming
    f32: DerivedTiming
    f64_chain: DerivedChain
    f32_chain: DerivedChain


def gemm_timing(table: str, mesh: int, dtype: str) -> DerivedTiming:
    """The timing of a mesh x mesh of cores for one element type."""
    found = timings_of(table, mesh)
    return found.f32 if dtype == F32.name else found.f64


def chain_timing(table: str, mesh: int, dtype: str) -> DerivedChain:
    """The timing of a chain of products on a mesh x mesh of cores for one element type."""
    found = timings_of(table, mesh)
    return found.f32_chain if dtype == F32.name else found.f64_chain


@cache
def timings_of(table: str, mesh: int = MESH_STEPS) -> DerivedTimings:
    """The timings of a mesh x mesh of cores: shipped, kept, or derived now."""
    asked = question(table, mesh)
    shipped = shipped_timings().get(table)
    if shipped is not None and shipped.question == asked:
        return shipped
    kept = Cache("primitives")
    return kept.value(asked, DerivedTimings, lambda: derive_timings(table, mesh))


@cache
def question(table: str, mesh: int) -> str:
    """Digest of the instruction table, the mesh, what makes the primitives' code, the frame around
    it and the samples.
    """
    makers = digest_of_files(PACKAGE, MAKERS)
    around = "\n".join([*frame(_CALLEE), *frame(_CALLEE, chain=True)])
    samples = repr((BLOCKS_AND_K, PACKED_BLOCKS_AND_K, CHAIN_SAMPLES))
    return digest(str(mesh), table_timing(load_table(table)), makers, around, samples)[:16]


def table_timing(table: InstructionTable) -> bytes:
    """All of a table that decides how long code takes. Rules that it leaves as they are do not
    count: tables may get further ones.
    """
    instructions = [
        (spec.mnemonic, spec.effect, spec.units, spec.latency_cycles, spec.occupancy_cycles)
        for spec in table.instructions
    ]
    rules = [
        (f.name, value)
        for rule in (table.issue, table.communication, table.instruction_cache)
        if rule is not None
        for f in msgspec.structs.fields(rule)
        if (value := getattr(rule, f.name)) != f.default
    ]
    return msgspec.json.encode((table.units, instructions, rules))


def shipped_timings() -> Mapping[str, DerivedTimings]:
    """What was derived for the shipped cores, by instruction table."""
    return read_timings(TIMINGS, DerivedTimings)


def write_shipped(path: Path) -> None:
    """Derive the timings of the shipped cores and write the file that ships them."""
    found = {name: derive_timings(name, MESH_STEPS) for name in SHIPPED_TABLES}
    write_timings(path, found, indent=2)


def derive_timings(table: str, mesh: int) -> DerivedTimings:
    """Simulate samples of the primitives on the mesh and fit the form to them."""
    f64, f32 = (derive_timing(table, mesh, precision) for precision in (F64, F32))
    chains = (derive_chain_timing(table, mesh, precision) for precision in (F64, F32))
    return DerivedTimings(question(table, mesh), f64, f32, *chains)


def derive_chain_timing(name: str, mesh: int, precision: Precision) -> DerivedChain:
    """The timing of chains of one element type on the cores of the instruction table `name`."""
    table = load_table(name)
    return derive_chain(table, mesh, precision, _frame_cycles(table))


def derive_timing(name: str, mesh: int, precision: Precision) -> DerivedTiming:
    """The timing of one element type on a mesh x mesh of cores of the instruction table `name`."""
    table = load_table(name)
    around = _frame_cycles(table)
    plain = {s: around + _cycles(table, precision, mesh, s) for s in BLOCKS_AND_K}
    terms = [[1, v, v * s * mesh, v * s * mesh * k] for v, s, k in plain]
    product = fit_relative(terms, [*plain.values()], ("1", "V", "V S", "V S K"), "blocks")
    errors = np.abs(np.asarray(terms) @ product / [*plain.values()] - 1)
    sweeps, extra = [], []
    for v, s, k in PACKED_BLOCKS_AND_K:
        packed = _cycles(table, precision, mesh, (v, s, k), packs=True)
        sweeps.append([-(-k // VECTOR_LANES), -(-k // VECTOR_LANES) * v])
        extra.append(packed - _cycles(table, precision, mesh, (v, s, k)))
    packing = fit_relative(sweeps, extra, ("sweep", "V sweep"), "packing")
    numbers = [round(float(value), 3) for value in (*product, *packing)]
    call, row, block, per_k, *sweep = numbers
    timing = GemmTiming(call, row, block, per_k, *sweep)
    mean, worst = (round(float(error), 5) for error in (errors.mean(), errors.max()))
    return DerivedTiming(timing, mean, worst)


def _cycles(
    table: InstructionTable,
    precision: Precision,
    mesh: int,
    blocks_and_k: tuple[int, int, int],
    *,
    packs: bool = False,
) -> int:
    """Cycles of the primitive's code, its frame aside, for register blocks and k."""
    vector, scalar, k = blocks_and_k
    variant = GemmVariant("m", "row" if packs else "column", "row", precision)
    kernel = gemm_kernel(variant, GemmShape(16 * vector, 4 * scalar, k, mesh=mesh))
    places = dict(zip(("$16", "$17", "$18", "$19", "$20"), _places(kernel.plan), strict=True))
    program = encode_program(kernel.instructions, table)
    return simulate_mesh(program, Mesh(mesh, mesh), registers=places).cycles


def _places(plan: GemmPlan) -> Iterator[int]:
    """Addresses of A, B, C, the tables and the workspace, one behind the other."""
    sizes = [-(-size // 32) * 32 for size in (*plan.operand_bytes, TABLE_BYTES)]
    return accumulate(sizes, initial=0)


@cache
def _frame_cycles(table: InstructionTable) -> int:
    """Cycles that the C-callable part adds to a call of the primitive."""
    lines = [*frame(_CALLEE), f"{_CALLEE}:", "    ret $26"]
    placed = assemble("\n".join(lines), table).instructions
    program = encode_program([p.instruction for p in placed], table)
    stack = {"$30": table.local_memory_bytes}
    return simulate_mesh(program, Mesh(1, 1, ideal_communication=True), registers=stack).cycles
