"""Decode instructions for the window executor: registers, units and spans are looked up once.

In: checked instructions of one table, meanings and parameters of its operations. Out: a tuple of
`DecodedInstruction`s, with expressions as functions of operand values; and their encoding as arrays
for the compiled executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct

from tilewright.common.errors import SimulationError
from tilewright.common.expr import OPERATIONS, BinaryExpr, Const, Expr, Var, free_vars
from tilewright.common.expr_parser import parse_expr
from tilewright.isa import Effect, Instruction, Memory, Operand, Register, SymbolReference
from tilewright.simulate.window.run import Meaning
from tilewright.simulate.window.state import READS, SPAN_COUNT, WRITES, Code, Ints

# Integer effects on one register, and conditions of branches, as functions of Python integers.
#
# The instruction-level simulator compiles the same meanings (`simulate.units.execute`); a test
# compares the two. Registers are 64 bits wide; `word` effects wrap to 32 bits and sign-extend.

Scalar = Callable[[Mapping[str, int]], int]


def _wrapped(value: int, bits: int = 64) -> int:
    """The low bits as a signed integer."""
    half = 1 << bits - 1
    return (value + half & (1 << bits) - 1) - half


def _word(value: int) -> int:
    """The low 32 bits as a signed integer."""
    return _wrapped(value, 32)


SCALARS: Mapping[Effect, Scalar] = {
    Effect.INT_ADD: lambda v: _wrapped(v["a"] + v["b"]),
    Effect.INT_ADD_WORD: lambda v: _word(v["a"] + v["b"]),
    Effect.INT_SUBTRACT: lambda v: _wrapped(v["a"] - v["b"]),
    Effect.INT_SUBTRACT_WORD: lambda v: _word(v["a"] - v["b"]),
    Effect.INT_SCALE4_ADD: lambda v: _wrapped(4 * v["a"] + v["b"]),
    Effect.INT_SCALE8_ADD: lambda v: _wrapped(8 * v["a"] + v["b"]),
    Effect.INT_MULTIPLY: lambda v: _wrapped(v["a"] * v["b"]),
    Effect.INT_MULTIPLY_WORD: lambda v: _word(v["a"] * v["b"]),
    Effect.INT_AND: lambda v: v["a"] & v["b"],
    Effect.INT_OR: lambda v: v["a"] | v["b"],
    Effect.INT_XOR: lambda v: v["a"] ^ v["b"],
    Effect.COMPARE_EQUAL: lambda v: int(v["a"] == v["b"]),
    Effect.COMPARE_LESS: lambda v: int(v["a"] < v["b"]),
    Effect.COMPARE_LESS_EQUAL: lambda v: int(v["a"] <= v["b"]),
    Effect.ADDRESS: lambda v: _wrapped(v["b"] + v["displacement"]),
}

TAKEN: Mapping[Effect, Callable[[int], bool]] = {
    Effect.BRANCH_ALWAYS: lambda _: True,
    Effect.BRANCH_EQUAL: lambda a: a == 0,
    Effect.BRANCH_NOT_EQUAL: lambda a: a != 0,
    Effect.BRANCH_LESS: lambda a: a < 0,
    Effect.BRANCH_LESS_EQUAL: lambda a: a <= 0,
    Effect.BRANCH_GREATER: lambda a: a > 0,
    Effect.BRANCH_GREATER_EQUAL: lambda a: a >= 0,
    Effect.BRANCH_RETURN: lambda _: True,
    Effect.BRANCH_GREATER_REGISTER: lambda a: a > 0,
}


Values = Mapping[str, float]
Function = Callable[[Values], float]
_TARGET_ROLES = {Effect.BRANCH_RETURN: "a", Effect.BRANCH_GREATER_REGISTER: "b"}
"""Roles of operands that hold a branch's target address."""


_KNOWN = frozenset({Effect.NO_OPERATION, Effect.HALT, Effect.OPERATION, *SCALARS, *TAKEN})
"""Effects that the window executor computes."""


@dataclass(frozen=True, slots=True)
class SpanStep:
    """A span whose address and count are computed from the operands."""

    memory: str
    address: Function
    count: Function
    writes: bool


class DecodedInstruction(Struct, frozen=True):
    """One instruction. `operands` holds (role, register, 0), or (role, None, number), for each.

    `cycles` is set for operations that occupy a slot of the window, `compute` for effects that
    compute one register from others, `meaning` for operations, `taken` for branches. A taken branch
    goes to instruction `target`, or to the address in the operand `target_role`.
    """

    instruction: Instruction
    number: int
    target: int
    units: tuple[str, ...]
    spans: tuple[SpanStep, ...]
    cycles: Function | None
    compute: Scalar | None
    meaning: Meaning | None
    taken: Callable[[int], bool] | None
    target_role: str
    halts: bool
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    operands: tuple[tuple[str, int | None, int], ...]

    def values(self, registers: Sequence[int]) -> dict[str, int]:
        """The values of the operands by role."""
        return {
            role: number if register is None else registers[register]
            for role, register, number in self.operands
        }


def decode_steps(
    instructions: Sequence[Instruction],
    meanings: Mapping[str, Meaning],
    parameters: Mapping[str, float],
    timed: frozenset[Effect] = frozenset(),
) -> tuple[DecodedInstruction, ...]:
    """The steps of a program without open symbols; `timed` effects are not computed.

    Errors: SimulationError for open symbols, operations without meaning, and unknown effects.
    """
    kinds: dict[int, tuple[Any, ...]] = {}
    named: dict[tuple[int, tuple[Operand, ...]], tuple[Any, ...]] = {}
    found = list[DecodedInstruction]()
    for number, instruction in enumerate(instructions):
        key = id(instruction.spec), instruction.operands
        kind, own = kinds.get(key[0]), named.get(key)
        if kind is None:
            kind = kinds[key[0]] = _of_kind(instruction, meanings, parameters, _KNOWN | timed)
        if own is None:
            own = named[key] = _of_operands(instruction)
        distance, *rest = own
        found.append(DecodedInstruction(instruction, number, number + distance, *kind, *rest))
    return tuple(found)


def _of_kind(
    instruction: Instruction,
    meanings: Mapping[str, Meaning],
    parameters: Mapping[str, float],
    known: frozenset[Effect],
) -> tuple[Any, ...]:
    """The fields that all steps of one kind of instruction share."""
    spec = instruction.spec
    if spec.operation and spec.operation not in meanings:
        raise SimulationError(
            f"the operation '{spec.operation}' has no meaning", where=instruction.text()
        )
    if spec.effect not in known:
        raise SimulationError(f"{instruction.text()}: cores with a window have no {spec.effect}")
    spans = (
        SpanStep(
            span.memory,
            function_of(parsed(span.address)),
            function_of(parsed(span.count)),
            span.access == "write",
        )
        for span in spec.spans
    )
    return (
        spec.units,
        tuple(spans),
        _cycles(spec.cycles, parameters) if spec.cycles else None,
        SCALARS.get(spec.effect),
        meanings.get(spec.operation),
        TAKEN.get(spec.effect),
        _TARGET_ROLES.get(spec.effect, ""),
        spec.effect is Effect.HALT,
    )


def _of_operands(instruction: Instruction) -> tuple[Any, ...]:
    """Fields that equal operands share: branch distance, registers read and written, operands."""
    target = instruction.target
    distance = 1 + target if isinstance(target, int) else 1
    return distance, instruction.reads, instruction.writes, tuple(_operands(instruction))


def _operands(instruction: Instruction) -> list[tuple[str, int | None, int]]:
    found: list[tuple[str, int | None, int]] = []
    for role, operand in instruction.by_role.items():
        match operand:
            case Register(number):
                found.append((role, number, 0))
            case int(value):
                found.append((role, None, value))
            case Memory(int(displacement), base):
                found += [("b", base.number, 0), ("displacement", None, displacement)]
            case SymbolReference() | Memory():
                raise SimulationError(
                    f"{instruction.text()}: a symbol has no value yet", fix="link the object first"
                )
    return found


def _cycles(text: str, parameters: Mapping[str, float]) -> Function:
    """Function from operand values to cycles, memoised as sizes recur. Errors: SimulationError."""
    expression = parsed(text)
    function = function_of(expression)
    sizes = tuple(sorted(free_vars(expression) - set(parameters)))
    known: dict[tuple[float, ...], float] = {}

    def cycles(values: Values) -> float:
        try:
            key = tuple([values[name] for name in sizes])
        except KeyError as error:
            raise SimulationError(f"the machine has no parameter {error}") from error
        found = known.get(key)
        if found is None:
            found = known[key] = max(1, int(function({**parameters, **values})))
        return found

    return cycles


parsed = cache(parse_expr)
"""Parses an expression once per text: those of a table recur in every instruction."""


@cache
def function_of(expression: Expr) -> Function:
    """An expression as a function of its variables."""
    match expression:
        case Const(value):
            return lambda _: value
        case Var(name):
            return lambda values: values[name]
        case BinaryExpr(op, a, b):
            left, right, operation = function_of(a), function_of(b), OPERATIONS[op]
            return lambda values: operation(left(values), right(values))


_SCALARS = (
    Effect.INT_ADD, Effect.INT_ADD_WORD, Effect.INT_SUBTRACT, Effect.INT_SUBTRACT_WORD,
    Effect.INT_MULTIPLY, Effect.INT_MULTIPLY_WORD, Effect.INT_AND, Effect.INT_OR, Effect.INT_XOR,
    Effect.COMPARE_EQUAL, Effect.COMPARE_LESS, Effect.COMPARE_LESS_EQUAL,
)  # fmt: skip
_OPERATIONS = ("move", "quotient", "scalar_not")
"""Operations on registers alone, numbered after `_SCALARS`."""
_BRANCHES = (
    Effect.BRANCH_ALWAYS, Effect.BRANCH_EQUAL, Effect.BRANCH_NOT_EQUAL, Effect.BRANCH_LESS,
    Effect.BRANCH_LESS_EQUAL, Effect.BRANCH_GREATER, Effect.BRANCH_GREATER_EQUAL,
)  # fmt: skip
_BINARY = ("+", "-", "*", "//", "ceil_div", "min", "max")
OPERANDS = 8
"""Most operands of a step."""
_FIRST = {"a": 0, "b": 1}


def ordered(step: DecodedInstruction) -> list[tuple[str, int | None, int]]:
    """The operands of a step, with those of scalar effects, `a` and `b`, first."""
    return sorted(step.operands, key=lambda operand: _FIRST.get(operand[0], len(_FIRST)))


def encoded_steps(
    steps: Sequence[DecodedInstruction],
    units: tuple[str, ...],
    sizes: Mapping[str, int],
    read_only: Sequence[tuple[str, int, int]],
    parameters: Mapping[str, float],
) -> Code | None:
    """The steps as arrays; None if the compiled loop does not know one of them. `sizes` are the
    memories' elements, `read_only` (memory, first, end) of ranges.
    """
    memories = list(sizes)
    codes: list[tuple[int, float]] = []
    kinds: dict[tuple[object, ...], tuple[int, tuple[Any, ...] | None]] = {}
    rows = dict[tuple[int, tuple[Operand, ...]], tuple[int, list[int]]]()
    for step in steps:
        spec = step.instruction.spec
        if (id(spec), step.instruction.operands) in rows:
            continue
        operands = ordered(step)
        key = id(spec), *[role for role, _, _ in operands]
        if key not in kinds:
            kinds[key] = len(kinds), _kind(step, units, memories, parameters, codes)
        number, kind = kinds[key]
        if kind is None or len(step.reads) > READS or len(step.writes) > WRITES:
            return None
        registers = [-1 if register is None else register for _, register, _ in operands]
        rows[id(spec), step.instruction.operands] = len(rows), [
            number, *_padded(step.reads, READS), *_padded(step.writes, WRITES),
            *_padded(registers, OPERANDS), *_padded([n for _, _, n in operands], OPERANDS)
        ]  # fmt: skip
    numbers = [rows[id(s.instruction.spec), s.instruction.operands][0] for s in steps]
    own = np.array([row for _, row in rows.values()], np.int64)[numbers]
    of_kinds = zip(*(kind for _, kind in kinds.values() if kind), strict=True)
    columns: Any = [np.array(column, np.int64)[own[:, 0]] for column in of_kinds]
    places = np.cumsum([1, READS, WRITES, OPERANDS])
    parts: Any = [np.ascontiguousarray(part) for part in np.split(own, places, axis=1)[1:]]
    targets = np.array([step.target for step in steps], np.int64)
    ranges = [(memories.index(memory), first, end) for memory, first, end in read_only]
    rest: Any = (
        np.array([c for c, _ in codes], np.int64),
        np.array([a for _, a in codes], np.float64),
        np.array([sizes[m] for m in memories] or [0], np.int64),
        np.array(ranges, np.int64).reshape(-1, 3),
        _loops(steps),
    )
    return Code._make((*columns, targets, *parts, *rest))


def _loops(steps: Sequence[DecodedInstruction]) -> Ints:
    """The number of the loop that each backward branch closes; -1 for other steps."""
    spec = (step.instruction.spec.effect in _BRANCHES for step in steps)
    closes = np.array(
        [b and step.target <= n for n, (b, step) in enumerate(zip(spec, steps, strict=True))]
    )
    return np.where(closes, np.cumsum(closes) - 1, -1).astype(np.int64)


def _kind(
    step: DecodedInstruction,
    units: tuple[str, ...],
    memories: list[str],
    parameters: Mapping[str, float],
    codes: list[tuple[int, float]],
) -> tuple[Any, ...] | None:
    """The numbers that steps of one kind of instruction share, in the order of `Code`; None if the
    compiled loop does not know it.
    """
    spec, scalar = step.instruction.spec, _scalar_of(step)
    names = tuple(role for role, _, _ in ordered(step))
    branch = _BRANCHES.index(spec.effect) if spec.effect in _BRANCHES else -1
    known_branch = (step.taken is None) == (branch < 0) and not step.target_role
    fits = len(step.units) == 1 and len(names) <= OPERANDS and len(step.spans) <= SPAN_COUNT
    if scalar is None or not known_branch or not fits:
        return None

    def expression(text: str) -> tuple[int, int]:
        begin = len(codes)
        _append(parsed(text), names, parameters, codes)
        return begin, len(codes)

    spans = [
        (memories.index(s.memory), *expression(s.address), *expression(s.count),
         int(s.access == "write"))
        for s in spec.spans
    ]  # fmt: skip
    return (
        units.index(step.units[0]),
        int(step.cycles is not None),
        step.instruction.latency_cycles,
        spec.occupancy_cycles,
        scalar,
        expression(spec.cycles) if spec.cycles else (0, 0),
        spans + [(-1, 0, 0, 0, 0, 0)] * (SPAN_COUNT - len(spans)),
        branch,
        int(step.halts),
    )


def _scalar_of(step: DecodedInstruction) -> int | None:
    """Number of the effect that computes a register; -1 if none does, None if it is unknown."""
    spec = step.instruction.spec
    if step.spans and (step.writes or step.cycles is None):
        return None
    if step.compute is not None:
        return _SCALARS.index(spec.effect) if spec.effect in _SCALARS else None
    if step.meaning is not None and not step.spans:
        known = spec.operation in _OPERATIONS
        return len(_SCALARS) + _OPERATIONS.index(spec.operation) if known else None
    return -1


def _padded(values: Sequence[int], count: int) -> list[int]:
    return [*values, *([-1] * (count - len(values)))]


def _append(
    e: Expr, names: tuple[str, ...], parameters: Mapping[str, float], codes: list[tuple[int, float]]
) -> None:
    """Append an expression's program for the stack machine."""
    match e:
        case Const(value):
            codes.append((0, float(value)))
        case Var(name) if name in names:
            codes.append((1, float(names.index(name))))
        case Var(name):
            codes.append((0, float(parameters[name])))
        case BinaryExpr(op, a, b):
            _append(a, names, parameters, codes)
            _append(b, names, parameters, codes)
            codes.append((2 + _BINARY.index(op), 0.0))
