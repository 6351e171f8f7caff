"""Straight-line pieces of SW26010 assembly with labels, the parts of elementwise routines.

In: instructions in the obvious order, block by block. Out: a routine's code and its text, each
block scheduled for the core's two pipes by the scheduler of the matrix primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from struct import pack

from tilewright.common.digest import digest
from tilewright.isa import Instruction, Register, SymbolReference, load_table
from tilewright.isa.dependence import AliasRules
from tilewright.isa.operations import operation_of
from tilewright.isa.reorder import list_schedule
from tilewright.targets.sw26010.gemm.parts import TABLE_NAME, instruction
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, Precision

LINK, STACK, ZERO = 26, 30, 31
MODES = ("vectors", "elements")


@dataclass
class RoutineCode:
    """Blocks of one routine; their labels are prefixed with the routine's name."""

    name: str
    aliases: AliasRules
    _blocks: list[tuple[str, tuple[Instruction, ...]]] = field(default_factory=list)

    def __len__(self) -> int:
        """Number of instructions, which does not depend on their order."""
        return sum(len(code) for _, code in self._blocks)

    def block(self, label: str, code: Sequence[Instruction]) -> None:
        """Append straight-line code whose last instruction may branch; `label` may be empty."""
        self._blocks.append((label, tuple(code)))

    @cached_property
    def instructions(self) -> list[Instruction]:
        """The instructions of all blocks in textual order, with labels that mark their places."""
        found: list[Instruction] = []
        marks: tuple[str, ...] = (self.name,)
        for label, code in self._blocks:
            if label:
                marks += (f"{self.name}_{label}",)
            for index in _order(code, tuple(self.aliases.objects.items())):
                placed = _with_prefix(code[index], self.name)
                found.append(replace(placed, labels=marks) if marks else placed)
                marks = ()
        return found

    def rest(
        self,
        label: str,
        mode: str,
        unrolled: int,
        length: int,
        left: int,
        items: Callable[[int], Sequence[Instruction]],
    ) -> None:
        """Append code for the items left over by a loop of `unrolled` items at a time: its halves,
        by the bits of register `length`. Overwrites register `left`. Most rows have no rest and
        take one branch.
        """
        some = with_number("and", length, (unrolled - 1) * item_elements(mode), left)
        self.block(label, [some, op("beq", left, f"{label}_0")] if unrolled > 2 else [])
        for count in halves(unrolled):
            test = with_number("and", length, count * item_elements(mode), left)
            self.block(f"{label}_{count}", [test, op("beq", left, f"{label}_{count // 2}")])
            self.block("", items(count))
        self.block(f"{label}_0", [])

    def text(self) -> str:
        """The routine as an object file of its own."""
        name = self.name
        lines = ["    .text", "    .align 4", f"    .globl {name}", f"    .type {name}, @function"]
        for placed in self.instructions:
            lines += (f"{label}:" for label in placed.labels)
            lines.append(f"    {placed.text()}")
        return "\n".join([*lines, f"    .size {name}, . - {name}", ""])


_operation = cache(operation_of)


@cache
def _order(code: tuple[Instruction, ...], objects: tuple[tuple[int, str], ...]) -> Sequence[int]:
    """The order in which a block is written. Routines share most of their blocks."""
    last = code[-1] if code else None
    fixed = last is not None and last.is_branch
    free = code[:-1] if fixed else code
    rules, aliases = load_table(TABLE_NAME).issue, AliasRules(dict(objects))
    order = list_schedule([_operation(one) for one in free], rules, aliases=aliases).order
    return (*order, len(code) - 1) if fixed else order


def _with_prefix(line: Instruction, prefix: str) -> Instruction:
    if not any(isinstance(o, SymbolReference) for o in line.operands):
        return line
    operands = tuple(
        SymbolReference(f"{prefix}_{o.name}") if isinstance(o, SymbolReference) else o
        for o in line.operands
    )
    return replace(line, operands=operands)


def op(mnemonic: str, *operands: int | str | tuple[int, int]) -> Instruction:
    """An instruction of register numbers and labels; memory is (displacement, base).

    >>> op("addl", 1, 2, 3).text(), op("bne", 4, "row").text(), op("ldl", 5, (8, 30)).text()
    ('addl $1, $2, $3', 'bne $4, row', 'ldl $5, 8($30)')
    """
    given = [
        SymbolReference(o) if isinstance(o, str) else o if isinstance(o, tuple) else Register(o)
        for o in operands
    ]
    return instruction(mnemonic, *given)


def with_number(mnemonic: str, source: int, number: int, target: int) -> Instruction:
    """target = source `mnemonic` number, of 0 to 255."""
    return instruction(mnemonic, Register(source), number, Register(target))


def move(source: int, target: int, distance: int = 0) -> Instruction:
    """target = source + distance."""
    return op("ldi", target, (distance, source))


def lane_to_lanes(source: int, target: int) -> Instruction:
    """Copy lane 0 of the source to all lanes of the target."""
    return instruction("vshff", Register(source), Register(source), 0, Register(target))


def constant_to_lanes(value: float, register: int) -> list[Instruction]:
    """Copy the bits of a double, sixteen at a time, to all lanes of a register."""
    pieces = _pieces(value)
    code, behind = [move(ZERO, register, pieces[3])], 0
    for piece in reversed(pieces[:3]):
        behind += 16
        if piece:
            code += [
                with_number("sll", register, behind, register),
                move(register, register, piece),
            ]
            behind = 0
    if behind:
        code.append(with_number("sll", register, behind, register))
    return [*code, lane_to_lanes(register, register)]


def _pattern(value: float) -> str:
    """A key that is equal for numbers made by the same instructions but for their immediates."""
    return "".join("01"[piece != 0] for piece in _pieces(value)[:3])


def timed_name(of: Sequence[object], constants: Sequence[float]) -> str:
    """A name for code from everything that makes it; of its constants, only how they are made."""
    return digest(repr(tuple(of)), *map(_pattern, constants))[:16]


def _pieces(value: float) -> list[int]:
    """Signed pieces of sixteen bits, the lowest first, that add up to the bits of a double."""
    bits, pieces = int.from_bytes(pack(">d", value), "big"), []
    for _ in range(4):
        low = (bits & 0xFFFF) - (bits >> 15 & 1) * 0x10000
        pieces.append(low)
        bits = bits - low >> 16
    return pieces


def scaled_add(precision: Precision) -> str:
    """The instruction that adds a number of elements to an address."""
    return f"s{precision.element_bytes}addl"


def load_item(precision: Precision, mode: str) -> str:
    """The load of one item: a vector, or one element."""
    return precision.vector_load if mode == "vectors" else f"fld{precision.prefix}"


def store(precision: Precision, mode: str) -> str:
    """The store of one item."""
    return precision.vector_store if mode == "vectors" else f"fst{precision.prefix}"


def item_elements(mode: str) -> int:
    """Elements of one item."""
    return VECTOR_LANES if mode == "vectors" else 1


def halves(unrolled: int) -> tuple[int, ...]:
    """The powers of two below one, largest first."""
    return tuple(1 << i for i in reversed(range(unrolled.bit_length() - 1)))


def saved(registers: Iterable[int], place: int, *, restore: bool = False) -> list[Instruction]:
    """Save whole registers to the frame from byte `place` on, or restore them."""
    name = "vldd" if restore else "vstd"
    return [op(name, register, (place + 32 * i, STACK)) for i, register in enumerate(registers)]
