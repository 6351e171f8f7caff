"""The GEMM primitive of SW26010 in assembly: C += A x B over a square mesh (swDNN Fig. 3, swATOP
Fig. 12).

In: a variant and a shape. Out: a `GemmKernel`, one program for all cores. Core (row, column)
holds the A block (m x k) and the B block (k x n) of its place and the C block (m x n). In step s
the cores of column s broadcast A along their rows and those of row s broadcast B along their
columns.

Calling convention: $16, $17, $18 hold the local addresses of A, B and C, $19 that of
`plan.table_bytes` for tables, $20 a workspace of `plan.workspace_bytes` where the variant packs;
all aligned to vectors, the tables to 8 bytes. For a chain $16 holds the address of its pairs
instead, the addresses of A and B of each link, and $17 nothing. `bsr $26` to the entry; $26, $29
and $30 are kept, every other register is lost. All cores must call it together. Extents and leading
dimensions are in the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.isa import (
    Instruction,
    InstructionTable,
    Memory,
    Operand,
    Register,
    SymbolReference,
    load_table,
)
from tilewright.targets.sw26010.gemm.blocks import (
    block_block,
    block_label,
    block_step_bytes,
    drain_block,
    pack_code,
    scheduled,
    start_block,
)
from tilewright.targets.sw26010.gemm.chain import (
    chain_block,
    chain_distances,
    chain_drain,
    chain_pointers,
    chain_rows,
    chain_start,
    chain_steps,
)
from tilewright.targets.sw26010.gemm.parts import (
    BLOCK,
    RESULT_POINTER,
    SCALAR_POINTER,
    TABLE_NAME,
    TABLE_POINTER,
    TARGET,
    VECTOR_POINTER,
    ZERO,
    instruction,
)
from tilewright.targets.sw26010.gemm.shape import (
    BLOCK_TARGETS,
    BLOCKS_LEFT,
    DRAIN_TARGETS,
    END_TARGETS,
    FOLLOWED_TABLE,
    LAST_TABLE,
    LIMIT,
    PACKED_ADDRESS,
    SAVED,
    SCALAR_BLOCK,
    START,
    START_TARGETS,
    STEP_TARGETS,
    GemmPlan,
    GemmShape,
    GemmVariant,
    plan_gemm,
)
from tilewright.targets.sw26010.gemm.steps import (
    advance,
    all_steps,
    block_pairs,
    role_number,
    roles_of_cores,
    step_label,
    step_pairs,
)

A_ADDRESS, B_ADDRESS, C_ADDRESS, LINK = 16, 17, 18, 26
KEPT = (LINK, 29, 30)
ANCHOR, ROW, COLUMN, SCRATCH = 0, 1, 2, (3, 4)
FIRST_NUMBER, STEP_NUMBERS = 22, (11, 12, 13, 14, 15, 20, 21)


@dataclass(frozen=True)
class GemmKernel:
    """The primitive's program; `entry` is its first label."""

    plan: GemmPlan
    instructions: tuple[Instruction, ...]
    entry: str

    @property
    def table(self) -> InstructionTable:
        """The instruction set of its code."""
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
    chain, mesh = shape.links > 1, shape.mesh
    code += chain_steps(plan) if chain else all_steps(plan)
    for role in sorted({roles[0] for roles in roles_of_cores(mesh)}, key=role_number):
        code += (chain_start if chain else start_block)(plan, role)
    for role in sorted({roles[-1] for roles in roles_of_cores(mesh)}, key=role_number):
        code += (chain_drain if chain else drain_block)(plan, role)
    for now, then in block_pairs(mesh):
        code += (chain_block if chain else block_block)(plan, now, then)
    entry = name or variant.name
    named = [_prefixed(i, entry) for i in _resolved(code)]
    named[0] = replace(named[0], labels=(entry, *named[0].labels))
    return GemmKernel(plan, tuple(named), entry)


def address_entries(mesh: int) -> list[tuple[int, str]]:
    """(workspace offset, label) of jump targets, by role number: n(now) + 4 n(then), or n(role)."""
    entries = []
    for targets, pairs, label in (
        (STEP_TARGETS, step_pairs(mesh), step_label),
        (BLOCK_TARGETS, block_pairs(mesh), block_label),
    ):
        for now, then in pairs:
            place = 8 * (role_number(now) + 4 * role_number(then))
            entries.append((targets + place, label(now, then)))
    for roles in sorted(roles_of_cores(mesh), key=lambda roles: [*map(role_number, roles)]):
        first, last = roles[0], roles[-1]
        entries.append((DRAIN_TARGETS + 8 * role_number(last), f"drain_{last.name}"))
        entries.append((START_TARGETS + 8 * role_number(first), f"start_{first.name}"))
    return list(dict.fromkeys(entries))


def _setup(plan: GemmPlan) -> list[Instruction]:
    """Save registers and fill the tables of jump targets by the core's place in the mesh."""
    table = TABLE_POINTER
    opening = [instruction("stl", Register(r), (SAVED + 8 * i, table)) for i, r in enumerate(KEPT)]
    opening.append(instruction("bsr", Register(ANCHOR), SymbolReference("anchor")))
    code = [
        instruction("rcsr", Register(ROW), _special("row")),
        instruction("rcsr", Register(COLUMN), _special("column")),
    ]
    for number, (offset, label) in enumerate(address_entries(plan.shape.mesh)):
        scratch = 23 + number % 3
        code.append(
            instruction("ldi", Register(scratch), Memory(SymbolReference(label), Register(ANCHOR)))
        )
        code.append(instruction("stl", Register(scratch), (offset, table)))
    chain = plan.shape.links > 1
    code += step_tables(plan)
    code += chain_pointers(plan, ROW, COLUMN) if chain else product_pointers(plan)
    body = scheduled(code)
    body[0] = replace(body[0], labels=("anchor",))
    return opening + body + (chain_distances(plan) if chain else [])


def _special(name: str) -> int:
    """Number of a special register of the core."""
    return load_table(TABLE_NAME).special_registers[name]


def _step_number(plan: GemmPlan, step: int) -> list[Instruction]:
    """The number of the core's role in a step: 1 for sending the vector, plus 2 for the scalar."""
    by_m = plan.variant.vectorised == "m"
    vector, scalar = (COLUMN, ROW) if by_m else (ROW, COLUMN)
    one, two = (Register(r) for r in SCRATCH)
    number = Register(_number_register(step))
    return [
        instruction("cmpeq", Register(vector), step, number),
        instruction("cmpeq", Register(scalar), step, one),
        instruction("addl", one, one, two),
        instruction("addl", number, two, number),
    ]


def _number_register(step: int) -> int:
    """The register of a step's number; the first step's is needed again at the end."""
    return FIRST_NUMBER if step == 0 else STEP_NUMBERS[step % len(STEP_NUMBERS)]


def step_tables(plan: GemmPlan) -> list[Instruction]:
    """Copy, for each step, the target that fits its role and the next step's into the tables."""
    code = _step_number(plan, 0)
    last, chain = plan.shape.mesh - 1, plan.shape.links > 1
    first, ending = _number_register(0), _number_register(last)
    for step in range(last):
        places = (FOLLOWED_TABLE + 8 * step, LAST_TABLE + 8 * step)[: 1 if chain else 2]
        code += _step_number(plan, step + 1)
        code += _copied(STEP_TARGETS, _number_register(step), _number_register(step + 1), places)
    followed, not_followed = FOLLOWED_TABLE + 8 * last, LAST_TABLE + 8 * last
    if chain:
        followed, not_followed = END_TARGETS, END_TARGETS + 8
    code += _copied(BLOCK_TARGETS, ending, first, (followed,))
    code += _copied(DRAIN_TARGETS, ending, None, (not_followed,))
    code += _copied(START_TARGETS, first, None, (START,))
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


def product_pointers(plan: GemmPlan) -> list[Instruction]:
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
    opening, closing = chain_rows(plan) if plan.shape.links > 1 else product_rows(plan)
    restored = [
        instruction("ldl", Register(r), (SAVED + 8 * i, TABLE_POINTER)) for i, r in enumerate(KEPT)
    ]
    return [
        *_labelled(scheduled(opening), "row"),
        instruction("ret", target),
        *_labelled(scheduled(closing), "next_row"),
        instruction("bne", scratch, SymbolReference("row")),
        *restored,
        instruction("ret", Register(LINK)),
    ]


def product_rows(plan: GemmPlan) -> tuple[list[Instruction], list[Instruction]]:
    """Code before and after a row of blocks of a single product."""
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
    closing = advance(TABLE_POINTER, -LAST_TABLE - 8 * plan.shape.mesh)
    closing += [
        instruction("ldl", scratch, (BLOCKS_LEFT, TABLE_POINTER)),
        instruction("subl", scratch, 1, scratch),
        instruction("stl", scratch, (BLOCKS_LEFT, TABLE_POINTER)),
    ]
    closing += advance(VECTOR_POINTER, vector + BLOCK * plan.vector_bytes)
    closing += advance(SCALAR_POINTER, scalar - back)
    closing += advance(RESULT_POINTER, BLOCK * plan.vector_bytes - across * result)
    return opening, closing


def _labelled(code: Sequence[Instruction], label: str) -> list[Instruction]:
    return [replace(code[0], labels=(label, *code[0].labels)), *code[1:]]


def _resolved(code: Sequence[Instruction]) -> list[Instruction]:
    """The code with labels as byte distances from the anchor, hence position-independent."""
    word_bytes = load_table(TABLE_NAME).word_bits // 8
    places = {label: i for i, line in enumerate(code) for label in line.labels}

    def operand(value: Operand) -> Operand:
        match value:
            case Memory(SymbolReference(name), base):
                return Memory((places[name] - places["anchor"]) * word_bytes, base)
            case _:
                return value

    return [_with_operands(line, tuple(map(operand, line.operands))) for line in code]


def _prefixed(line: Instruction, prefix: str) -> Instruction:
    """The code with the primitive's name in its labels, so that programs can link several."""
    operands = tuple(
        SymbolReference(f"{prefix}_{o.name}") if isinstance(o, SymbolReference) else o
        for o in line.operands
    )
    line = _with_operands(line, operands)
    if not line.labels:
        return line
    return replace(line, labels=tuple(f"{prefix}_{label}" for label in line.labels))


def _with_operands(line: Instruction, operands: tuple[Operand, ...]) -> Instruction:
    """The instruction with these operands; itself if it has them, as most do."""
    return line if operands == line.operands else replace(line, operands=operands)
