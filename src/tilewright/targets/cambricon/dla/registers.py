"""Registers of a block's numbers: those that recur keep one, others are moved before their use.

In: lines with uses of numbers between them. Out: statements. Blocks use the registers from `$32`
on. Loops within loops take registers that numbers have in other blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

VARIABLES = tuple(f"${n}" for n in (*range(48, 58), *range(47, 39, -1)))
"""Registers for addresses and counters, in the order in which they are taken."""
_CONSTANTS = tuple(f"${n}" for n in range(32, 48))
_TURNS = tuple(f"${n}" for n in range(58, 64))
"""Registers for numbers that found none of their own; a statement reads at most five."""
_PLACE = re.compile(r"\{(\d+)\}")


@dataclass(frozen=True)
class Use:
    """A number, or the address of a symbol, that statements from here on have as `{index}`."""

    index: int
    number: str

    @property
    def place(self) -> str:
        """Placeholder of the register in statements."""
        return f"{{{self.index}}}"


def statements(lines: Sequence[str | Use], variables: int) -> tuple[str, ...]:
    """The statements of a block that takes so many variables: the numbers that stay come first."""
    free = [register for register in _CONSTANTS if register not in VARIABLES[:variables]]
    numbers = dict.fromkeys(line.number for line in lines if isinstance(line, Use))
    kept = dict(zip(numbers, free, strict=False))
    moves = [f"smove {register}, #{number}" for number, register in kept.items()]
    return (*moves, *_Turns(kept).written(lines))


@dataclass
class _Turns:
    """Numbers without a register of their own: `held` are the registers of uses just now."""

    kept: dict[str, str]
    uses: dict[int, Use] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    turns: Iterator[str] = field(default_factory=lambda: cycle(_TURNS))

    def written(self, lines: Sequence[str | Use]) -> Iterator[str]:
        """The lines with registers, and moves before those that need them."""
        for line in lines:
            if isinstance(line, Use):
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

    def _moved(self, use: Use) -> str:
        register = next(self.turns)
        self.held[register] = use.index
        return f"smove {register}, #{use.number}"

    def _register(self, index: int) -> str:
        kept = self.kept.get(self.uses[index].number)
        return kept or next(r for r, held in self.held.items() if held == index)
