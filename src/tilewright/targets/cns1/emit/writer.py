"""Text of a Torrent as it grows: unique labels, constants of any size, addresses.

The scalar unit adds, subtracts and shifts, with literals of ten bits; a copy takes fifteen. Larger
constants, and products with constants, are shifts and additions.
"""

from __future__ import annotations

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Expr, coefficient, evaluate, free_vars

_COPY_LIMIT, _ADD_LIMIT = 1 << 14, 1 << 9


class Writer:
    """Lines of a source; `variables` are the registers of the loops around."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self._lines: list[str] = []
        self._labels = 0

    def add(self, *lines: str) -> None:
        """Append instructions."""
        self._lines += [f"    {line}" for line in lines]

    def comment(self, text: str) -> None:
        """Append a comment of one line."""
        self._lines.append(f"// {' '.join(text.split())}")

    def label(self, name: str) -> str:
        """A new label, not yet placed."""
        self._labels += 1
        return f"{name}{self._labels}"

    def place(self, label: str) -> None:
        """Place a label at the next instruction."""
        self._lines.append(f"{label}:")

    def text(self) -> str:
        """The source so far."""
        return "".join(f"{line}\n" for line in self._lines)

    def constant(self, register: str, value: int) -> None:
        """register = value; raises ProgramError for more than 32 bits."""
        if not -(1 << 31) <= value < 1 << 31:
            raise ProgramError(f"{value} does not fit a register of 32 bits")
        if -_COPY_LIMIT <= value < _COPY_LIMIT:
            self.add(f"{register} = {value}")
            return
        rest = value & (_ADD_LIMIT - 1)
        self.constant(register, value >> 9)
        self.add(f"{register} = {register} << 9")
        if rest:
            self.add(f"{register} = {register} + {rest}")

    def sum(self, register: str, other: str, value: int, scratch: str) -> None:
        """register = other + value; large values take `scratch`, which is none of the others."""
        if value == 0 and register == other:
            return
        if -_ADD_LIMIT <= value < _ADD_LIMIT:
            self.add(f"{register} = {other} + {value}")
            return
        self.constant(scratch, value)
        self.add(f"{register} = {other} + {scratch}")

    def address(self, register: str, base: str, offset: Expr, size: int, scratch: str) -> None:
        """register = base + size * offset, of an expression linear in the loops around.

        Raises ProgramError for one that is not.
        """
        loops = sorted(free_vars(offset))
        start = int(evaluate(offset, dict.fromkeys(loops, 0)))
        self.sum(register, base, size * start, scratch)
        for loop in loops:
            factor = size * int(evaluate(coefficient(offset, loop), {}))
            self._multiple(register, self.variables[loop], factor, scratch)

    def _multiple(self, register: str, variable: str, factor: int, scratch: str) -> None:
        """register += variable * factor: a shift and an addition for each bit."""
        sign = "+" if factor > 0 else "-"
        for bit in range(abs(factor).bit_length()):
            if abs(factor) >> bit & 1:
                self.add(
                    f"{scratch} = {variable} << {bit}", f"{register} = {register} {sign} {scratch}"
                )
