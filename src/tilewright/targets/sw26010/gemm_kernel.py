"""The GEMM primitive of SW26010 in assembly: C += A x B over the 8 x 8 mesh (swDNN Fig. 3, swATOP
Fig. 12).

In: a variant and a shape. Out: a `GemmKernel`, one program for all 64 cores. Core (row, column)
holds the A block (m x k) and the B block (k x n) of its place and the C block (m x n). In step s
the cores of column s broadcast A along their rows and those of row s broadcast B along their
columns.

Calling convention: $16, $17, $18 hold the local addresses of A, B and C, $19 that of `TABLE_BYTES`
for tables, $20 a workspace of `plan.workspace_bytes` where the variant packs; all aligned to
vectors, the tables to 8 bytes. `bsr $26` to the entry; $26, $29 and $30 are kept, every other
register is lost. All 64 cores must call it together. Extents and leading dimensions are
in the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.isa import (
    Instruction,
    InstructionTable,
    Label,
    Memory,
    Operand,
    Register,
    load_table,
)
from tilewright.targets.sw26010.gemm_blocks import (
    BLOCK_TARGETS,
    BLOCKS_LEFT,
    DRAIN_TARGETS,
    FOLLOWED_TABLE,
    LAST_TABLE,
    LIMIT,
    PACKED_ADDRESS,
    SAVED,
    START,
    START_TARGETS,
    STEP_TARGETS,
    advance,
    block_block,
    block_label,
    block_step_bytes,
    drain_block,
    loop_block,
    scheduled,
    start_block,
    step_block,
    step_label,
)
from tilewright.targets.sw26010.gemm_pack import pack_code
from tilewright.targets.sw26010.gemm_parts import (
    BLOCK,
    RESULT_POINTER,
    ROLES,
    SCALAR_POINTER,
    TABLE_NAME,
    TABLE_POINTER,
    TARGET,
    VECTOR_POINTER,
    ZERO,
    Role,
    instruction,
)
from tilewright.targets.sw26010.gemm_shape import (
    MESH_STEPS,
    SCALAR_BLOCK,
    GemmPlan,
    GemmShape,
    GemmVariant,
    plan_gemm,
)

A_ADDRESS, B_ADDRESS, C_ADDRESS, LINK = 16, 17, 18, 26
KEPT = (LINK, 29, 30)
ANCHOR, ROW, COLUMN, SCRATCH = 0, 1, 2, (3, 4)
STEP_NUMBERS = (11, 12, 13, 14, 15, 20, 21, 22)
PAIRS = tuple(
    (now, then)
    for now in ROLES
    for then in ROLES
    if not (now.sends_vector and then.sends_vector) and not (now.sends_scalar and then.sends_scalar)
)


@dataclass(frozen=True)
class GemmKernel:
    """The primitive's program; `entry` is its first label."""

    plan: GemmPlan
    instructions: tuple[Instruction, ...]
    entry: str

    @property
    def table(self) -> InstructionTable:
        """The instruction set that it is written in."""
        return load_table(TABLE_NAME)

    @cached_property
    def code_bytes(self) -> int:
        """Size of the code; the instruction cache of a core holds 16 KB."""
        return len(self.instructions) * self.table.word_bits // 8

    def text(self) -> str:
        """The program as assembly text."""
        lines = []
        for line in self.instructions:
            lines += [f"{label}:" for label in line.labels]
            lines.append(f"    {line.text()}")
        return "\n".join(lines) + "\n"


def gemm_kernel(variant: GemmVariant, shape: GemmShape, name: str = "") -> GemmKernel:
    """The program of one variant for one shape per core; `name` is its entry, or the variant's.

    Errors: ScheduleError for a shape that breaks a rule (multiples of 16 and 4, k >= 1, 32-byte
    alignment), CapacityError for one that does not fit the local memory or a displacement.
    """
    plan = plan_gemm(variant, shape)
    by_m = variant.vectorised == "m"
    code = pack_code(plan, A_ADDRESS if by_m else B_ADDRESS) if plan.packs_vector else []
    code += [*_setup(plan), *_rows(plan)]
    for role in ROLES:
        code += [*loop_block(plan, role), *start_block(plan, role), *drain_block(plan, role)]
    for now, then in PAIRS:
        code += [*step_block(plan, now, then), *block_block(plan, now, then)]
    entry = name or variant.name
    named = [_prefixed(i, entry) for i in _resolved(code)]
    named[0] = replace(named[0], labels=(entry, *named[0].labels))
    return GemmKernel(plan, tuple(named), entry)


def _number(role: Role) -> int:
    return role.sends_vector + 2 * role.sends_scalar


def _address_entries() -> list[tuple[int, str]]:
    """(workspace offset, label) of jump targets, by role number: n(now) + 4 n(then), or n(role)."""
    entries = []
    for now, then in PAIRS:
        place = 8 * (_number(now) + 4 * _number(then))
        entries.append((STEP_TARGETS + place, step_label(now, then)))
        entries.append((BLOCK_TARGETS + place, block_label(now, then)))
    for role in ROLES:
        entries.append((DRAIN_TARGETS + 8 * _number(role), f"drain_{role.name}"))
        entries.append((START_TARGETS + 8 * _number(role), f"start_{role.name}"))
    return entries


def _setup(plan: GemmPlan) -> list[Instruction]:
    """Saves registers and fills the tables of jump targets from the core's place in the mesh."""
    table = TABLE_POINTER
    opening = [instruction("stl", Register(r), (SAVED + 8 * i, table)) for i, r in enumerate(KEPT)]
    opening.append(instruction("bsr", Register(ANCHOR), Label("anchor")))
    code = [
        instruction("rcsr", Register(ROW), _special("row")),
        instruction("rcsr", Register(COLUMN), _special("column")),
    ]
    for number, (offset, label) in enumerate(_address_entries()):
        scratch = 23 + number % 3
        code.append(instruction("ldi", Register(scratch), Memory(Label(label), Register(ANCHOR))))
        code.append(instruction("stl", Register(scratch), (offset, table)))
    code += _step_numbers(plan) + _step_tables() + _pointers(plan)
    body = scheduled(code)
    body[0] = replace(body[0], labels=("anchor",))
    return opening + body


def _special(name: str) -> int:
    """Number of a special register of the core."""
    return load_table(TABLE_NAME).special_registers[name]


def _step_numbers(plan: GemmPlan) -> list[Instruction]:
    """For each step the number of the core's role: 1 if it sends the vector operand, plus 2 for the
    scalar.
    """
    by_m = plan.variant.vectorised == "m"
    vector, scalar = (COLUMN, ROW) if by_m else (ROW, COLUMN)
    one, two = (Register(r) for r in SCRATCH)
    code = []
    for step, register in enumerate(STEP_NUMBERS):
        number = Register(register)
        code += [
            instruction("cmpeq", Register(vector), step, number),
            instruction("cmpeq", Register(scalar), step, one),
            instruction("addl", one, one, two),
            instruction("addl", number, two, number),
        ]
    return code


def _step_tables() -> list[Instruction]:
    """Copies, for each step, the target that fits its role and the next step's into the tables."""
    code: list[Instruction] = []
    last = MESH_STEPS - 1
    for step in range(last):
        places = (FOLLOWED_TABLE + 8 * step, LAST_TABLE + 8 * step)
        code += _copied(STEP_TARGETS, STEP_NUMBERS[step], STEP_NUMBERS[step + 1], places)
    code += _copied(
        BLOCK_TARGETS, STEP_NUMBERS[last], STEP_NUMBERS[0], (FOLLOWED_TABLE + 8 * last,)
    )
    code += _copied(DRAIN_TARGETS, STEP_NUMBERS[last], None, (LAST_TABLE + 8 * last,))
    code += _copied(START_TARGETS, STEP_NUMBERS[0], None, (START,))
    return code


def _copied(
    source: int, number: int, following: int | None, places: Iterable[int]
) -> list[Instruction]:
    key, value = (Register(r) for r in SCRATCH)
    index = Register(number)
    code = []
    if following is not None:
        code.append(instruction("s4addl", Register(following), index, key))
        index = key
    code.append(instruction("s8addl", index, Register(TABLE_POINTER), key))
    code.append(instruction("ldl", value, (source, SCRATCH[0])))
    code += [instruction("stl", value, (place, TABLE_POINTER)) for place in places]
    return code


def _pointers(plan: GemmPlan) -> list[Instruction]:
    by_m = plan.variant.vectorised == "m"
    vector, scalar = (A_ADDRESS, B_ADDRESS) if by_m else (B_ADDRESS, A_ADDRESS)
    start, load = (0, vector), "ldi"
    if plan.packs_vector:
        start, load = (PACKED_ADDRESS, TABLE_POINTER), "ldl"
    count = Register(SCRATCH[0])
    return [
        instruction(load, Register(VECTOR_POINTER), start),
        instruction("ldi", Register(SCALAR_POINTER), (0, scalar)),
        instruction("ldi", Register(RESULT_POINTER), (0, C_ADDRESS)),
        instruction("ldi", count, (plan.vector_blocks, ZERO)),
        instruction("stl", count, (BLOCKS_LEFT, TABLE_POINTER)),
    ]


def _rows(plan: GemmPlan) -> list[Instruction]:
    """The outermost loop, over blocks of the vectorised dimension, and the return."""
    scratch, target = Register(SCRATCH[0]), Register(TARGET)
    across = plan.scalar_blocks - 1
    vector, scalar, result = block_step_bytes(plan)
    back = SCALAR_BLOCK * plan.scalar_stride * plan.scalar_blocks
    opening = [instruction("ldi", scratch, (0, RESULT_POINTER))]
    opening += advance(SCRATCH[0], across * result)
    opening.append(instruction("stl", scratch, (LIMIT, TABLE_POINTER)))
    opening.append(instruction("ldl", target, (START, TABLE_POINTER)))
    if across == 0:
        opening += advance(TABLE_POINTER, LAST_TABLE)
    closing = advance(TABLE_POINTER, -2 * LAST_TABLE)
    closing += [
        instruction("ldl", scratch, (BLOCKS_LEFT, TABLE_POINTER)),
        instruction("subl", scratch, 1, scratch),
        instruction("stl", scratch, (BLOCKS_LEFT, TABLE_POINTER)),
    ]
    closing += advance(VECTOR_POINTER, vector + BLOCK * plan.vector_bytes)
    closing += advance(SCALAR_POINTER, scalar - back)
    closing += advance(RESULT_POINTER, BLOCK * plan.vector_bytes - across * result)
    restored = [
        instruction("ldl", Register(r), (SAVED + 8 * i, TABLE_POINTER)) for i, r in enumerate(KEPT)
    ]
    return [
        *_labelled(scheduled(opening), "row"),
        instruction("ret", target),
        *_labelled(scheduled(closing), "next_row"),
        instruction("bne", scratch, Label("row")),
        *restored,
        instruction("ret", Register(LINK)),
    ]


def _labelled(code: Sequence[Instruction], label: str) -> list[Instruction]:
    return [replace(code[0], labels=(label, *code[0].labels)), *code[1:]]


def _resolved(code: Sequence[Instruction]) -> list[Instruction]:
    """Addresses of labels as distances in bytes from the anchor, so that the code may stand
    anywhere.
    """
    word_bytes = load_table(TABLE_NAME).word_bits // 8
    places = {label: i for i, line in enumerate(code) for label in line.labels}

    def operand(value: Operand) -> Operand:
        match value:
            case Memory(Label(name), base):
                return Memory((places[name] - places["anchor"]) * word_bytes, base)
            case _:
                return value

    return [replace(line, operands=tuple(map(operand, line.operands))) for line in code]


def _prefixed(line: Instruction, prefix: str) -> Instruction:
    """Labels carry the primitive's name, so that several primitives link into one program."""
    operands = tuple(
        Label(f"{prefix}_{o.name}") if isinstance(o, Label) else o for o in line.operands
    )
    labels = tuple(f"{prefix}_{label}" for label in line.labels)
    return replace(line, operands=operands, labels=labels)
