"""Functions of one case, for tests of the lab: workers import them by name."""

from collections.abc import Sequence

from msgspec import Struct

from tilewright.common.errors import ShapeError


class Square(Struct, frozen=True):
    side: int
    area: int


calls: list[int] = []
"""The cases computed in this process."""


def square(side: int) -> Square:
    calls.append(side)
    if side < 0:
        raise ShapeError(f"side is {side}", fix="give a side of at least 0")
    return Square(side, side * side)


def squares(sides: Sequence[int]) -> list[Square]:
    """Squares of several sides at once."""
    return [square(side) for side in sides]
