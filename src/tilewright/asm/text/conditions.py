"""Conditions of a source: which lines count between `.if`, `.elseif`, `.else` and `.endif`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilewright.asm.diagnostics import Fault, SourceLine, Span
from tilewright.asm.error_codes import SourceError

OPENING = (".if", ".ifdef", ".ifndef", ".ifb", ".ifnb")
CONTINUING = (".elseif", ".else", ".endif")


@dataclass(slots=True)
class _Condition:
    """An open `.if`: `active` if its lines count now, `taken` if a branch of it has been taken."""

    line: SourceLine
    active: bool
    taken: bool
    parent_active: bool
    has_else: bool = False


@dataclass(slots=True)
class Conditions:
    """The open conditions, the innermost last."""

    open: list[_Condition] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.open)

    @property
    def active(self) -> bool:
        """True if lines count at this point."""
        return not self.open or self.open[-1].active

    def take(
        self, line: SourceLine, word: str, span: Span, outer: int, test: Callable[[str], bool]
    ) -> None:
        """Follow one of the words above; `outer` conditions were open when its text began, and
        `test` computes the condition of a word. Raises Fault.
        """
        if word in OPENING:
            active = self.active
            self.open.append(_Condition(line, False, True, active))
            if active:
                value = test(word)
                self.open[-1] = _Condition(line, value, value, active)
            return
        if len(self.open) <= outer:
            raise Fault(
                SourceError.UNBALANCED,
                f"{word} without .if",
                span,
                fix="remove it or write .if before",
            )
        top = self.open[-1]
        if word == ".endif":
            self.open.pop()
            return
        if top.has_else:
            raise Fault(
                SourceError.UNBALANCED, f"{word} after .else", span, fix="write one .else, last"
            )
        top.active = False
        if word == ".else":
            top.has_else = True
            top.active = top.parent_active and not top.taken
        elif top.parent_active and not top.taken:
            top.active = test(".if")
        top.taken = top.taken or top.active

    def close(self, outer: int) -> Iterator[SourceLine]:
        """Close all but the `outer` ones, and give the lines that opened them."""
        for condition in self.open[outer:]:
            yield condition.line
        del self.open[outer:]
