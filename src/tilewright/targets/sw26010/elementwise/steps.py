"""Operations of an expression on successive items, each operation for all of them.

In: operations on numbered values, the registers of some of these, and registers for others. Out:
instructions. Constants without a register are loaded from the frame where they are needed, and what
works on the first lane of a register does the others by way of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.common.errors import ProgramError
from tilewright.isa import Instruction
from tilewright.targets.sw26010.elementwise.code import STACK, constant_to_lanes, op
from tilewright.targets.sw26010.elementwise.lanes import LANE_WORKS
from tilewright.targets.sw26010.elementwise.loops import WORD
from tilewright.targets.sw26010.elementwise.sums import Sums

_LONG, _MANY = (*LANE_WORKS, "vdivd", "vsqrtd"), 32
"""Operations that take long, and how many others do."""


def takes_long(sums: Sums) -> bool:
    """True if the operations take long enough for gathering strided elements to pay."""
    return len(sums.steps) > _MANY or any(name in _LONG for name, _, _ in sums.steps)


@dataclass
class Steps:
    """The operations of `sums`. `fixed` are the registers of values shared by all items, `free`
    those for others; `lanes` of each register are in use, and `text` names the expression.
    """

    sums: Sums
    fixed: Mapping[int, int]
    free: deque[int]
    constants_at: int
    lanes: int
    text: str
    code: list[Instruction] = field(default_factory=list)

    def append(
        self,
        places: Sequence[dict[int, int]],
        left: Sequence[list[int]],
        fetched: Callable[[int, int], int] | None = None,
        totals: Sequence[int] = (),
    ) -> None:
        """Append the operations. `places` are each item's registers by value, `left` the uses of
        values that remain; `fetched` loads a value of an item that has no register yet. If there
        are `totals`, they take the result of the last operation.
        """
        last = self.sums.steps[-1][2] if totals else None
        for mnemonic, sources, target in self.sums.steps:
            shared = {**self.fixed, **self._constants(sources)}
            for item, place in enumerate(places):
                for value in sources:
                    if fetched and value not in shared and value not in place:
                        place[value] = fetched(value, item)
                given = [shared[v] if v in shared else place[v] for v in sources]
                if mnemonic in LANE_WORKS:
                    place[target] = self._by_lanes(mnemonic, given)
                    self.release(sources, place, left[item])
                    continue
                self.release(sources, place, left[item])
                place[target] = totals[item] if target == last else self.taken()
                self.code.append(op(mnemonic, *given, place[target]))
            self.free.extend(r for v, r in shared.items() if v not in self.fixed)

    def release(self, values: Sequence[int], place: Mapping[int, int], left: list[int]) -> None:
        """Count one use of each value; registers without further uses become free."""
        for value in values:
            left.remove(value)
            if value not in left and value in place and value not in self.fixed:
                self.free.append(place[value])

    def taken(self) -> int:
        """A register for a value."""
        if not self.free:
            raise ProgramError(f"{self.text[:60]!r} has more values than registers")
        return self.free.popleft()

    def _constants(self, sources: Sequence[int]) -> dict[int, int]:
        """Load the constants that lie in memory, for all items; returns their registers."""
        found: dict[int, int] = {}
        for value in sources:
            if value < 0 and value not in self.fixed and value not in found:
                found[value] = self.taken()
                place = (WORD * (-1 - value) + self.constants_at, STACK)
                self.code.append(op("ldde", found[value], place))
        return found

    def _by_lanes(self, mnemonic: str, given: Sequence[int]) -> int:
        count, work = LANE_WORKS[mnemonic]
        target, *singles = (self.taken() for _ in range(1 + count))
        self.code += work(given, target, singles, self.lanes)
        self.free.extend(singles)
        return target


def stored_constants(numbers: Sequence[float], place: int, turns: deque[int]) -> list[Instruction]:
    """Constants to the frame from byte `place` on, by way of registers in turn."""
    code: list[Instruction] = []
    for number, value in enumerate(numbers):
        *bits, _ = constant_to_lanes(value, turns[0])
        code += [*bits, op("stl", turns[0], (place + WORD * number, STACK))]
        turns.rotate(-1)
    return code
