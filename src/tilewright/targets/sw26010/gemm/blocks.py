"""The ends and starts of C blocks in the SW26010 GEMM primitive, and the packing before them.

In: a `GemmPlan`. Out: a transition for each pair of roles in a block's last step and the next
block's first; it ends the one block, stores C, loads the next and starts it. The first and the last
block of a row of blocks have their own. C stays in registers across all steps (loop order: blocks,
steps, k). A plan whose vectorised dimension is strided packs: once per call it copies its vector
operand to the workspace with that dimension contiguous, 4 x 4 blocks transposed in registers by
four loads, eight shuffles and four stores, as a software pipeline. The copy takes about 0.3 /
(scalar extent) of the time of the product.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from tilewright.isa import Instruction, Memory, Operand, Register, SymbolReference, load_table
from tilewright.isa.dependence import AliasRules, Operation
from tilewright.isa.operations import operations_of
from tilewright.isa.reorder import list_schedule
from tilewright.isa.software_pipeline import TripCount, pipeline_loop
from tilewright.targets.sw26010.gemm.parts import (
    BLOCK,
    RESULT_POINTER,
    SCALAR_POINTER,
    TABLE_NAME,
    TABLE_POINTER,
    TEMPORARY,
    VECTOR_POINTER,
    ZERO,
    BodyStep,
    Role,
    instruction,
    result_register,
)
from tilewright.targets.sw26010.gemm.shape import (
    LIMIT,
    PACKED_ADDRESS,
    ROW_TABLE_SHIFT,
    SCALAR_BLOCK,
    VECTOR_LANES,
    GemmPlan,
)
from tilewright.targets.sw26010.gemm.steps import (
    advance,
    ahead,
    bookkeeping,
    by_slot,
    emitted,
    last_iteration,
    loop_label,
    template_of_plan,
    unrolling,
)

ALIASES = AliasRules(
    {
        VECTOR_POINTER: "vector operand",
        SCALAR_POINTER: "scalar operand",
        RESULT_POINTER: "result",
        TABLE_POINTER: "tables",
        TEMPORARY: "targets at the end of a block",
    }
)
FAR_BYTES = 1 << 20  # stands for any distance between blocks


def block_label(now: Role, then: Role) -> str:
    """Label of the transition to the next C block."""
    return f"block_{now.name}_{then.name}"


def result_accesses(plan: GemmPlan, mnemonic: str) -> list[Instruction]:
    """Loads or stores of the 16 vectors of C, in the order in which the arithmetic uses them."""
    times = template_of_plan(plan).times
    cells = [(i, j) for i in range(BLOCK) for j in range(BLOCK)]
    cells.sort(key=lambda cell: times[BodyStep("multiply_add", *cell)])
    return [
        instruction(
            mnemonic,
            Register(result_register(i, j)),
            (plan.vector_bytes * i + plan.result_stride * j, RESULT_POINTER),
        )
        for i, j in cells
    ]


def block_step_bytes(plan: GemmPlan) -> tuple[int, int, int]:
    """Steps of vector, scalar, result pointers from the end of a C block to the next in its row."""
    how = unrolling(plan)
    passed = how.trips * how.body
    scalar = SCALAR_BLOCK * plan.scalar_stride - passed * plan.scalar_step
    return -passed * plan.vector_step, scalar, SCALAR_BLOCK * plan.result_stride


def block_block(plan: GemmPlan, now: Role, then: Role) -> list[Instruction]:
    """The end of a C block and the start of the next: stores, pointers, loads, and the first
    operands. No block of the row follows table `LAST_TABLE`, so the limit tells which table comes
    next.
    """
    vector, scalar, result = block_step_bytes(plan)
    flag = Register(TEMPORARY)
    pointer = Register(TABLE_POINTER)
    code = by_slot(emitted(plan, last_iteration(plan, now)))
    code += result_accesses(plan, plan.variant.precision.vector_store)
    code += advance(VECTOR_POINTER, vector) + advance(SCALAR_POINTER, scalar)
    code += advance(RESULT_POINTER, result)
    code += result_accesses(plan, plan.variant.precision.vector_load)
    # Here the table pointer is behind the words of FOLLOWED_TABLE, one for each step.
    passed = 8 * plan.shape.mesh
    code += [
        instruction("ldl", flag, (LIMIT - passed, TABLE_POINTER)),
        instruction("cmpeq", Register(RESULT_POINTER), flag, flag),
        instruction("sll", flag, ROW_TABLE_SHIFT, flag),
        *advance(TABLE_POINTER, -passed),
        instruction("addl", pointer, flag, pointer),
    ]
    code += bookkeeping(plan) + by_slot(emitted(plan, ahead(plan, then, 0)))
    return straight_block(code, block_label(now, then), loop_label(then))


def drain_block(plan: GemmPlan, now: Role) -> list[Instruction]:
    """The end of the last C block of a row of blocks: nothing is loaded ahead."""
    code = by_slot(emitted(plan, last_iteration(plan, now)))
    code += result_accesses(plan, plan.variant.precision.vector_store)
    return straight_block(code, f"drain_{now.name}", "next_row")


def start_block(plan: GemmPlan, then: Role) -> list[Instruction]:
    """The start of the first C block of a row of blocks."""
    code = [*result_accesses(plan, plan.variant.precision.vector_load), *bookkeeping(plan)]
    code += by_slot(emitted(plan, ahead(plan, then, 0)))
    return straight_block(code, f"start_{then.name}", loop_label(then))


def straight_block(code: Sequence[Instruction], label: str, target: str) -> list[Instruction]:
    """List-scheduled code with its label and a final branch."""
    first, *rest = scheduled(code)
    return [replace(first, labels=(label,)), *rest, instruction("br", SymbolReference(target))]


def scheduled(code: Sequence[Instruction]) -> list[Instruction]:
    """Straight-line `code`, list-scheduled for the core's two pipes.

    The order depends on the code's structure alone and is remembered: no block touches the same
    bytes before and after it advances a pointer, so strides do not matter.
    """
    key = _signature(code)
    if key not in _ORDERS:
        operations = operations_of(code)
        accesses = [o.memory for o in operations if o.memory is not None]
        rank = _ranks(access.displacement_bytes for access in accesses)
        _ORDERS[key] = _order(tuple(_structure(operation, rank) for operation in operations))
    return [code[index] for index in _ORDERS[key]]


_ORDERS: dict[Hashable, tuple[int, ...]] = {}


def _ranks(values: Iterable[int]) -> dict[int, int]:
    return {value: number for number, value in enumerate(sorted(set(values)))}


def _signature(code: Sequence[Instruction]) -> Hashable:
    """A key of everything that the order of straight-line code depends on; excludes strides."""
    accesses = [o for i in code if i.mnemonic != "ldi" for o in i.operands]
    rank = _ranks(
        o.displacement
        for o in accesses
        if isinstance(o, Memory) and isinstance(o.displacement, int)
    )

    def token(mnemonic: str, operand: Operand) -> Hashable:
        match operand:
            case Memory(int(displacement), base) if mnemonic != "ldi":
                return rank[displacement], base
            case Memory(int(displacement), base):
                return displacement != 0, base
            case _:
                return operand

    return tuple((i.mnemonic, *(token(i.mnemonic, o) for o in i.operands)) for i in code)


@cache
def _order(operations: tuple[Operation, ...]) -> tuple[int, ...]:
    return list_schedule(operations, load_table(TABLE_NAME).issue, aliases=ALIASES).order


def _structure(operation: Operation, rank: dict[int, int]) -> Operation:
    """The operation without its strides.

    Gets and puts on one bus keep their order: a step's operands are complete before the next is
    sent.
    """
    access = operation.memory
    if access is not None:
        place = FAR_BYTES // 2 + 64 * rank[access.displacement_bytes]
        access = replace(access, displacement_bytes=place)
    increment = operation.increment_bytes and FAR_BYTES
    buses = tuple(name.split()[-1] for name in operation.channels)
    return replace(operation, name="", memory=access, increment_bytes=increment, channels=buses)


DESTINATION, SOURCE, COUNT, OUTER = 20, 21, 22, 23
ROWS, HALVES, COLUMNS = (1, 2, 3, 4), (7, 8, 9, 10), (11, 12, 13, 14)
# vshff b, a takes lanes 0, 1 of the result from its second operand, lanes 2, 3 from its first.
LOW_PAIRS, HIGH_PAIRS, EVEN_LANES, ODD_LANES = 0x44, 0xEE, 0x88, 0xDD


def pack_code(plan: GemmPlan, operand: int) -> list[Instruction]:
    """Copy the vector operand at the address in register `operand` to the workspace at the address
    in `DESTINATION`.
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
