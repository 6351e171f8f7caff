"""Integer effects on one register, and conditions of branches, as functions of Python integers.

The instruction-level simulator has the same meanings compiled (`simulate.units.execute`); a test
holds the two together. Registers are 64 bits wide, `word` effects wrap to 32 and sign-extend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.isa import Effect

Scalar = Callable[[Mapping[str, int]], int]


def wrapped(value: int, bits: int = 64) -> int:
    """The low bits as a signed integer."""
    half = 1 << bits - 1
    return (value + half & (1 << bits) - 1) - half


def word(value: int) -> int:
    """The low 32 bits as a signed integer."""
    return wrapped(value, 32)


SCALARS: Mapping[Effect, Scalar] = {
    Effect.INT_ADD: lambda v: wrapped(v["a"] + v["b"]),
    Effect.INT_ADD_WORD: lambda v: word(v["a"] + v["b"]),
    Effect.INT_SUBTRACT: lambda v: wrapped(v["a"] - v["b"]),
    Effect.INT_SUBTRACT_WORD: lambda v: word(v["a"] - v["b"]),
    Effect.INT_SCALE4_ADD: lambda v: wrapped(4 * v["a"] + v["b"]),
    Effect.INT_SCALE8_ADD: lambda v: wrapped(8 * v["a"] + v["b"]),
    Effect.INT_MULTIPLY: lambda v: wrapped(v["a"] * v["b"]),
    Effect.INT_MULTIPLY_WORD: lambda v: word(v["a"] * v["b"]),
    Effect.INT_AND: lambda v: v["a"] & v["b"],
    Effect.INT_OR: lambda v: v["a"] | v["b"],
    Effect.INT_XOR: lambda v: v["a"] ^ v["b"],
    Effect.COMPARE_EQUAL: lambda v: int(v["a"] == v["b"]),
    Effect.COMPARE_LESS: lambda v: int(v["a"] < v["b"]),
    Effect.COMPARE_LESS_EQUAL: lambda v: int(v["a"] <= v["b"]),
    Effect.ADDRESS: lambda v: wrapped(v["b"] + v["displacement"]),
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
