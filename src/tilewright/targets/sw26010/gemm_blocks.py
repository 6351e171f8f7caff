"""Code blocks of the SW26010 GEMM primitive, each made from the one slot template.

In: a `GemmPlan`. Out: for each role the loop over k, and for each pair of successive roles the
transition that ends one step and starts the next; at the end of a C block the transition also
stores C and loads the next block, or the pipeline drains. C stays in registers across the eight
steps (loop order: blocks, steps, k).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from tilewright.isa import Instruction, Label, Memory, Operand, Register, load_table
from tilewright.isa.dependence import AliasRules, Operation
from tilewright.isa.operations import operations_of
from tilewright.isa.reorder import list_schedule
from tilewright.targets.sw26010.gemm_parts import (
    BLOCK,
    COUNTER,
    RESULT_POINTER,
    SCALAR_POINTER,
    TABLE_NAME,
    TABLE_POINTER,
    TARGET,
    TEMPORARY,
    VECTOR_POINTER,
    ZERO,
    Part,
    Role,
    emit,
    instruction,
    result_register,
    strides_of,
)
from tilewright.targets.sw26010.gemm_search import Template
from tilewright.targets.sw26010.gemm_shape import (
    F32,
    F64,
    LARGEST_DISPLACEMENT,
    SCALAR_BLOCK,
    GemmPlan,
)
from tilewright.targets.sw26010.gemm_template import gemm_template

ALIASES = AliasRules(
    {
        VECTOR_POINTER: "vector operand",
        SCALAR_POINTER: "scalar operand",
        RESULT_POINTER: "result",
        TABLE_POINTER: "tables",
    }
)
# The tables, relative to their start: the targets of the eight steps for a block that another one
# follows in the same row of blocks, the same for the last one, then words.
FOLLOWED_TABLE, LAST_TABLE = 0, 64
LIMIT, BLOCKS_LEFT, START, SAVED, PACKED_ADDRESS = 128, 136, 144, 152, 176
STEP_TARGETS, BLOCK_TARGETS, DRAIN_TARGETS, START_TARGETS = 192, 320, 448, 480
MULTIPLY_ADDS = (F64.multiply_add, F32.multiply_add)
FAR_BYTES = 1 << 20  # stands for any distance between blocks


def loop_label(role: Role) -> str:
    """Label of the loop over k in a role."""
    return f"loop_{role.name}"


def step_label(now: Role, then: Role) -> str:
    """Label of the transition between two steps."""
    return f"step_{now.name}_{then.name}"


def block_label(now: Role, then: Role) -> str:
    """Label of the transition to the next C block."""
    return f"block_{now.name}_{then.name}"


def advance(register: int, step_bytes: int) -> list[Instruction]:
    """register += step_bytes, in as many instructions as the immediate needs."""
    steps = []
    while step_bytes:
        piece = max(-LARGEST_DISPLACEMENT, min(LARGEST_DISPLACEMENT, step_bytes))
        steps.append(instruction("ldi", Register(register), (piece, register)))
        step_bytes -= piece
    return steps


def emit_part(plan: GemmPlan, part: Part, *, first: bool) -> Instruction:
    """The instruction of a part; `first` marks the first iteration of a step, where no pointer step
    precedes it.
    """
    passed = 0
    if part.kind in ("load_vector", "load_scalar"):
        passed = _passed(plan, part, f"step_{part.kind.removeprefix('load_')}", first)
    return emit(part, strides_of(plan), passed)


def _passed(plan: GemmPlan, part: Part, step: str, first: bool) -> int:
    """Pointer steps that stand before the part beyond those of the earlier iterations."""
    template = _template(plan)
    gap = template.times[part] - template.times[Part(step)]
    passed = -(-gap // template.interval_cycles)
    return max(passed, 0) if first else passed


def _template(plan: GemmPlan) -> Template:
    return gemm_template(plan.variant.precision)


def _active(role: Role, part: Part) -> bool:
    """Whether the part does something in the role; a receiver's pointers stand still."""
    match part.kind:
        case "dispatch" | "branch" | "count":
            return False
        case "step_vector":
            return role.sends_vector
        case "step_scalar":
            return role.sends_scalar
        case _:
            return part.belongs_to(role)


def _slots(
    plan: GemmPlan, role: Role, *, ahead: bool, first: bool
) -> list[tuple[int, Instruction]]:
    """(slot, instruction) of the parts that run ahead for the next iteration, or of the others."""
    interval = _template(plan).interval_cycles
    chosen = [
        (time % interval, part.kind != "multiply_add", part)
        for part, time in _template(plan).times.items()
        if (time < interval) == ahead and _active(role, part)
    ]
    ordered = sorted(chosen, key=lambda item: item[:2])
    return [(slot, emit_part(plan, part, first=first)) for slot, _, part in ordered]


def _by_slot(items: Sequence[tuple[int, Instruction]]) -> list[Instruction]:
    """In issue order. Within a slot the arithmetic comes first, because it may read what another
    instruction overwrites, and a pointer step last, because an access reads the old pointer.
    """

    def rank(item: tuple[int, Instruction]) -> tuple[int, bool, bool]:
        slot, line = item
        return slot, line.mnemonic not in MULTIPLY_ADDS, line.mnemonic == "ldi"

    return [line for _, line in sorted(items, key=rank)]


def loop_block(plan: GemmPlan, role: Role) -> list[Instruction]:
    """The loop over k in one role, and behind it the jump to the transition named by the table."""
    template = _template(plan)
    code: list[Instruction] = []
    if plan.shape.k > 1:
        items = _slots(plan, role, ahead=True, first=False)
        items += _slots(plan, role, ahead=False, first=False)
        slot = template.times[Part("count")] % template.interval_cycles
        items.append((slot, emit_part(plan, Part("count"), first=False)))
        code = [*_by_slot(items)]
        code.append(instruction("bne", Register(COUNTER), Label(loop_label(role))))
    opening = [i for slot, i in _slots(plan, role, ahead=False, first=False) if slot == 0]
    code += [*opening, instruction("ret", Register(TARGET))]
    return [replace(code[0], labels=(loop_label(role),)), *code[1:]]


def _bookkeeping(plan: GemmPlan) -> list[Instruction]:
    """Target of the next dispatch and the trip count."""
    code = [
        instruction("ldl", Register(TARGET), (0, TABLE_POINTER)),
        *advance(TABLE_POINTER, 8),
    ]
    if plan.shape.k > 1:
        code.append(instruction("ldi", Register(COUNTER), (plan.shape.k - 1, ZERO)))
    return code


def step_block(plan: GemmPlan, now: Role, then: Role) -> list[Instruction]:
    """The last iteration of a step beside the first loads of the next; takes 16 cycles like any
    iteration.
    """
    interval = _template(plan).interval_cycles
    ending = [item for item in _slots(plan, now, ahead=False, first=False) if item[0] > 0]
    items = ending + _slots(plan, then, ahead=True, first=True)
    taken = {slot for slot, i in items if i.mnemonic not in MULTIPLY_ADDS}
    free = [slot for slot in range(1, interval - 1) if slot not in taken]
    extra = _bookkeeping(plan)
    # What finds no free slot stands at the end and costs a cycle.
    free += [interval - 1] * len(extra)
    items += zip(free, extra, strict=False)
    code = [*_by_slot(items), instruction("br", Label(loop_label(then)))]
    return [replace(code[0], labels=(step_label(now, then),)), *code[1:]]


def _result_accesses(plan: GemmPlan, mnemonic: str) -> list[Instruction]:
    """Loads or stores of the 16 vectors of C, in the order in which the arithmetic uses them."""
    times = _template(plan).times
    cells = [(i, j) for i in range(BLOCK) for j in range(BLOCK)]
    cells.sort(key=lambda cell: times[Part("multiply_add", *cell)])
    return [
        instruction(
            mnemonic,
            Register(result_register(i, j)),
            (plan.vector_bytes * i + plan.result_stride * j, RESULT_POINTER),
        )
        for i, j in cells
    ]


def block_step_bytes(plan: GemmPlan) -> tuple[int, int, int]:
    """From the end of a C block to the next of its row: vector, scalar, result pointer steps."""
    k = plan.shape.k
    scalar = SCALAR_BLOCK * plan.scalar_stride - k * plan.scalar_step
    return -k * plan.vector_step, scalar, SCALAR_BLOCK * plan.result_stride


def block_block(plan: GemmPlan, now: Role, then: Role) -> list[Instruction]:
    """The end of a C block and the start of the next: stores, pointers, loads, and the first
    operands.

    Behind table `LAST_TABLE` follows no block of the row, so the limit tells which table comes
    next.
    """
    vector, scalar, result = block_step_bytes(plan)
    flag = Register(TEMPORARY)
    pointer = Register(TABLE_POINTER)
    code = [i for slot, i in _slots(plan, now, ahead=False, first=False) if slot > 0]
    code += _result_accesses(plan, plan.variant.precision.vector_store)
    code += advance(VECTOR_POINTER, vector) + advance(SCALAR_POINTER, scalar)
    code += advance(RESULT_POINTER, result)
    code += _result_accesses(plan, plan.variant.precision.vector_load)
    # Here the table pointer is eight words behind FOLLOWED_TABLE, where LAST_TABLE starts.
    code += [
        instruction("ldl", flag, (LIMIT - LAST_TABLE, TABLE_POINTER)),
        instruction("ldl", Register(TARGET), (0, TABLE_POINTER)),
        instruction("cmpeq", Register(RESULT_POINTER), flag, flag),
        instruction("sll", flag, 6, flag),
        *advance(TABLE_POINTER, 8 - LAST_TABLE),
        instruction("addl", pointer, flag, pointer),
    ]
    code += _bookkeeping(plan)[2:]
    code += _by_slot(_slots(plan, then, ahead=True, first=True))
    return _straight(code, block_label(now, then), loop_label(then))


def drain_block(plan: GemmPlan, now: Role) -> list[Instruction]:
    """The end of the last C block of a row of blocks: nothing is loaded ahead."""
    code = [i for slot, i in _slots(plan, now, ahead=False, first=False) if slot > 0]
    code += _result_accesses(plan, plan.variant.precision.vector_store)
    return _straight(code, f"drain_{now.name}", "next_row")


def start_block(plan: GemmPlan, then: Role) -> list[Instruction]:
    """The start of the first C block of a row of blocks."""
    code = [*_result_accesses(plan, plan.variant.precision.vector_load), *_bookkeeping(plan)]
    code += _by_slot(_slots(plan, then, ahead=True, first=True))
    return _straight(code, f"start_{then.name}", loop_label(then))


def _straight(code: Sequence[Instruction], label: str, target: str) -> list[Instruction]:
    """List-scheduled code with its label and a final branch."""
    first, *rest = scheduled(code)
    return [replace(first, labels=(label,)), *rest, instruction("br", Label(target))]


def scheduled(code: Sequence[Instruction]) -> list[Instruction]:
    """The same straight code, list-scheduled for the core's two pipes.

    The order depends on the code's structure alone and is remembered: no block touches the same
    bytes before and after it advances a pointer, so strides do not matter.
    """
    key = _signature(code)
    if key not in _ORDERS:
        accesses = [o.memory for o in operations_of(code) if o.memory is not None]
        rank = _ranks(access.displacement_bytes for access in accesses)
        operations = tuple(_structure(operation, rank) for operation in operations_of(code))
        _ORDERS[key] = _order(operations)
    return [code[index] for index in _ORDERS[key]]


_ORDERS: dict[Hashable, tuple[int, ...]] = {}


def _ranks(values: Iterable[int]) -> dict[int, int]:
    return {value: number for number, value in enumerate(sorted(set(values)))}


def _signature(code: Sequence[Instruction]) -> Hashable:
    """What the order of a straight code depends on: not its strides."""
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
