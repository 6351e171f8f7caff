"""Integer expressions over named symbols: the arithmetic of every parametric program.

Loop extents, tile regions and conditions are expressions over loop variables, tile factors,
operator extents and the core's mesh position. One expression is evaluated with integers (one
candidate) or with NumPy integer arrays (every candidate at once). The text form is Python
arithmetic; `common.expr_parser` reads it.

>>> n, tile = Var("n"), Var("tile")
>>> str(ceil_div(n, tile) * tile - n)
'ceil_div(n, tile) * tile - n'
>>> evaluate(ceil_div(n, tile), {"n": 100, "tile": 32})
4
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import lcm
from typing import Any, ClassVar, TypeAlias, assert_never, final

import numpy as np

from tilewright.common.errors import ProgramError

IntLike: TypeAlias = "int | Const | Var | BinaryExpr"
Value: TypeAlias = (
    Any  # int, or an integer ndarray; NumPy's own stubs make a precise type unusable here
)


class _Operators:
    """Mixin of Python operators that build folded expressions."""

    def __add__(self, other: IntLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: IntLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: IntLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: IntLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: IntLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: IntLike) -> Expr:
        return binary("*", other, self)

    def __floordiv__(self, other: IntLike) -> Expr:
        return binary("//", self, other)

    def __mod__(self, other: IntLike) -> Expr:
        return binary("%", self, other)


@final
@dataclass(frozen=True, init=False, eq=False)
class Const(_Operators):
    """An integer literal; equal literals are one object, compared and hashed by identity."""

    symbols: ClassVar[frozenset[str]] = frozenset()
    value: int

    def __new__(cls, value: int) -> Const:
        known = _CONSTANTS.get(value)
        if known is not None:
            return known
        made = object.__new__(cls)
        object.__setattr__(made, "value", int(value))
        return _CONSTANTS.setdefault(made.value, made)

    def __reduce__(self) -> tuple[type[Const], tuple[int]]:
        return Const, (self.value,)

    def __repr__(self) -> str:
        return str(self.value)


@final
@dataclass(frozen=True, init=False, eq=False)
class Var(_Operators):
    """A named symbol: loop variable, factor, extent, or mesh position; equal ones are one
    object.
    """

    name: str

    def __new__(cls, name: str) -> Var:
        known = _SYMBOLS.get(name)
        if known is not None:
            return known
        made = object.__new__(cls)
        object.__setattr__(made, "name", name)
        return _SYMBOLS.setdefault(name, made)

    def __reduce__(self) -> tuple[type[Var], tuple[str]]:
        return Var, (self.name,)

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The symbol's own name."""
        return frozenset((self.name,))

    def __repr__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, eq=False)
class BinaryExpr(_Operators):
    """`a op b`; comparisons and `and` give 0 or 1."""

    op: str
    a: Expr
    b: Expr

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Names of all symbols in the expression."""
        return self.a.symbols | self.b.symbols

    @cached_property
    def _hash(self) -> int:
        return hash((self.op, self.a, self.b))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is BinaryExpr
            and self._hash == other._hash
            and (self.op, self.a, self.b) == (other.op, other.a, other.b)
        )

    def __reduce__(self) -> tuple[type[BinaryExpr], tuple[str, Expr, Expr]]:
        return BinaryExpr, (self.op, self.a, self.b)  # hashes are valid in one process only

    def __repr__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        if self.op in FUNCTIONS:
            return f"{self.op}({self.a}, {self.b})"
        level = _PRECEDENCE[self.op]
        left = _bracket(self.a, level, strict=False)
        right = _bracket(self.b, level, strict=True)
        return f"{left} {self.op} {right}"


Expr: TypeAlias = Const | Var | BinaryExpr

_CONSTANTS: dict[int, Const] = {}
_SYMBOLS: dict[str, Var] = {}
_ZERO, _ONE = Const(0), Const(1)

_PRECEDENCE = {"and": 1, "<": 2, "<=": 2, "==": 2, "!=": 2, "+": 3, "-": 3, "*": 4, "//": 4, "%": 4}
FUNCTIONS = ("min", "max", "ceil_div")
"""The operations whose text form is a call."""


def _bracket(expr: Expr, level: int, *, strict: bool) -> str:
    if isinstance(expr, BinaryExpr) and expr.op in _PRECEDENCE:
        inner = _PRECEDENCE[expr.op]
        comparison = inner == level == 2
        if inner < level or comparison or (strict and inner == level):
            return f"({expr})"
    if isinstance(expr, Const) and expr.value < 0 and level > 2:
        return f"({expr})"
    return str(expr)


def _both_and(a: Value, b: Value) -> Value:
    return np.logical_and(a, b).astype(np.int64) if _is_array(a, b) else int(bool(a) and bool(b))


def _ceil_div(a: Value, b: Value) -> Value:
    return -(-a // b)


def _smaller(a: Value, b: Value) -> Value:
    return np.minimum(a, b) if _is_array(a, b) else min(a, b)


def _larger(a: Value, b: Value) -> Value:
    return np.maximum(a, b) if _is_array(a, b) else max(a, b)


def _compared(compare: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    value = compare(a, b)
    return value.astype(np.int64) if isinstance(value, np.ndarray) else int(value)


def _is_array(a: Value, b: Value) -> bool:
    return isinstance(a, np.ndarray) or isinstance(b, np.ndarray)


OPERATIONS: dict[str, Callable[[Value, Value], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "ceil_div": _ceil_div,
    "min": _smaller,
    "max": _larger,
    "<": partial(_compared, operator.lt),
    "<=": partial(_compared, operator.le),
    "==": partial(_compared, operator.eq),
    "!=": partial(_compared, operator.ne),
    "and": _both_and,
}
"""Named functions, so that code that contains them can be pickled (`common.straight_line`)."""


def expr(value: object) -> Expr:
    """Return `value` (an int or an expression) as an expression."""
    if isinstance(value, (int, np.integer)):
        return _CONSTANTS.get(int(value)) or Const(int(value))
    if isinstance(value, (Const, Var, BinaryExpr)):
        return value
    raise ProgramError(f"{value!r} is neither an integer nor an integer expression")


def binary(op: str, left: object, right: object) -> Expr:
    """Build `left op right`, folding constants and the neutral elements."""
    # Called hundreds of thousands of times per search, mostly for known expressions.
    a = left if isinstance(left, (BinaryExpr, Var, Const)) else expr(left)
    b = right if isinstance(right, (BinaryExpr, Var, Const)) else expr(right)
    key = op, id(a), id(b)
    known = _BUILT.get(key)  # the table keeps its keys' objects alive
    if known is not None:
        return known[2]
    if len(_BUILT) >= _MOST_BUILT:
        _BUILT.clear()
    found = _folded(op, a, b) or _simplify(op, a, b) or BinaryExpr(op, a, b)
    _BUILT[key] = a, b, found
    return found


def _folded(op: str, a: Expr, b: Expr) -> Expr | None:
    """The result of an operation on constants, else None; ProgramError for a division by zero."""
    if not (isinstance(a, Const) and isinstance(b, Const)):
        return None
    if op in ("//", "%", "ceil_div") and b.value == 0:
        raise ProgramError(f"division by zero in {a} {op} {b}")
    return Const(int(OPERATIONS[op](a.value, b.value)))


_BUILT: dict[tuple[str, int, int], tuple[Expr, Expr, Expr]] = {}
"""The result for each pair of operands, so that equal expressions are one object and look-ups
compare by identity. It keeps the operands alive, so that their ids are not reused.
"""
_MOST_BUILT = 1_000_000
_MOST_KEPT = 1 << 16
"""Cached results of each other function of expressions."""


def _simplify(op: str, a: Expr, b: Expr) -> Expr | None:
    zero, one = _ZERO, _ONE
    match op:
        case "+":
            return b if a is zero else a if b is zero else _less(a, b) or _gathered(a, b, 1)
        case "-":
            return a if b is zero else zero if a == b else _gathered(a, b, -1)
        case "*":
            if a is zero or b is zero:
                return zero
            return b if a is one else a if b is one else None
        case "//" | "ceil_div":
            return a if b is one else one if a == b else None
        case "%":
            return zero if b is one else None
        case "min" | "max":
            return a if a == b else None
        case "and":
            if a is zero or b is zero:
                return zero
            kept = b if a is one else a if b is one else None
            return kept if kept and _is_condition(kept) else None
        case _:
            return None


def _less(a: Expr, b: Expr) -> Expr | None:
    """`a + b` as a difference if `b` has a negative factor, else None."""
    match b:
        case BinaryExpr("*", x, Const(value)) if value < 0:
            return binary("-", a, binary("*", x, -value))
        case _:
            return None


def _gathered(a: Expr, b: Expr, sign: int) -> Expr | None:
    """`a + sign * b` with the constants at the ends of both sums combined; None if that changes
    nothing.

    >>> x = Var("x")
    >>> str(x + 3 - 1), str(1 + (x - 2)), str(x - 1 + 1)
    ('x + 2', 'x - 1', 'x')
    """
    (left, c), (right, d) = constant_apart(a), constant_apart(b)
    if d == 0 or (c == 0 and d > 0):
        return None
    constant = c + sign * d
    kept = binary("+" if sign > 0 else "-", left, right)
    return binary("-" if constant < 0 else "+", kept, abs(constant))


def constant_apart(e: Expr) -> tuple[Expr, int]:
    """A sum without its last constant, and that constant, 0 if there is none."""
    match e:
        case Const(value):
            return _ZERO, value
        case BinaryExpr("+", a, Const(value)):
            return a, value
        case BinaryExpr("-", a, Const(value)):
            return a, -value
        case _:
            return e, 0


def _is_condition(e: Expr) -> bool:
    """True if `e` can only be 0 or 1; only then `1 and e` equals `e`."""
    return isinstance(e, BinaryExpr) and _PRECEDENCE.get(e.op, 3) <= 2


def ceil_div(a: IntLike, b: IntLike) -> Expr:
    """The smallest integer not below a / b."""
    return binary("ceil_div", a, b)


def minimum(a: IntLike, b: IntLike) -> Expr:
    """The smaller of `a` and `b`."""
    return binary("min", a, b)


def maximum(a: IntLike, b: IntLike) -> Expr:
    """The larger of `a` and `b`."""
    return binary("max", a, b)


def round_up(a: IntLike, multiple: IntLike) -> Expr:
    """The smallest multiple of `multiple` not below `a`."""
    return ceil_div(a, multiple) * multiple


def product(values: Iterable[IntLike]) -> Expr:
    """The product of integers and expressions."""
    result: Expr = _ONE
    for value in values:
        result = binary("*", result, value)
    return result


def total(values: Iterable[IntLike]) -> Expr:
    """The sum of integers and expressions."""
    result: Expr = _ZERO
    for value in values:
        result = binary("+", result, value)
    return result


def all_of(conditions: Iterable[Expr]) -> Expr:
    """1 if every condition holds, also if there are none; else 0."""
    result: Expr = _ONE
    for condition in conditions:
        result = binary("and", result, condition)
    return result


class Values(dict[str, Value]):
    """Values of symbols, and of the expressions that were evaluated under them: many programs ask
    for the same ones.
    """

    def __init__(self, symbols: Mapping[str, Value]) -> None:
        super().__init__(symbols)
        self.found: dict[Expr, Value] = {}


def evaluate(e: Expr, env: Mapping[str, Value]) -> Value:
    """Value of `e` under `env`: an int, or an array where any symbol is bound to an array.

    Raises ProgramError for a symbol that `env` lacks and for a division by an int that is zero.
    """
    # Called millions of times per search: testing exact classes is twice as fast as `match`, and
    # half of all nodes are leaves, which need no call.
    if type(e) is BinaryExpr:
        if type(env) is Values and e in env.found:
            return env.found[e]
        a, b = e.a, e.b
        try:
            left = (
                a.value if type(a) is Const else env[a.name] if type(a) is Var else evaluate(a, env)
            )
            right = (
                b.value if type(b) is Const else env[b.name] if type(b) is Var else evaluate(b, env)
            )
            found = OPERATIONS[e.op](left, right)
        except ZeroDivisionError:
            raise ProgramError(f"division by zero in {e}") from None
        except KeyError as missing:
            raise ProgramError(f"symbol {missing.args[0]!r} has no value") from None
        if type(env) is Values:
            env.found[e] = found
        return found
    if type(e) is Const:
        return e.value
    try:
        return env[e.name]
    except KeyError:
        raise ProgramError(f"symbol {e.name!r} has no value") from None


def substitute(e: Expr, bindings: Mapping[str, IntLike]) -> Expr:
    """`e` with symbols replaced; constants fold."""
    if e.symbols.isdisjoint(bindings):
        return e
    return _substituted(e, frozenset(bindings.items()))


# Structures of one nest repeat most substitutions.
@lru_cache(maxsize=_MOST_KEPT)
def _substituted(e: Expr, bindings: frozenset[tuple[str, IntLike]]) -> Expr:
    return substitution(dict(bindings))(e)


def substitution(bindings: Mapping[str, IntLike]) -> Callable[[Expr], Expr]:
    """`substitute` with fixed bindings for many expressions; shared parts are replaced once."""
    known: dict[int, tuple[Expr, Expr]] = {}  # by id; the expression is kept alive

    def replaced(e: Expr) -> Expr:
        if e.symbols.isdisjoint(bindings):
            return e
        own = known.get(id(e))
        if own is not None:
            return own[1]
        match e:
            case BinaryExpr(op, a, b):
                left, right = replaced(a), replaced(b)
                found = e if left is a and right is b else binary(op, left, right)
            case Var(name):
                found = expr(bindings[name])
            case Const():
                found = e
            case _:
                assert_never(e)
        known[id(e)] = e, found
        return found

    return replaced


def coefficient(e: Expr, name: str) -> Expr:
    """The factor of symbol `name` in `e`; raises ProgramError unless `e` is linear in it.

    >>> str(coefficient(Var("rid") * 4 + (Var("row") * 2 + 1) * Var("stride"), "row"))
    '2 * stride'
    """
    if name not in free_vars(e):
        return _ZERO
    match e:
        case Var():
            return _ONE
        case BinaryExpr("+", a, b):
            return coefficient(a, name) + coefficient(b, name)
        case BinaryExpr("-", a, b):
            return coefficient(a, name) - coefficient(b, name)
        case BinaryExpr("*", a, b) if name not in free_vars(b):
            return coefficient(a, name) * b
        case BinaryExpr("*", a, b) if name not in free_vars(a):
            return a * coefficient(b, name)
        case _:
            raise ProgramError(f"{e} is not linear in {name}")


@lru_cache(maxsize=_MOST_KEPT)
def period(e: Expr, name: str) -> int:
    """Period of an expression's remainders in a variable: their moduli's least common multiple."""
    match e:
        case BinaryExpr("%", Var(own), Const(value)) if own == name:
            return value
        case BinaryExpr(_, a, b):
            return lcm(period(a, name), period(b, name))
        case _:
            return 1


def free_vars(e: Expr) -> frozenset[str]:
    """Names of the symbols in `e`."""
    return e.symbols
