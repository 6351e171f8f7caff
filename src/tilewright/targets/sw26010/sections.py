"""Sections of an SW26010's description beyond those of every machine: its primitives.

The routines are written for one kind of core, and priced by their own code. Numbers that are also
in the code cannot be changed here: that would change prices and not the code.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa import load_table, table_names
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive, Sections, VectorPrimitive
from tilewright.targets.sw26010.gemm.parts import TABLE_NAME
from tilewright.targets.sw26010.gemm.shape import SCALAR_BLOCK, VECTOR_BLOCK, VECTOR_LANES

_BLOCK = (("register_block_vectors", VECTOR_BLOCK // VECTOR_LANES),
          ("register_block_scalars", SCALAR_BLOCK))  # fmt: skip


def _problem(machine: Machine) -> str:
    """The first number that the cores' code does not follow."""
    found = (*_problems_of_core(machine), *_problems_of_product(machine))
    return next(iter(found), "")


def _problems_of_product(machine: Machine) -> Iterator[str]:
    gemm, table = machine.section(GemmPrimitive), machine.core.instruction_table
    for name, expected in _BLOCK:
        if getattr(gemm, name) != expected:
            yield (
                f"{gemm.key}.{name}: expected {expected}, the register block of the cores' matrix "
                f"routine, found {getattr(gemm, name)}"
            )
    if gemm.partial_blocks:
        yield (
            f"{gemm.key}.partial_blocks: expected false, since the matrix routine of the cores "
            "takes a product of whole blocks a call, found true"
        )
    if gemm.chains and table is None:
        yield (
            f"{gemm.key}.chains: expected false, since the cycles of a chain of products are those "
            "of its code with a core.instruction_table, which is missing, found true"
        )
    for kind in ("f64", "f32"):
        if table is not None and gemm.timing(kind) is not None:
            yield (
                f"{gemm.key}.{kind}: expected none, since the cycles of the matrix routine are "
                f"those of its code with core.instruction_table = {table!r}, found a table"
            )


def _problems_of_core(machine: Machine) -> Iterator[str]:
    core = machine.core
    for key, lanes in (("core.vector_lanes", core.lanes("f64")), ("core.f32", core.lanes("f32"))):
        if lanes != VECTOR_LANES:
            yield f"{key}: expected {VECTOR_LANES} lanes, as the routines have, found {lanes}"
    if core.instruction_table is None:
        return
    own, names = core.instruction_table, table_names()
    if own not in names or load_table(own).instruction_set != TABLE_NAME:
        known = [name for name in names if load_table(name).instruction_set == TABLE_NAME]
        yield (
            f"core.instruction_table: expected one of {', '.join(known)}, for whose instructions "
            f"the routines are written, found {own!r}"
        )
        return
    table = load_table(own)
    cache, registers = table.instruction_cache, sum(file.count for file in table.register_files)
    held = None if cache is None else cache.capacity_bytes
    pairs = (
        ("registers", core.registers, registers),
        ("instruction_cache_bytes", core.instruction_cache_bytes, held),
    )
    for name, found, expected in pairs:
        if found is not None and found != expected:
            yield (
                f"core.{name}: expected {expected}, which core.instruction_table = "
                f"{table.name!r} has, found {found}; another takes a table of its own"
            )


SECTIONS = Sections(
    required=(GemmPrimitive, VectorPrimitive),
    needs=("mesh", "memory.spm", "memory.main", "dma.get", "dma.put"),
    problem=_problem,
    training="published: swCaffe on an SW26010 has 0.23 to 1.19 times the speed of Caffe on a K40m "
    "(CLUSTER 2018)",
)
