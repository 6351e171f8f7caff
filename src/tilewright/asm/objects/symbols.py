"""Symbols of a source during assembly: labels, `.set` values, declarations.

A `.set` symbol has a history: a line sees the last value set before it (or, before the first, the
first). Values that depend on later labels are deferred until all lines are placed, and are then
computed in the order of their dependences.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from tilewright.asm.diagnostics import Consequence, Fault, Reporter, SourceError, SourceLine, Span
from tilewright.asm.suggest import did_you_mean
from tilewright.asm.text import expression as expressions

HIDDEN_PREFIX = ".L"


class NotYetKnown(Fault):
    """A name whose value is not known at this line but may be later."""


@dataclass(frozen=True, slots=True)
class Label:
    """An offset in a section."""

    section: str
    offset: int
    line: SourceLine


@dataclass(slots=True)
class SetDirective:
    """One `.set`: its position, its expression, and its value once known."""

    name: str
    order: int
    line: SourceLine
    span: Span
    expression: expressions.Expression
    section: str
    offset: int
    value: expressions.ExpressionValue | None = None
    failed: bool = False


@dataclass(slots=True)
class Declaration:
    """Attributes that `.globl`, `.extern`, `.type` and `.size` give a name."""

    is_global: bool = False
    is_external: bool = False
    kind: str = ""
    size: int = 0
    order: int = 0
    line: SourceLine | None = None
    span: Span | None = None


@dataclass(slots=True)
class SymbolTable:
    """All names of a source."""

    labels: dict[str, Label] = field(default_factory=dict)
    definitions: dict[str, list[SetDirective]] = field(default_factory=dict)
    declarations: dict[str, Declaration] = field(default_factory=dict)
    sections: set[str] = field(default_factory=set)
    _numeric: dict[int, list[int]] = field(default_factory=dict)

    def define_label(self, name: str, label: Label, span: Span) -> None:
        """Place a label. Raises Fault if the name is taken."""
        self._refuse_taken(name, span, definitions=True)
        self.labels[name] = label

    def define_numeric(self, digits: int, order: int, label: Label) -> str:
        """Place a numeric label; returns its hidden name."""
        orders = self._numeric.setdefault(digits, [])
        orders.append(order)
        name = _numeric_name(digits, len(orders))
        self.labels[name] = label
        return name

    def define(self, definition: SetDirective, *, once: bool = False) -> None:
        """Set a value. Raises Fault if the name is a label, or, with `once`, already set."""
        self._refuse_taken(definition.name, definition.span, definitions=once)
        self.definitions.setdefault(definition.name, []).append(definition)

    def _refuse_taken(self, name: str, span: Span, *, definitions: bool) -> None:
        if name in self.sections:
            raise Fault(SourceError.RESERVED, f"'{name}' is the name of a section", span)
        line: SourceLine | None = None
        if name in self.labels:
            line = self.labels[name].line
        elif definitions and name in self.definitions:
            line = self.definitions[name][0].line
        if line is not None:
            place = f"{line.file}:{line.number}"
            fix = "" if line.parent is None else "make it unique in the macro with \\@"
            raise Fault(
                SourceError.DEFINED_TWICE, f"'{name}' is already defined at {place}", span, fix=fix
            )

    def declare(self, name: str) -> Declaration:
        """The declaration of a name, created if there is none."""
        return self.declarations.setdefault(name, Declaration())

    def is_defined(self, name: str) -> bool:
        """True if the name has been defined so far."""
        return name in self.labels or name in self.definitions

    def place(self, name: str) -> tuple[str, int] | None:
        """(section, offset) of a label or section."""
        label = self.labels.get(name)
        if label is not None:
            return label.section, label.offset
        return (name, 0) if name in self.sections else None

    def numeric_name(self, reference: expressions.LocalReference, order: int) -> str:
        """The hidden name that `1b` or `1f` refers to in a line. Raises NotYetKnown."""
        orders = self._numeric.get(reference.digits, [])
        before = bisect_right(orders, order)
        count = before + 1 if reference.forward else before
        if not 1 <= count <= len(orders):
            side = "after" if reference.forward else "before"
            raise NotYetKnown(
                SourceError.UNDEFINED,
                f"no label {reference.digits}: {side} this line",
                reference.span,
            )
        return _numeric_name(reference.digits, count)

    def definition_at(self, name: str, order: int) -> SetDirective | None:
        """The `.set` of a name that a line sees."""
        history = self.definitions.get(name)
        if history is None:
            return None
        index = bisect_right(history, order, key=lambda definition: definition.order)
        return history[max(index - 1, 0)]

    def names(self) -> Iterator[str]:
        """The names that suggestions draw from."""
        yield from (name for name in self.labels if not name.startswith(HIDDEN_PREFIX))
        yield from self.definitions
        yield from self.declarations

    def scope(self, order: int, section: str, offset: int) -> SymbolScope:
        """The scope of the expressions in one line."""
        return SymbolScope(self, order, section, offset)

    def resolve_definitions(self, reporter: Reporter) -> None:
        """Compute every deferred `.set`, in the order of dependences."""
        for history in list(self.definitions.values()):
            for definition in history:
                self._resolve(definition, reporter)

    def _resolve(self, root: SetDirective, reporter: Reporter) -> None:
        stack, open_ids = [root], set()
        while stack:
            top = stack[-1]
            waiting = [] if top.value or top.failed else self._waiting(top)
            if waiting and id(top) not in open_ids:
                open_ids.add(id(top))
                stack.extend(waiting)
                continue
            stack.pop()
            if top.value is None and not top.failed:
                self._compute(top, circular=bool(waiting), reporter=reporter)

    def _waiting(self, definition: SetDirective) -> list[SetDirective]:
        names = _names_of(definition.expression)
        needed = (self.definition_at(name, definition.order) for name in names)
        return [d for d in needed if d is not None and d.value is None and not d.failed]

    def _compute(self, definition: SetDirective, *, circular: bool, reporter: Reporter) -> None:
        try:
            if circular:
                raise Fault(
                    SourceError.SELF_REFERENCE,
                    f"'{definition.name}' is defined through itself",
                    definition.span,
                )
            scope = self.scope(definition.order, definition.section, definition.offset)
            definition.value = expressions.expression_value(definition.expression, scope)
        except Fault as fault:
            definition.failed = True
            reporter.add(definition.line, fault, definition.order)


def _numeric_name(digits: int, count: int) -> str:
    return f"{HIDDEN_PREFIX}{digits}.{count}"


def _names_of(expression: expressions.Expression) -> Iterable[str]:
    pending, names = [expression], []
    while pending:
        match pending.pop():
            case expressions.Name(name, _):
                names.append(name)
            case expressions.UnaryOperation(_, operand, _, _) | expressions.Half(_, operand, _, _):
                pending.append(operand)
            case expressions.BinaryOperation(_, left, right, _, _):
                pending += [left, right]
    return names


class SymbolScope(Struct, frozen=True):
    """The symbols as one line sees them; with `suggests`, errors propose similar names."""

    table: SymbolTable
    order: int
    section: str
    offset: int
    suggests: bool = True

    def symbol(self, name: str, span: Span) -> expressions.ExpressionValue:
        """The value of a name. Raises NotYetKnown."""
        if name in self.table.labels or name in self.table.sections:
            return expressions.ExpressionValue(0, name)
        definition = self.table.definition_at(name, self.order)
        if definition is not None:
            if definition.failed:
                raise Consequence(
                    SourceError.UNDEFINED, f"'{name}' has no value, see its .set", span
                )
            if definition.value is None:
                raise NotYetKnown(SourceError.UNDEFINED, f"'{name}' is set further down", span)
            return definition.value
        declaration = self.table.declarations.get(name)
        if declaration is not None and declaration.is_external:
            return expressions.ExpressionValue(0, name)
        fix = did_you_mean(name, self.table.names()) if self.suggests else ""
        raise NotYetKnown(
            SourceError.UNDEFINED,
            f"undefined symbol '{name}'",
            span,
            fix=fix or f"define it, or write .extern {name}",
        )

    def local(self, reference: expressions.LocalReference) -> expressions.ExpressionValue:
        """The value of a numeric label. Raises NotYetKnown."""
        return expressions.ExpressionValue(0, self.table.numeric_name(reference, self.order))

    def here(self, span: Span) -> expressions.ExpressionValue:
        return expressions.ExpressionValue(self.offset, self.section)

    def place(self, symbol: str) -> tuple[str, int] | None:
        """(section, offset) of a label or section."""
        return self.table.place(symbol)
