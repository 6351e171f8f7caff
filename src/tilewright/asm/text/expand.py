"""Expansion of macros, repetitions, conditions and included files into parsed lines.

In: a source. Out: pairs (line, parsed line) in assembly order; lines that only control the
expansion yield empty ones, so that a listing shows them. Instead of recursion, a stack of frames is
processed, and every step counts against the limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

from tilewright.asm.diagnostics import (
    FatalFault,
    Fault,
    Reporter,
    SourceError,
    SourceErrors,
    SourceLine,
    Span,
)
from tilewright.asm.front_end import FrontEnd
from tilewright.asm.limits import Budget
from tilewright.asm.text import macros
from tilewright.asm.text.expression import EMPTY_LINE, ParsedLine, ParsedOperand, ParsedString
from tilewright.asm.text.parse import LineParser
from tilewright.asm.text.source import IncludeFolder, SourceText
from tilewright.isa import InstructionTable

# Conditions of a source: the active lines between `.if`, `.elseif`, `.else` and `.endif`.

OPENING = (".if", ".ifdef", ".ifndef", ".ifb", ".ifnb")
CONTINUING = (".elseif", ".else", ".endif")


@dataclass(slots=True)
class _Condition:
    """An open `.if`: `active` if its current lines are assembled, `taken` if a branch has been."""

    line: SourceLine
    active: bool
    taken: bool
    parent_active: bool
    has_else: bool = False


@dataclass(slots=True)
class _Conditions:
    """The open conditions, the innermost last."""

    open: list[_Condition] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.open)

    @property
    def active(self) -> bool:
        """True if the current lines are assembled."""
        return not self.open or self.open[-1].active

    def take(
        self, line: SourceLine, word: str, span: Span, outer: int, test: Callable[[str], bool]
    ) -> None:
        """Process a conditional directive; `outer` conditions were open when its text began, and
        `test` evaluates its condition. Raises Fault.
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
        """Close all but the `outer` conditions; returns the lines that opened them."""
        for condition in self.open[outer:]:
            yield condition.line
        del self.open[outer:]


_HEAD = re.compile(r"\s*((?:(?:[A-Za-z_.][\w.]*|[0-9]+)[ \t]*:\s*)*)([A-Za-z_.][\w.]*)?", re.ASCII)
_BLOCKS = {".macro": ".endm", ".rept": ".endr", ".irp": ".endr"}
EXPANSION_WORDS = (*_BLOCKS, ".endm", ".endr", *OPENING, *CONTINUING, ".include", ".exitm")
_STEERING = frozenset(EXPANSION_WORDS)


@dataclass(slots=True)
class _Frame:
    """Lines being expanded, and the number of open conditions on entry."""

    lines: Iterator[SourceLine]
    conditions: int
    macro: bool = False


@dataclass(slots=True)
class Expander:
    """Expands one source; iterate over it once.

    The table defines the marks of the text, `parser` parses its lines. `number` evaluates operands
    that must be known now, `is_defined` answers `.ifdef`, and `reserved` tests if a macro may not
    have a name. A `front_end` may replace lines by the services of `front_end.Expansion`.
    """

    source: SourceText
    table: InstructionTable
    parser: LineParser
    includes: IncludeFolder
    budget: Budget
    reporter: Reporter
    number: Callable[[ParsedOperand], int]
    is_defined: Callable[[str], bool]
    reserved: Callable[[str], bool]
    current_section: Callable[[], str]
    front_end: FrontEnd | None = None
    _macros: dict[str, macros.Macro] = field(default_factory=dict)
    _frames: list[_Frame] = field(default_factory=list)
    _conditions: _Conditions = field(default_factory=_Conditions)
    _hidden: list[SourceLine] = field(default_factory=list)
    _expansions: int = 0
    _closed: bool = False

    def __iter__(self) -> Iterator[tuple[SourceLine, ParsedLine]]:
        self._frames.append(_Frame(self.source.numbered(), 0))
        last = SourceLine(self.source.name, 1, "")
        while self._frames:
            line = next(self._frames[-1].lines, None)
            if line is None:
                self._leave()
                if not self._frames:
                    self._close(last)
                continue
            last = line
            try:
                self.budget.spend(line)
                parsed = self._process(line)
            except Fault as fault:
                self.reporter.add(line, fault, self.budget.lines)
                parsed = self._labels_only(line)
            yield line, parsed
            for hidden in self._hidden:
                yield hidden, EMPTY_LINE
            self._hidden.clear()

    def _close(self, last: SourceLine) -> None:
        """Continue with the lines that the front end adds after the last one."""
        if self.front_end is None or self._closed:
            return
        self._closed = True
        while last.parent is not None:
            last = last.parent
        try:
            texts = tuple(self.front_end.closing())
        except Fault as fault:
            self.reporter.add(last, fault, self.budget.lines)
            return
        self._enter(last, (last.child(last.file, last.number, t, "the end") for t in texts))

    def _labels_only(self, line: SourceLine) -> ParsedLine:
        """The labels of a wrong line, kept so that references to them resolve."""
        head = _HEAD.match(line.text)
        if (
            head is None
            or not head[1]
            or not self._conditions.active
            or len(line.text) > self.budget.limits.line_characters
        ):
            return EMPTY_LINE
        try:
            return self.parser.parse(line.text[: head.end(1)])
        except Fault:
            return EMPTY_LINE

    def _process(self, line: SourceLine) -> ParsedLine:
        if self.front_end is not None and self._conditions.active:
            lines = self.front_end.expand(line, self)
            if lines is not None:
                self._enter(line, iter(lines))
                return EMPTY_LINE
        head = _HEAD.match(line.text)
        word = (head[2] or "") if head else ""
        if head is None or not word:
            return self.parser.parse(line.text) if self._conditions.active else EMPTY_LINE
        if word not in _STEERING and word not in self._macros:
            return self.parser.parse(line.text) if self._conditions.active else EMPTY_LINE
        span, rest = Span(head.start(2) + 1, len(word)), line.text[head.end(2) :]
        if word in OPENING or word in CONTINUING:
            outer = self._frames[-1].conditions
            test = partial(self._test, line, rest=rest, span=span)
            self._conditions.take(line, word, span, outer, test)
        elif not self._conditions.active:
            return EMPTY_LINE
        elif word in _BLOCKS:
            self._block(line, word, rest, span)
        elif word in self._macros:
            self._call(line, self._macros[word], rest, span)
        else:
            self._other(line, word, span)
        return (
            self.parser.parse(line.text[: head.end(1)])
            if head[1] and self._conditions.active
            else EMPTY_LINE
        )

    def _plain(self, text: str) -> str:
        """The text without its comment."""
        return macros.without_comment(text, self.table.dialect.comments)

    # ---------------------------------------------------------------- for the front end

    @property
    def section(self) -> str:
        return self.current_section()

    def next_line(self) -> SourceLine | None:
        line = next(self._frames[-1].lines, None)
        if line is not None:
            self.budget.spend(line)
            self._hidden.append(line)
        return line

    def operands_of(self, text: str) -> tuple[ParsedOperand, ...]:
        return self.parser.parse(text).operands

    def number_of(self, text: str, column: int) -> int:
        operands = self.operands_of(f".if {text}")
        try:
            if len(operands) != 1:
                raise Fault(SourceError.ARGUMENTS, "one number is needed", Span(5, len(text)))
            return self.number(operands[0])
        except Fault as fault:
            span = fault.span or Span(5)
            moved = Span(span.column - 5 + column, span.length)
            raise fault.again(span=moved) from None

    def report(self, line: SourceLine, fault: Fault) -> None:
        self.reporter.add(line, fault, self.budget.lines)

    # ---------------------------------------------------------------- frames

    def _enter(self, line: SourceLine, lines: Iterator[SourceLine], macro: bool = False) -> None:
        if line.depth >= self.budget.limits.expansion_depth:
            raise FatalFault(
                SourceError.LIMIT,
                f"macros, repetitions and files are nested more than "
                f"{self.budget.limits.expansion_depth} deep",
                fix="end the recursion with .if and .exitm",
            )
        self._frames.append(_Frame(lines, len(self._conditions), macro))

    def _leave(self) -> None:
        frame = self._frames.pop()
        self._close_conditions(frame, report=True)

    def _close_conditions(self, frame: _Frame, *, report: bool) -> None:
        for line in self._conditions.close(frame.conditions):
            if report:
                fault = Fault(
                    SourceError.UNBALANCED,
                    ".if without .endif",
                    fix="write .endif after its last line",
                )
                self.reporter.add(line, fault, self.budget.lines)
                self.reporter.structure_broken = True

    def _other(self, line: SourceLine, word: str, span: Span) -> None:
        if word == ".include":
            parsed = self.parser.parse(line.text)
            match parsed.operands:
                case (ParsedString(value, name_span),):
                    try:
                        text = self.includes.read(value.decode("utf-8", "replace"), name_span)
                    except Fault:
                        self.reporter.structure_broken = True
                        raise
                    except SourceErrors as errors:
                        self.reporter.take(errors, self.budget.lines)
                        return
                    self._enter(line, text.numbered(line, "a file included"))
                case _:
                    message = ".include needs one file name"
                    raise Fault(SourceError.ARGUMENTS, message, span, fix='write .include "name"')
            return
        if word == ".exitm":
            self._exit_macro(span)
            return
        opener = ".macro" if word == ".endm" else ".rept"
        raise Fault(
            SourceError.UNBALANCED,
            f"{word} without {opener}",
            span,
            fix=f"remove it or write {opener} before",
        )

    def _exit_macro(self, span: Span) -> None:
        if not any(frame.macro for frame in self._frames):
            raise Fault(SourceError.UNBALANCED, ".exitm outside a macro", span)
        while True:
            frame = self._frames.pop()
            self._close_conditions(frame, report=False)
            if frame.macro:
                return

    # ---------------------------------------------------------------- conditions

    def _test(self, line: SourceLine, word: str, *, rest: str, span: Span) -> bool:
        if word in (".ifb", ".ifnb"):
            return (self._plain(rest).strip() == "") == (word == ".ifb")
        if word in (".ifdef", ".ifndef"):
            name = self._plain(rest).strip()
            if not re.fullmatch(r"[A-Za-z_.][\w.]*", name, re.ASCII):
                raise Fault(SourceError.ARGUMENTS, f"{word} needs one name", span)
            return self.is_defined(name) == (word == ".ifdef")
        operands = self.parser.parse(line.text).operands
        if len(operands) != 1:
            raise Fault(
                SourceError.ARGUMENTS,
                ".if needs one expression",
                span,
                fix="write for instance .if rows > 4",
            )
        return self.number(operands[0]) != 0

    # ---------------------------------------------------------------- macros and repetitions

    def _block(self, line: SourceLine, word: str, rest: str, span: Span) -> None:
        body = self._body(line, word)
        if word == ".macro":
            brackets = self.table.dialect.brackets
            name, parameters = macros.parse_definition(self._plain(rest), span, brackets)
            if self.reserved(name):
                raise Fault(
                    SourceError.RESERVED,
                    f"'{name}' is an instruction or directive and cannot be a macro",
                    span,
                )
            if name in self._macros:
                known = self._macros[name].line
                raise Fault(
                    SourceError.DEFINED_TWICE,
                    f"macro '{name}' is already defined at {known.file}:{known.number}",
                    span,
                )
            self._macros[name] = macros.Macro(name, parameters, body, line)
        elif word == ".rept":
            operands = self.parser.parse(line.text).operands
            if len(operands) != 1:
                raise Fault(
                    SourceError.ARGUMENTS,
                    ".rept needs one number",
                    span,
                    fix="write for instance .rept 4",
                )
            self._repeat(line, body, self.number(operands[0]), span)
        else:
            self._each(line, body, rest, span)

    def _body(self, line: SourceLine, word: str) -> tuple[SourceLine, ...]:
        """The raw lines up to the matching end, nested blocks included."""
        end, openers = _BLOCKS[word], [w for w in _BLOCKS if _BLOCKS[w] == _BLOCKS[word]]
        depth = 1
        body: list[SourceLine] = []
        for inner in self._frames[-1].lines:
            self.budget.spend(inner)
            head = _HEAD.match(inner.text)
            found = head[2] if head else None
            depth += (found in openers) - (found == end)
            self._hidden.append(inner)
            if depth == 0:
                return tuple(body)
            body.append(inner)
        self.reporter.structure_broken = True
        raise Fault(
            SourceError.UNBALANCED, f"{word} without {end}", fix=f"write {end} after its last line"
        )

    def _repeat(
        self, line: SourceLine, body: tuple[SourceLine, ...], count: int, span: Span
    ) -> None:
        if not 0 <= count <= self.budget.limits.repetitions:
            raise Fault(
                SourceError.RANGE,
                f".rept {count} is outside 0 .. {self.budget.limits.repetitions}",
                span,
            )
        if body:
            self._enter(line, _copied(line, body, repeat(str, count), "a repetition"))

    def _each(self, line: SourceLine, body: tuple[SourceLine, ...], rest: str, span: Span) -> None:
        plain = self._plain(rest)
        name, *values = macros.split_arguments(plain, self.table.dialect.brackets) or [""]
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            shown = ", ".join(self.table.register_names[1:3])
            fix = f"write for instance .irp r, {shown}"
            raise Fault(SourceError.ARGUMENTS, ".irp needs a name and values", span, fix=fix)
        texts = (partial(macros.with_references, {name: value}, 0) for value in values)
        self._enter(line, _copied(line, body, texts, "a repetition"))

    def _call(self, line: SourceLine, macro: macros.Macro, rest: str, span: Span) -> None:
        brackets = self.table.dialect.brackets
        arguments = macros.bind_arguments(macro, self._plain(rest), span, brackets)
        serial = self._expansions
        self._expansions += 1
        text = partial(macros.with_references, arguments, serial)
        self._enter(line, _copied(line, macro.body, [text], f"macro '{macro.name}'"), macro=True)


def _copied(
    line: SourceLine, body: Sequence[SourceLine], texts: Iterable[Callable[[str], str]], origin: str
) -> Iterator[SourceLine]:
    """The lines of a body, once for each of `texts`, which maps a line's text."""
    for text in texts:
        for inner in body:
            yield line.child(inner.file, inner.number, text(inner.text), origin)
