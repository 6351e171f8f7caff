"""Evaluation of many expressions at once, with common subexpressions evaluated once.

In: expressions. Out: `StraightLine`, built once and evaluated for every binding of the symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.common.expr import OPERATIONS, BinaryExpr, Const, Expr, Value, Var, evaluate

Operation = Callable[[Value, Value], Value]
Step = tuple[Operation, int, int]
Made = dict[tuple[Operation, int, int], tuple[Value, Value, Value]]
"""Results of operations with their operands, by operation and the operands' identities."""


@dataclass(frozen=True)
class StraightLine:
    """Expressions as code without branches.

    Values are numbered: constants, symbols, then the result of each step, an operation on two
    earlier values. `results` are the numbers of the expressions.
    """

    expressions: tuple[Expr, ...]
    constants: tuple[int, ...]
    symbols: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def __call__(self, env: Mapping[str, Value]) -> list[Value]:
        """The values of the expressions; raises ProgramError as `evaluate` does."""
        try:
            values = [*self.constants, *[env[name] for name in self.symbols]]
            for operation, a, b in self.steps:
                values.append(operation(values[a], values[b]))
        except (KeyError, ZeroDivisionError):
            return [evaluate(e, env) for e in self.expressions]
        return [values[number] for number in self.results]

    def sharing(self, env: Mapping[str, Value], made: Made) -> list[Value]:
        """The values of the expressions. Results in `made`, also of other code, are reused for
        operations on identical arrays, so that equal expressions share one array.
        """
        try:
            values = [*self.constants, *[env[name] for name in self.symbols]]
            for operation, i, j in self.steps:
                a, b = values[i], values[j]
                key = operation, id(a), id(b)
                if key not in made:
                    made[key] = operation(a, b), a, b
                values.append(made[key][0])
        except (KeyError, ZeroDivisionError):
            return [evaluate(e, env) for e in self.expressions]
        return [values[number] for number in self.results]


def straight_line(expressions: Sequence[Expr]) -> StraightLine:
    """The straight-line code of some expressions, operands first.

    >>> n = Var("n")
    >>> straight_line([(n + 1) * 2, n + 1])({"n": 4})
    [10, 5]
    """
    order = _Order()
    for e in expressions:
        order.add(e)
    leaves = [*order.constants, *order.symbols]
    number = {e: i for i, e in enumerate([*leaves, *order.made])}
    steps = tuple((OPERATIONS[e.op], number[e.a], number[e.b]) for e in order.made)
    return StraightLine(
        tuple(expressions),
        tuple(e.value for e in order.constants),
        tuple(e.name for e in order.symbols),
        steps,
        tuple(number[e] for e in expressions),
    )


@dataclass
class _Order:
    """Distinct subexpressions in order, operands before the operations on them."""

    constants: dict[Const, None] = field(default_factory=dict)
    symbols: dict[Var, None] = field(default_factory=dict)
    made: dict[BinaryExpr, None] = field(default_factory=dict)

    def add(self, e: Expr) -> None:
        match e:
            case Const():
                self.constants[e] = None
            case Var():
                self.symbols[e] = None
            case BinaryExpr() if e not in self.made:
                self.add(e.a)
                self.add(e.b)
                self.made[e] = None
