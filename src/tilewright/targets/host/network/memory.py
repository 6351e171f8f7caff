"""The values of a plan while it is built: numbered, their lives followed, then placed.

In: values as stages are appended. Out: all values with their places in arena and constants.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from tilewright.common.dtypes import DType
from tilewright.network.arena import ALIGNMENT_BYTES, Life, place
from tilewright.ops.op import Shape
from tilewright.targets.host.network.constants import Constant, Recipe
from tilewright.targets.host.network.plan import Stage, Value, used_values


class Memory:
    """Hands out values."""

    def __init__(self, kind: DType) -> None:
        self.values: list[Value] = []
        self.constants: list[Constant] = []
        self.constant_bytes = 0
        self._kind = kind
        self._known: dict[Recipe, int] = {}

    def argument(self, which: Literal["input", "output"], number: int, shape: Shape) -> int:
        """Input or output number `number` of the network."""
        return self._add(Value(which, prod(shape), number))

    def arena(self, elements: int) -> int:
        """A value that lives from the first stage that names it to the last."""
        return self._add(Value("arena", elements))

    def constant(self, recipe: Recipe, elements: int) -> int:
        """A part of the constants; equal ones are there once."""
        if recipe not in self._known:
            at = -(-self.constant_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            self.constants.append(Constant(at, elements, recipe))
            self.constant_bytes = at + elements * self._kind.size_bytes
            self._known[recipe] = self._add(Value("constant", elements, at))
        return self._known[recipe]

    def placed(self, stages: list[Stage]) -> tuple[tuple[Value, ...], int]:
        """(all values with their offsets, bytes of the arena)."""
        lives: dict[int, Life] = {}
        for number, stage in enumerate(stages):
            for value in used_values(stage.work):
                if self.values[value].place == "arena":
                    size = self.values[value].elements * self._kind.size_bytes
                    first = lives[value].first if value in lives else number
                    lives[value] = Life(size, first, number)
        offsets, size = place(lives)
        values = tuple(
            Value(v.place, v.elements, offsets.get(i, v.at)) for i, v in enumerate(self.values)
        )
        return values, size

    def _add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1
