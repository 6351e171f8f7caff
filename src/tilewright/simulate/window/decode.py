"""Instructions as the window executor takes them: registers, units and spans looked up once.

In: checked instructions of one table, meanings and parameters of its operations. Out: a tuple of
`DecodedInstruction`s. Expressions become functions of the operands' values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tilewright.common.errors import SimulationError
from tilewright.common.expr import OPERATIONS, BinaryExpr, Const, Expr, Var, free_vars
from tilewright.common.expr_parser import parse_expr
from tilewright.isa import Effect, Instruction, Memory, Register, SymbolReference
from tilewright.simulate.window.operations import Meaning

# Integer effects on one register, and conditions of branches, as functions of Python integers.
#
# The instruction-level simulator has the same meanings compiled (`simulate.units.execute`); a
# test holds the two together. Registers are 64 bits wide, `word` effects wrap to 32 and
# sign-extend.

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
"""Operands that hold the address to which a branch goes."""


_KNOWN = frozenset({Effect.NO_OPERATION, Effect.HALT, Effect.OPERATION, *SCALARS, *TAKEN})
"""Effects that cores with a window compute."""


@dataclass(frozen=True, slots=True)
class SpanStep:
    """A span whose place is computed from the operands."""

    memory: str
    address: Function
    count: Function
    writes: bool


@dataclass(frozen=True, slots=True)
class DecodedInstruction:
    """One instruction. `operands` pairs each role with a register, or with None and a number.

    `cycles` is there for operations that take a slot of the window. `compute` is there for what
    computes one register from others, `meaning` for operations, `taken` for branches. One that is
    taken goes to the instruction `target`, or to the address in the operand `target_role`.
    """

    instruction: Instruction
    number: int
    units: tuple[str, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    operands: tuple[tuple[str, int | None, int], ...]
    spans: tuple[SpanStep, ...]
    cycles: Function | None
    compute: Scalar | None
    meaning: Meaning | None
    taken: Callable[[int], bool] | None
    target: int
    target_role: str
    halts: bool

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

    Errors: SimulationError, for every other effect that cores with a window lack too.
    """
    return tuple(
        _step(instruction, number, meanings, parameters, _KNOWN | timed)
        for number, instruction in enumerate(instructions)
    )


def _step(
    instruction: Instruction,
    number: int,
    meanings: Mapping[str, Meaning],
    parameters: Mapping[str, float],
    known: frozenset[Effect],
) -> DecodedInstruction:
    spec = instruction.spec
    if spec.operation and spec.operation not in meanings:
        raise SimulationError(
            f"the operation '{spec.operation}' has no meaning", where=instruction.text()
        )
    if spec.effect not in known:
        raise SimulationError(f"{instruction.text()}: cores with a window have no {spec.effect}")
    target = instruction.target
    return DecodedInstruction(
        instruction=instruction,
        number=number,
        units=spec.units,
        reads=instruction.reads,
        writes=instruction.writes,
        operands=tuple(_operands(instruction)),
        spans=tuple(
            SpanStep(
                span.memory,
                function_of(parsed(span.address)),
                function_of(parsed(span.count)),
                span.access == "write",
            )
            for span in spec.spans
        ),
        cycles=_cycles(spec.cycles, parameters) if spec.cycles else None,
        compute=SCALARS.get(spec.effect),
        meaning=meanings.get(spec.operation),
        taken=TAKEN.get(spec.effect),
        target=number + 1 + target if isinstance(target, int) else number + 1,
        target_role=_TARGET_ROLES.get(spec.effect, ""),
        halts=spec.effect is Effect.HALT,
    )


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
    """The cycles of operands; sizes recur, so each is computed once. Errors: SimulationError."""
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
"""The expression of a text; those of a table recur in every instruction."""


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
