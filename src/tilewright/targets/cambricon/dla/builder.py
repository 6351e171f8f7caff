"""Statements of a block as they are written: registers for numbers, scratchpads, loops.

Blocks use the registers from `FIRST_REGISTER` on and both scratchpads from address 0; whoever calls
a block keeps nothing there. Numbers that recur stay in registers; when those run out, a number is
moved into one of a few registers in turn before its use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.asm.diagnostics import Fault
from tilewright.targets.cambricon.dla.error_codes import DlaError

FIRST_REGISTER = 32
_CONSTANTS = tuple(f"${n}" for n in range(32, 48))
_VARIABLES = tuple(f"${n}" for n in range(48, 58))
_TURNS = tuple(f"${n}" for n in range(58, 64))
"""Registers for numbers that found no register of their own; a statement reads at most five."""


@dataclass(frozen=True)
class Buffer:
    """Elements of a scratchpad."""

    name: str
    memory: str
    address: int
    size: int


@dataclass
class Builder:
    """The statements of one block. `capacities` are elements of each scratchpad; `serial` tells the
    labels of this block from those of others.
    """

    capacities: Mapping[str, int]
    serial: int
    lines: list[str] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    _constants: dict[str, str] = field(default_factory=dict)
    _variables: int = 0
    _turn: int = 0
    _labels: int = 0

    # ---------------------------------------------------------------- registers

    def constant(self, value: int | str) -> str:
        """A register that holds a number, or the address of a symbol."""
        text = str(value)
        if text in self._constants:
            return self._constants[text]
        if len(self._constants) < len(_CONSTANTS):
            return self._constants.setdefault(text, _CONSTANTS[len(self._constants)])
        register = _TURNS[self._turn]
        self._turn = (self._turn + 1) % len(_TURNS)
        self.write(f"smove {register}, #{text}")
        return register

    def variable(self, value: int | str) -> str:
        """A register of its own that starts with a number."""
        register = _VARIABLES[self._variables]
        self._variables += 1
        self.write(f"smove {register}, #{value}")
        return register

    def start(self, place: Buffer | str) -> str:
        """A register of its own that starts where a buffer begins."""
        if isinstance(place, Buffer):
            return self.variable(place.address)
        register = self.variable(0)
        self.copy(register, place)
        return register

    def mark(self) -> int:
        """How many variables there are."""
        return self._variables

    def release(self, mark: int) -> None:
        """End the variables that came after a mark."""
        self._variables = mark

    def write(self, statement: str) -> None:
        """Append a statement."""
        self.lines.append(statement)

    def text(self) -> tuple[str, ...]:
        """The whole block: its numbers first."""
        moves = (f"smove {register}, #{text}" for text, register in self._constants.items())
        return (*moves, *self.lines)

    # ---------------------------------------------------------------- scratchpads

    def buffer(self, name: str, memory: str, size: int) -> Buffer:
        """Elements behind those taken before."""
        address = sum(b.size for b in self.buffers if b.memory == memory)
        found = Buffer(name, memory, address, size)
        self.buffers.append(found)
        return found

    def scratch(self, name: str, size: int) -> Buffer:
        """Elements of the vector scratchpad that are taken once, whoever asks for them."""
        for buffer in self.buffers:
            if buffer.name == name and buffer.size >= size:
                return buffer
        return self.buffer(name, "vector", size)

    def check(self, fix: str) -> None:
        """Refuse buffers that do not fit. Raises Fault with the map of the scratchpad."""
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

    def load(self, buffer: Buffer | str, size: int, symbol: str, offset: int, memory: str) -> None:
        """Load elements from a place known now."""
        self.transfer("load", memory, buffer, size, f"#{symbol}+{offset}")

    def load_at(self, buffer: Buffer | str, size: int, base: str, memory: str) -> None:
        """Load elements from the address in a register."""
        self.transfer("load", memory, buffer, size, f"{base}, #0")

    def store(self, buffer: Buffer | str, size: int, symbol: str, offset: int) -> None:
        """Store elements of a scratchpad, the vector one for a register, to a place known now."""
        memory = buffer.memory if isinstance(buffer, Buffer) else "vector"
        self.transfer("store", memory, buffer, size, f"#{symbol}+{offset}")

    def store_at(self, buffer: Buffer | str, size: int, base: str) -> None:
        """Store elements of the vector scratchpad to the address in a register."""
        self.transfer("store", "vector", buffer, size, f"{base}, #0")

    def transfer(self, way: str, memory: str, local: Buffer | str, size: int, place: str) -> None:
        """Load or store elements; `place` is an address as statements have it."""
        self.write(f"{memory[0]}{way} {self.place(local)}, {self.constant(size)}, {place}")

    def vector(self, mnemonic: str, out: Buffer | str, size: int, *sources: Buffer | str) -> None:
        """An operation of the vector unit."""
        operands = ", ".join(self.place(source) for source in sources)
        self.write(f"{mnemonic} {self.place(out)}, {self.constant(size)}, {operands}")

    def product(
        self, out: Buffer | str, rows: int, matrix: Buffer | str, source: Buffer | str, columns: int
    ) -> None:
        """out = matrix times source."""
        self.write(
            f"mmv {self.place(out)}, {self.constant(rows)}, {self.place(matrix)}, "
            f"{self.place(source)}, {self.constant(columns)}"
        )

    def transposed_product(
        self, out: Buffer | str, columns: int, matrix: Buffer | str, source: Buffer | str, rows: int
    ) -> None:
        """out = source times matrix."""
        self.write(
            f"vmm {self.place(out)}, {self.constant(columns)}, {self.place(matrix)}, "
            f"{self.place(source)}, {self.constant(rows)}"
        )

    def outer_product(
        self, out: Buffer | str, a: Buffer | str, rows: int, b: Buffer | str, columns: int
    ) -> None:
        """out = the products of each element of a and each of b."""
        self.write(
            f"op {self.place(out)}, {self.place(a)}, {self.constant(rows)}, "
            f"{self.place(b)}, {self.constant(columns)}"
        )

    def clear(self, out: Buffer | str, size: int) -> None:
        """out = 0."""
        self.vector("vsv", out, size, out, out)

    def fill(self, out: Buffer | str, size: int, value: int) -> None:
        """out = an element."""
        self.clear(out, size)
        self.vector("vas", out, size, out, f"#{value}")

    def place(self, buffer: Buffer | str) -> str:
        """The register that holds where a buffer begins."""
        return buffer if isinstance(buffer, str) else self.constant(buffer.address)

    def add(self, register: str, amount: int) -> None:
        """register += amount."""
        if amount:
            self.write(f"sadd {register}, {register}, #{amount}")

    def copy(self, register: str, source: str) -> None:
        """register = source."""
        self.write(f"smove {register}, {source}")

    @contextmanager
    def loop(self, count: int) -> Iterator[None]:
        """What is written inside is executed `count` times; its variables end with it."""
        if count == 1:
            yield
            return
        taken = self._variables
        counter = self.variable(count)
        label = f".Lblock_{self.serial}_{self._labels}"
        self._labels += 1
        self.write(f"{label}:")
        yield
        self.write(f"ssub {counter}, {counter}, #1")
        self.write(f"cb {counter}, {label}")
        self._variables = taken
