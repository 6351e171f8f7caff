"""Statements of DLA-AL under construction: registers for expressions, loops, conditions.

In: integer expressions over loop variables. Out: lines of text. A value is computed once, as far
outside as its loop variables permit while registers are plenty, and keeps its register until its
scope ends. Registers are reused in rotation, so that statements can be reordered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    BinaryExpr,
    Const,
    Expr,
    Var,
    binary,
    constant_apart,
    free_vars,
    substitute,
)
from tilewright.common.intervals import Interval, interval
from tilewright.targets.cambricon.emit.places import added, short

REGISTERS = 64
_PLENTY = 12
"""Free registers above which values are computed outside all loops they do not depend on."""
_SOME = 6
"""Free registers above which values are computed outside the innermost loop."""
_MANY = 24
"""Free registers above which a loop keeps moving places in registers."""
_IN_TURN = 12
"""Free registers used before one that was just released."""
_IN_FLIGHT = 2
"""Operations in flight while addresses are computed."""
_PLAYED = 3
"""Turns of a loop after which the spacing of operations is steady."""
_VECTOR_CYCLES = 6
_UNITS = {
    **dict.fromkeys(("vload", "mload", "vstore", "mstore"), ("transfer", 100)),
    **dict.fromkeys(("mmv", "vmm", "op"), ("matrix", 300)),
}
"""Unit and approximate cycles of operations; others use the vector unit."""
_INDENT = "  "
_SCALARS = frozenset(("smove", "sadd", "ssub", "smul", "sdiv", "sand", "se", "sgt"))
_STATEMENTS = {"+": "sadd", "-": "ssub", "*": "smul", "//": "sdiv", "==": "se", "and": "smul"}


_Moving = tuple[Expr, Expr, int | Expr]
"""A number that moves in a loop; its first value; its stride or two successive values' sum."""


@dataclass
class _Scope:
    """Statements of a loop or branch, the variables that change inside it, the registers that end
    with it, and the registers its statements write and read. `moving` maps sums without their
    constant to a register that holds them plus a given constant.
    """

    variables: frozenset[str]
    lines: list[str] = field(default_factory=list)
    values: dict[Expr, str] = field(default_factory=dict)
    owned: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    is_statement: bool = False
    is_loop: bool = False
    moving: dict[Expr, tuple[Expr, int]] = field(default_factory=dict)


@dataclass
class ProgramText:
    """The text of a program, statement by statement, with labels that start with `prefix`. If
    `frugal`, it keeps fewer values in registers, for statements that need many.
    """

    prefix: str = ".L"
    frugal: bool = False
    bounds: dict[str, Interval] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)
    _scopes: list[_Scope] = field(default_factory=lambda: [_Scope(frozenset())])
    _free: list[str] = field(
        default_factory=lambda: [f"${number}" for number in reversed(range(REGISTERS))]
    )
    _labels: int = 0
    _pointers: int = 0
    _used: set[str] = field(default_factory=set)

    # ---------------------------------------------------------------- text

    def write(self, mnemonic: str, *operands: str) -> None:
        """Append a statement."""
        self._line(f"{mnemonic} {', '.join(operands)}")

    def comment(self, text: str) -> None:
        """Append a comment."""
        self._line(f"; {text}")

    def lines(self) -> tuple[str, ...]:
        """All statements."""
        (whole,) = self._scopes
        return tuple(_spread_scalars(whole.lines))

    def _line(self, text: str, depth: int = -1) -> None:
        self._scopes[depth].lines.append(_INDENT + text)

    def _pointer(self) -> Var:
        """A variable for a moving place."""
        self._pointers += 1
        return Var(f"pointer {self._pointers}")

    def _label(self) -> str:
        self._labels += 1
        return f"{self.prefix}{self._labels - 1}"

    # ---------------------------------------------------------------- values

    def constant(self, e: Expr) -> int | None:
        """The value of an expression that is constant in the current scope, else None."""
        low, high = interval(substitute(e, self._known), self.bounds)
        return low if low == high else None

    def folded(self, e: Expr) -> Expr:
        """The expression with its constant parts replaced by their values."""
        known = self.constant(e)
        if known is not None:
            return Const(known)
        return short(e.op, self.folded(e.a), self.folded(e.b)) if isinstance(e, BinaryExpr) else e

    def register(self, e: Expr) -> str:
        """A register with the value of an expression, for the current instruction."""
        register, _ = self._valued(self.folded(e))
        self._used.add(register)
        self._note_read(register, len(self._scopes))
        return register

    def _valued(self, e: Expr) -> tuple[str, int]:
        """The register of a value, and the scope that computes it."""
        for depth, scope in enumerate(self._scopes):
            if e in scope.values:
                return scope.values[e], depth
        plain = self._near(_plain(e))
        if plain != e:
            return self._valued(plain)
        used = {*self._used}
        operands, depth = self._operands(e)
        register, depth = self._take(max(depth, self._depth(e)))
        for line in _computed(e, register, operands):
            self._line(line, depth)
        self._scopes[depth].values[e] = register
        self._used = used
        for operand in operands:
            self._note_read(operand, depth + 1)
        return register, depth

    def _near(self, e: Expr) -> Expr:
        """The expression relative to a moving place from which it differs by a constant."""
        part, more = constant_apart(e)
        for scope in self._scopes:
            if part in scope.moving:
                place, own = scope.moving[part]
                return added(place, more - own)
        return e

    def begin(self) -> None:
        """Start an instruction, which uses no register of the previous one."""
        self._used.clear()

    def _note_read(self, register: str, scopes: int) -> None:
        """Record that a statement inside the outer `scopes` scopes reads a register."""
        for scope in self._scopes[:scopes]:
            scope.read.add(register)

    def _operands(self, e: Expr) -> tuple[tuple[str, ...], int]:
        """Registers or immediates of an expression's operands, and their innermost scope."""
        if not isinstance(e, BinaryExpr):
            return (), 0
        immediate = e.a if e.op == "<" else e.b
        found, depth = [], 0
        for operand in (e.a, e.b):
            if operand is immediate and isinstance(operand, Const):
                found.append(f"#{operand.value}")
                continue
            register, own = self._valued(operand)
            self._used.add(register)
            found.append(register)
            depth = max(depth, own)
        return tuple(found), depth

    def _depth(self, e: Expr) -> int:
        """The best scope in which to compute a value."""
        if len(self._free) < (_PLENTY if self.frugal else _SOME):
            return len(self._scopes) - 1
        names = free_vars(e)
        depth = max((d for d, s in enumerate(self._scopes) if s.variables & names), default=0)
        if len(self._free) < _PLENTY:
            inmost = max((d for d, s in enumerate(self._scopes) if s.is_loop), default=0)
            depth = max(depth, inmost - 1)
        return depth

    def _take(self, depth: int) -> tuple[str, int]:
        """Take a free register for a value in a scope, or in an inner one if there is none.

        Statements already written inside that scope come after the value and must not use the
        register.
        """
        if not self._free:
            self._forget()
        for at in range(depth, len(self._scopes)):
            inside = set[str]().union(*(s.written for s in self._scopes[at:][1:]))
            register = next((r for r in reversed(self._free) if r not in inside), None)
            if register is not None:
                self._free.remove(register)
                self._scopes[at].owned.append(register)
                for scope in self._scopes:
                    scope.written.add(register)
                return register, at
        raise ProgramError(
            f"an address takes more than the {REGISTERS} registers of the core",
            fix="another schedule",
        )

    def _forget(self) -> None:
        """Free the registers of values that the current instruction does not use, in the innermost
        loop or branch that has any; they are recomputed when needed. A value of an outer loop is
        kept if inner loops have read it, since they will in their next turn.
        """
        inside = set[str](self._used)
        for scope in reversed(self._scopes):
            self._forget_in(scope, inside, REGISTERS)
            if self._free:
                return
            if not scope.is_statement:
                inside |= scope.read

    def _forget_in(self, scope: _Scope, used: Collection[str], enough: int) -> None:
        """Free registers of a scope's values that are not `used`, oldest first, until `enough` are
        free.
        """
        for e, register in list(scope.values.items()):
            if len(self._free) >= enough:
                return
            if register in scope.owned and register not in used:
                del scope.values[e]
                scope.owned.remove(register)
                self._free.append(register)

    def _end(self, scope: _Scope, values: Iterable[Expr]) -> None:
        """Forget values of a scope and release their registers."""
        registers = [scope.values.pop(e) for e in sorted(values, key=str)]
        own = [r for r in registers if r in scope.owned]
        scope.owned = [r for r in scope.owned if r not in own]
        self._release(own)

    def _release(self, registers: Sequence[str]) -> None:
        """Return registers to the end of the free list."""
        place = max(0, len(self._free) - _IN_TURN)
        self._free[place:place] = registers

    def _inmost(self) -> str:
        return self._take(len(self._scopes) - 1)[0]

    # ---------------------------------------------------------------- scopes

    @contextmanager
    def loop(
        self,
        variable: str,
        low: int,
        high: int,
        places: Callable[[], Iterable[tuple[Expr, int | Expr]]] = tuple,
        *,
        used: bool = True,
        alone: bool = False,
    ) -> Iterator[None]:
        """Execute the statements written inside for `variable` = low .. high - 1; `used` is False
        if they are the same in every turn. `places` that move with the variable (`places.moved`)
        stay in registers, advanced by one statement per turn, while registers are plenty. With
        `alone`, values that a single turn computes just outside the loop end with it if registers
        are few.
        """
        if high - low == 1:
            self._known[variable], self.bounds[variable] = low, (low, low)
            around, before = self._scopes[-1], {*self._scopes[-1].values}
            scope = _Scope(frozenset())
            self._scopes.append(scope)
            yield
            self._close()
            around.lines += scope.lines
            if alone and len(self._free) < _MANY:
                self._end(around, around.values.keys() - before)
            del self._known[variable], self.bounds[variable]
            return
        self.bounds[variable] = (low, high - 1)
        moving: list[_Moving] = [(Var(variable), Const(low), 1)] if used else []
        enough = _MANY if alone or self.frugal else _PLENTY
        self._forget_in(self._scopes[-1], set(), enough)
        if len(self._free) >= enough:
            for e, move in places():
                moving.append((e, self.folded(substitute(e, {variable: low})), move))
        with self._turns(high - low, moving):
            yield
        del self.bounds[variable]

    @contextmanager
    def turns(
        self, count: int, starts: Sequence[Expr], strides: Sequence[int]
    ) -> Iterator[tuple[Expr, ...]]:
        """Execute the statements written inside `count` times, with places that advance by their
        strides; yields the places. Values that all turns share are computed first.
        """
        found, moving = list(starts), list[_Moving]()
        for number, (start, stride) in enumerate(zip(starts, strides, strict=True)):
            if not stride:
                self.register(start)
            else:
                found[number] = self._pointer()
                moving.append((found[number], start, stride))
        with self._turns(count, moving):
            yield tuple(found)

    @contextmanager
    def _turns(self, count: int, moving: Sequence[_Moving]) -> Iterator[None]:
        """A loop, with registers for the numbers that move in it."""
        values = [self.register(start) for _, start, _ in moving]
        sums = {i: self.register(m) for i, (*_, m) in enumerate(moving) if not isinstance(m, int)}
        registers = [self._inmost() for _ in moving]
        first = len(self._scopes[-1].lines)
        counter, label = self._inmost(), self._label()
        self.write("smove", counter, f"#{count}")
        variables = frozenset(e.name for e, _, _ in moving if isinstance(e, Var))
        scope = _Scope(variables, is_loop=True)
        scope.values |= {v: r for (v, _, _), r in zip(moving, registers, strict=True)}
        scope.read |= {*sums.values()}
        for (e, _, _), r in zip(moving, registers, strict=True):
            if not isinstance(e, Var):
                (part, own), place = constant_apart(e), self._pointer()
                scope.values[place] = r
                scope.variables |= {place.name}
                scope.moving[part] = place, own
        self._scopes.append(scope)
        yield
        self._close()
        lines = self._scopes[-1].lines
        lines[first:first] = [
            f"{_INDENT}smove {r}, {value}"
            for r, value in zip(registers, values, strict=True)
            if r in scope.read
        ]
        lines.append(f"{label}:")
        moves = [
            f"ssub {r}, {sums[i]}, {r}" if i in sums else f"sadd {r}, {r}, #{moving[i][-1]}"
            for i, r in enumerate(registers)
            if r in scope.read
        ]
        turn = [
            *scope.lines,
            *(_INDENT + move for move in (*moves, f"ssub {counter}, {counter}, #1")),
        ]
        lines += [_INDENT + line for line in _spread_scalars(turn)]
        self._line(f"{_INDENT}cb {counter}, {label}")
        for register in (counter, *registers):
            self._scopes[-1].owned.remove(register)
            self._release([register])

    @contextmanager
    def statement(self) -> Iterator[None]:
        """One instruction; registers computed inside end with it."""
        scope = _Scope(frozenset(), is_statement=True)
        self._scopes.append(scope)
        self.begin()
        yield
        self._close()
        self._scopes[-1].lines += scope.lines

    def choice(self, condition: str, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """Write a branch: the first function's statements if the register is positive."""
        yes, no = _Scope(frozenset()), _Scope(frozenset())
        for scope, write in ((yes, then), (no, orelse)):
            no.written |= yes.written
            self._scopes.append(scope)
            write()
            self._close()
        self._write_both_branches(condition, yes.lines, no.lines)

    def _close(self) -> None:
        scope = self._scopes.pop()
        self._release(scope.owned)

    def _write_both_branches(
        self, condition: str, then: Sequence[str], orelse: Sequence[str]
    ) -> None:
        yes, end = self._label(), self._label()
        self.write("cb", condition, yes)
        lines = self._scopes[-1].lines
        lines += [_INDENT + line for line in orelse]
        self.write("jump", end)
        lines.append(f"{yes}:")
        lines += [_INDENT + line for line in then]
        lines.append(f"{end}:")


def _spread_scalars(lines: Sequence[str]) -> list[str]:
    """A loop turn with its scalar statements spread among the operations between branch targets, as
    far as their registers permit, so that addresses are computed while operations are in flight.
    Inner loops are already spread.
    """
    found: list[str] = []
    straight: list[str] = []
    ends = {line.split()[-1]: i for i, line in enumerate(lines) if line.split()[0] == "cb"}
    inside = -1
    for number, line in enumerate(lines):
        if number <= inside:
            found.append(line)
        elif _is_branch(line):
            found += [*_spread(straight, is_turn=False), line]
            straight, inside = [], ends.get(line.strip().rstrip(":"), -1)
        else:
            straight.append(line)
    return found + _spread(straight, is_turn=not found)


def _spread(lines: Sequence[str], *, is_turn: bool) -> list[str]:
    """Straight-line code with scalar statements placed where operations wait to issue."""
    words = [line.replace(",", " ").split() for line in lines]
    operations = [i for i, w in enumerate(words) if not _is_scalar(w) and w[0][0] != ";"]
    scalars = [i for i, w in enumerate(words) if _is_scalar(w)]
    if not operations or not scalars:
        return list(lines)
    earliest, latest = _gaps(words, operations)
    weights = _evened(_waits([words[i][0] for i in operations], is_turn=is_turn), len(scalars))
    left, found, first = scalars, list[str](), 0
    for gap, weight in enumerate(weights):
        share = -(-len(left) * weight // max(1, sum(weights[gap:])))
        ready = sorted((latest[i], i) for i in left if earliest[i] <= gap)
        here = {i for n, (last, i) in enumerate(ready) if last <= gap or n < share}
        found += [lines[i] for i in left if i in here]
        left = [i for i in left if i not in here]
        end = operations[gap] + 1 if gap < len(operations) else len(lines)
        found += [lines[i] for i in range(first, end) if not _is_scalar(words[i])]
        first = end
    return found


def _gaps(
    words: Sequence[Sequence[str]], operations: Sequence[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The earliest and the latest gap of each scalar statement, by its number; gap i is before
    operation i, the last gap after all.
    """
    earliest, latest = dict[int, int](), dict[int, int]()
    scalars = [i for i, w in enumerate(words) if _is_scalar(w)]
    for i in scalars:
        used = [n + 1 for n, o in enumerate(operations) if o < i and words[i][1] in words[o]]
        before = (earliest[j] for j in scalars if j < i and _meet(words[j], words[i]))
        earliest[i] = max((*used, *before), default=0)
    for i in reversed(scalars):
        used = [n for n, o in enumerate(operations) if o > i and words[i][1] in words[o]]
        behind = (latest[j] for j in scalars if j > i and _meet(words[i], words[j]))
        latest[i] = min((*used, *behind), default=len(operations))
    return earliest, latest


def _meet(first: Sequence[str], second: Sequence[str]) -> bool:
    """True if one of two scalar statements writes a register that the other names."""
    return first[1] in second[1:] or second[1] in first[1:]


def _waits(mnemonics: Sequence[str], *, is_turn: bool) -> list[int]:
    """Approximate cycles that each operation waits to issue after the previous one, plus one entry
    after all; for turns in steady state.
    """
    issued, free, freed, waits = 0, dict[str, int](), [0] * _IN_FLIGHT, list[int]()
    turns = _PLAYED if is_turn else 1
    for mnemonic in (*(list(mnemonics) * turns), mnemonics[0]):
        unit, cycles = _UNITS.get(mnemonic, ("vector", _VECTOR_CYCLES))
        before, issued = issued, max(issued, freed[-_IN_FLIGHT])
        free[unit] = max(issued, free.get(unit, 0)) + cycles
        freed.append(max(freed[-1], free[unit]))
        waits.append(issued - before)
    return waits[-len(mnemonics) - 1 :]


def _evened(waits: Sequence[int], statements: int) -> list[int]:
    """The waits capped so that together they hold no more than `statements`, spread evenly: a first
    turn does not have all the waits of later ones.
    """
    most = next((n for n in range(statements) if sum(min(w, n) for w in waits) >= statements), None)
    return list(waits) if most is None else [min(wait, most) for wait in waits]


def _is_scalar(words: Sequence[str]) -> bool:
    return words[0] in _SCALARS


def _is_branch(line: str) -> bool:
    return line.endswith(":") or line.split()[0] in ("cb", "jump")


def _computed(e: Expr, register: str, operands: tuple[str, ...]) -> tuple[str, ...]:
    """The statements that compute a value into a register."""
    match e:
        case Const(value):
            return (f"smove {register}, #{value}",)
        case BinaryExpr("<"):
            return (f"sgt {register}, {operands[1]}, {operands[0]}",)
        case BinaryExpr("%", _, Const(modulus)) if modulus & (modulus - 1) == 0:
            return (f"sand {register}, {operands[0]}, #{modulus - 1}",)
        case BinaryExpr("%"):
            a, b = operands
            whole = f"sdiv {register}, {a}, {b}", f"smul {register}, {register}, {b}"
            return (*whole, f"ssub {register}, {a}, {register}")
        case BinaryExpr(op) if op in _STATEMENTS:
            return (f"{_STATEMENTS[op]} {register}, {', '.join(operands)}",)
        case _:
            raise ProgramError(f"{e} has no value where code is generated")


def _plain(e: Expr) -> Expr:
    """The expression in terms of operations that are statements."""
    match e:
        case BinaryExpr("min", a, b):
            return a - binary("<", b, a) * (a - b)
        case BinaryExpr("max", a, b):
            return a + binary("<", a, b) * (b - a)
        case BinaryExpr("ceil_div", a, b):
            return (a + b - 1) // b
        case BinaryExpr("<=", a, b):
            return binary("==", binary("<", b, a), 0)
        case BinaryExpr("!=", a, b):
            return binary("==", binary("==", a, b), 0)
        case _:
            return e
