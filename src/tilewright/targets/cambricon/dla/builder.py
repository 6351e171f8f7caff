"""Statements of a block under construction: registers for numbers, scratchpads, loops.

Blocks use the registers from `$32` on and both scratchpads from address 0; callers keep nothing
there. Numbers that recur in a block keep a register, others are moved to one before use. Registers
of nested loops may hold numbers in other blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

from tilewright.asm.diagnostics import Fault
from tilewright.targets.cambricon.dla.error_codes import DlaError

PREFETCH = "prefetch"
"""The parameter that selects when blocks load a tile, by index into `ORDERS`."""
NATURAL, AHEAD, HALVED = ORDERS = ("natural", "ahead", "halved")
"""Just before its computation; before the previous tile's computation; or half of the loads before
each half of the previous tile's computation.
"""


@dataclass(frozen=True)
class ScratchpadBuffer:
    """Elements of a scratchpad."""

    name: str
    memory: str
    address: int
    size: int


Place = ScratchpadBuffer | str
"""A buffer, or a register with the address of elements."""


@dataclass
class Builder:
    """The statements of one block.

    `capacities` are the elements of each scratchpad; `serial` distinguishes labels of this block
    from others'; tiles are loaded in one of the `ORDERS`.
    """

    capacities: Mapping[str, int]
    serial: int
    order: str = AHEAD
    buffers: list[ScratchpadBuffer] = field(default_factory=list)
    _lines: list[str | NamedNumber] = field(default_factory=list)
    _variables: int = 0
    _most_variables: int = 0
    _labels: int = 0

    # ---------------------------------------------------------------- registers

    def constant(self, value: int | str) -> str:
        """Placeholder for a register with a number or a symbol's address."""
        use = NamedNumber(len(self._lines), str(value))
        self._lines.append(use)
        return use.place

    def variable(self, value: int | str) -> str:
        """A register of its own, initialised with a number."""
        register = VARIABLES[self._variables]
        self._variables += 1
        self._most_variables = max(self._most_variables, self._variables)
        self.write(f"smove {register}, #{value}")
        return register

    def start(self, place: Place) -> str:
        """A register of its own, initialised with a buffer's address."""
        if isinstance(place, ScratchpadBuffer):
            return self.variable(place.address)
        register = self.variable(0)
        self.copy(register, place)
        return register

    def mark(self) -> int:
        """Number of variables in use."""
        return self._variables

    def release(self, mark: int) -> None:
        """End the variables created since a mark."""
        self._variables = mark

    def write(self, statement: str) -> None:
        """Append a statement."""
        self._lines.append(statement)

    def text(self) -> tuple[str, ...]:
        """The whole block, with its numbers set first."""
        return statements(self._lines, self._most_variables)

    # ---------------------------------------------------------------- scratchpads

    def buffer(self, name: str, memory: str, size: int) -> ScratchpadBuffer:
        """Allocate elements after those allocated before."""
        address = sum(b.size for b in self.buffers if b.memory == memory)
        found = ScratchpadBuffer(name, memory, address, size)
        self.buffers.append(found)
        return found

    def two(self, name: str, memory: str, size: int) -> tuple[ScratchpadBuffer, ScratchpadBuffer]:
        """Two buffers that tiles alternate between."""
        return self.buffer(f"{name} 0", memory, size), self.buffer(f"{name} 1", memory, size)

    def scratch(self, name: str, size: int) -> ScratchpadBuffer:
        """Elements of the vector scratchpad, allocated once per name and shared."""
        for buffer in self.buffers:
            if buffer.name == name and buffer.size >= size:
                return buffer
        return self.buffer(name, "vector", size)

    def check(self, fix: str) -> None:
        """Refuse buffers that do not fit. Raises Fault with the scratchpad's map."""
        for memory, capacity in self.capacities.items():
            live = [buffer for buffer in self.buffers if buffer.memory == memory]
            size = sum(buffer.size for buffer in live)
            if size > capacity:
                rows = ", ".join(f"{b.name} {b.address} .. {b.address + b.size - 1}" for b in live)
                raise Fault(
                    DlaError.CAPACITY,
                    f"the {memory} scratchpad has {capacity} elements, the block needs {size}: "
                    f"{rows}",
                    fix=fix,
                )

    # ---------------------------------------------------------------- statements

    def load(self, buffer: Place, size: int, symbol: str, offset: int, memory: str) -> None:
        """Load elements from a known place."""
        self.transfer("load", memory, buffer, size, f"#{symbol}+{offset}")

    def store(self, buffer: Place, size: int, symbol: str, offset: int) -> None:
        """Store elements of a scratchpad (the vector one for a register) to a known place."""
        memory = buffer.memory if isinstance(buffer, ScratchpadBuffer) else "vector"
        self.transfer("store", memory, buffer, size, f"#{symbol}+{offset}")

    def transfer(self, way: str, memory: str, local: Place, size: int, place: str) -> None:
        """Load or store elements; `place` is an address as statements write it."""
        self.write(f"{memory[0]}{way} {self.place(local)}, {self.constant(size)}, {place}")

    def vector(self, mnemonic: str, out: Place, size: int, *sources: Place) -> None:
        """An operation of the vector unit."""
        operands = ", ".join(self.place(source) for source in sources)
        self.write(f"{mnemonic} {self.place(out)}, {self.constant(size)}, {operands}")

    def product(self, out: Place, rows: int, matrix: Place, source: Place, columns: int) -> None:
        """out = matrix times source."""
        self._of_matrix("mmv", out, rows, matrix, source, columns)

    def transposed_product(
        self, out: Place, columns: int, matrix: Place, source: Place, rows: int
    ) -> None:
        """out = source times matrix."""
        self._of_matrix("vmm", out, columns, matrix, source, rows)

    def _of_matrix(
        self, mnemonic: str, out: Place, results: int, matrix: Place, source: Place, terms: int
    ) -> None:
        self.write(
            f"{mnemonic} {self.place(out)}, {self.constant(results)}, {self.place(matrix)}, "
            f"{self.place(source)}, {self.constant(terms)}"
        )

    def outer_product(self, out: Place, a: Place, rows: int, b: Place, columns: int) -> None:
        """out = the products of each element of a and each of b."""
        self.write(
            f"op {self.place(out)}, {self.place(a)}, {self.constant(rows)}, "
            f"{self.place(b)}, {self.constant(columns)}"
        )

    def clear(self, out: Place, size: int) -> None:
        """out = 0."""
        self.vector("vsv", out, size, out, out)

    def fill(self, out: Place, size: int, value: int) -> None:
        """out = an element."""
        self.clear(out, size)
        self.vector("vas", out, size, out, f"#{value}")

    def place(self, buffer: Place) -> str:
        """The register that holds a buffer's address."""
        return buffer if isinstance(buffer, str) else self.constant(buffer.address)

    def add(self, register: str, amount: int) -> None:
        """register += amount."""
        if amount:
            self.write(f"sadd {register}, {register}, #{amount}")

    def copy(self, register: str, source: str) -> None:
        """register = source."""
        self.write(f"smove {register}, {source}")

    @contextmanager
    def loop(self, count: int, *, counts_down: bool = True) -> Iterator[str]:
        """Repeat the statements written inside `count` times; variables created inside end with the
        loop.

        Yields the counter, or "" if `count` is 1. Unless `counts_down`, the statements count it
        down.
        """
        if count == 1:
            yield ""
            return
        taken = self._variables
        counter = self.variable(count)
        label = self._label()
        self.write(f"{label}:")
        yield counter
        if counts_down:
            self.write(f"ssub {counter}, {counter}, #1")
        self.write(f"cb {counter}, {label}")
        self._variables = taken

    @contextmanager
    def where_positive(self, register: str) -> Iterator[None]:
        """Execute the statements written inside only if a register is positive."""
        inside, behind = self._label(), self._label()
        self.write(f"cb {register}, {inside}")
        self.write(f"jump {behind}")
        self.write(f"{inside}:")
        yield
        self.write(f"{behind}:")

    def _label(self) -> str:
        """A unique label."""
        self._labels += 1
        return f".Lblock_{self.serial}_{self._labels - 1}"


VARIABLES = tuple(f"${n}" for n in (*range(48, 58), *range(47, 39, -1)))
"""Registers for addresses and counters, in order of allocation."""
_CONSTANTS = tuple(f"${n}" for n in range(32, 48))
_TURNS = tuple(f"${n}" for n in range(58, 64))
"""Registers for numbers without one of their own; a statement reads at most five."""
_PLACE = re.compile(r"\{(\d+)\}")


@dataclass(frozen=True)
class NamedNumber:
    """A number or a symbol's address, which later statements refer to as `{index}`."""

    index: int
    number: str

    @property
    def place(self) -> str:
        """Placeholder of the register in statements."""
        return f"{{{self.index}}}"


def statements(lines: Sequence[str | NamedNumber], variables: int) -> tuple[str, ...]:
    """A block's statements, behind moves of the numbers that keep registers free of variables."""
    free = [register for register in _CONSTANTS if register not in VARIABLES[:variables]]
    numbers = dict.fromkeys(line.number for line in lines if isinstance(line, NamedNumber))
    kept = dict(zip(numbers, free, strict=False))
    moves = [f"smove {register}, #{number}" for number, register in kept.items()]
    return (*moves, *_Turns(kept).written(lines))


@dataclass
class _Turns:
    """Assigns registers in turn to numbers without one; `held` maps each to its current use."""

    kept: dict[str, str]
    uses: dict[int, NamedNumber] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    turns: Iterator[str] = field(default_factory=lambda: cycle(_TURNS))

    def written(self, lines: Sequence[str | NamedNumber]) -> Iterator[str]:
        """The lines with registers in place, and moves inserted before their uses."""
        for line in lines:
            if isinstance(line, NamedNumber):
                self.uses[line.index] = line
                if line.number not in self.kept:
                    yield self._moved(line)
                continue
            if line.endswith(":"):
                self.held.clear()
            for match in _PLACE.finditer(line):
                use = self.uses[int(match[1])]
                if use.number not in self.kept and use.index not in self.held.values():
                    yield self._moved(use)
            yield _PLACE.sub(lambda match: self._register(int(match[1])), line)

    def _moved(self, use: NamedNumber) -> str:
        register = next(self.turns)
        self.held[register] = use.index
        return f"smove {register}, #{use.number}"

    def _register(self, index: int) -> str:
        kept = self.kept.get(self.uses[index].number)
        return kept or next(r for r, held in self.held.items() if held == index)
