"""Packing of a vector operand whose vectorised dimension is strided: 4 x 4 blocks are transposed in
registers.

In: a `GemmPlan` that packs. Out: code that copies the operand, once per call, to the workspace with
its vectorised dimension contiguous. Four loads, eight shuffles and four stores per block, as a
software pipeline; the copy takes about 0.3 / (scalar extent) of the time of the product.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.isa import Instruction, Register, SymbolReference
from tilewright.isa.dependence import AliasRules
from tilewright.isa.software_pipeline import TripCount, pipeline_loop
from tilewright.targets.sw26010.gemm.parts import TABLE_POINTER, ZERO, instruction
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, GemmPlan
from tilewright.targets.sw26010.gemm.steps import advance
from tilewright.targets.sw26010.gemm.tables import PACKED_ADDRESS

DESTINATION, SOURCE, COUNT, OUTER = 20, 21, 22, 23
ROWS, HALVES, COLUMNS = (1, 2, 3, 4), (7, 8, 9, 10), (11, 12, 13, 14)
# vshff b, a takes lanes 0, 1 of the result from its second operand, lanes 2, 3 from its first.
LOW_PAIRS, HIGH_PAIRS, EVEN_LANES, ODD_LANES = 0x44, 0xEE, 0x88, 0xDD


def pack_code(plan: GemmPlan, operand: int) -> list[Instruction]:
    """Copies the vector operand, whose address is in register `operand`, to the workspace, whose
    address is in `DESTINATION`.
    """
    vector = plan.vector_blocks * 16
    whole, rest = divmod(plan.shape.k, VECTOR_LANES)
    code = [
        instruction("ldi", Register(SOURCE), (0, operand)),
        instruction("stl", Register(DESTINATION), (PACKED_ADDRESS, TABLE_POINTER)),
        instruction("ldi", Register(OUTER), (whole, ZERO)),
    ]
    if whole:
        inner = _columns(plan, VECTOR_LANES, "pack_inner")
        inner[0] = replace(inner[0], labels=("pack_outer", *inner[0].labels))
        code += inner
        code += advance(SOURCE, plan.vector_bytes - vector * plan.vector_leading_bytes)
        code += advance(DESTINATION, 3 * vector * plan.variant.precision.element_bytes)
        code.append(instruction("subl", Register(OUTER), 1, Register(OUTER)))
        code.append(instruction("bne", Register(OUTER), SymbolReference("pack_outer")))
    if rest:
        code += _columns(plan, rest, "pack_rest")
    return code


def _columns(plan: GemmPlan, stored: int, label: str) -> list[Instruction]:
    """One sweep along the vectorised dimension for four successive k, of which `stored` exist."""
    trips = plan.vector_blocks * 4
    opening = instruction("ldi", Register(COUNT), (trips, ZERO))
    body = [*_transpose(plan, stored), *_control(plan, label)]
    body[0] = replace(body[0], labels=(label,))
    aliases = AliasRules({SOURCE: "source", DESTINATION: "destination"})
    loop = pipeline_loop(body, TripCount(COUNT, minimum=trips), aliases=aliases)
    return [opening, *loop.program]


def _transpose(plan: GemmPlan, stored: int) -> list[Instruction]:
    rows, halves, columns = ([Register(r) for r in group] for group in (ROWS, HALVES, COLUMNS))
    leading, contiguous = plan.vector_leading_bytes, plan.vector_step
    precision = plan.variant.precision
    code = [instruction(precision.vector_load, rows[i], (i * leading, SOURCE)) for i in range(4)]
    for i, (first, selection) in enumerate(
        ((0, LOW_PAIRS), (0, HIGH_PAIRS), (2, LOW_PAIRS), (2, HIGH_PAIRS))
    ):
        code.append(instruction("vshff", rows[first + 1], rows[first], selection, halves[i]))
    for j in range(stored):
        low, high = halves[j // 2], halves[2 + j // 2]
        selection = ODD_LANES if j % 2 else EVEN_LANES
        code.append(instruction("vshff", high, low, selection, columns[j]))
    code += [
        instruction(precision.vector_store, columns[j], (j * contiguous, DESTINATION))
        for j in range(stored)
    ]
    return code


def _control(plan: GemmPlan, label: str) -> list[Instruction]:
    count = Register(COUNT)
    return [
        *advance(SOURCE, 4 * plan.vector_leading_bytes),
        *advance(DESTINATION, plan.vector_bytes),
        instruction("subl", count, 1, count),
        instruction("bne", count, SymbolReference(label)),
    ]
