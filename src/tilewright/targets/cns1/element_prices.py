"""Price expressions over elements and tables: the cycles of their text on a simulated node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value
from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import Lookup, Map
from tilewright.machine import Machine
from tilewright.targets.cns1.emit.calls import VECTOR
from tilewright.targets.cns1.emit.elements import Streamed, write_elements
from tilewright.targets.cns1.kernels import lookups
from tilewright.targets.cns1.kernels.elements import PASS, Elements
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.text_cycles import finished, started


def map_cycles(machine: Machine, call: PricedCall[Map]) -> Value:
    """Cycles of a map's text on as many elements."""
    result, *operands = (dtype(name).size_bytes for name in call.operand_dtypes)
    elements = Elements(call.primitive.expression, tuple(operands), result)
    return _streamed_cycles(machine, elements, call.dims["elements"])


def lookup_cycles(machine: Machine, call: PricedCall[Lookup]) -> Value:
    """The text on as many sums of zero: all look-ups go through one port, which is the worst case
    of section 4.2.3.
    """
    lookup = lookups.Lookup(int(np.max(call.dims["k"])), call.primitive.shift)
    return _streamed_cycles(machine, lookup, call.dims["elements"])


def _streamed_cycles(machine: Machine, streamed: Streamed, elements: Value) -> Value:
    """Tensors that follow each other in memory share open lines of the chips or not, by the lines
    that those before them take.
    """
    rdram, count = machine.section(Rdram), np.asarray(elements, np.int64)
    lines = [-(-size // rdram.open_bytes) for size in streamed.tensor_bytes(count)[:-1]]
    before = np.stack(np.broadcast_arrays(0 * count, *lines))
    places = np.cumsum(before, axis=0) % rdram.open_lines
    found, looped = np.zeros(count.shape), bool(np.any(count >= PASS))
    for own in np.unique(places.reshape(len(places), -1), axis=1).T:
        timing = elements_timing(machine, streamed, tuple(map(int, own)), looped=looped)
        alike = (own == places.T).all(axis=-1).T
        found = np.where(alike, timing.cycles(count), found)
    return found


@dataclass(frozen=True, eq=False)
class ElementsCycles:
    """Cycles of a map or of look-ups: `samples` are numbers of passes and what their text takes,
    each pass beyond takes `pass_cycles`, elements behind the last whole pass, or without one,
    `rest_cycles`.
    """

    samples: tuple[NDArray[np.int64], NDArray[np.int64]]
    pass_cycles: float
    rest_cycles: NDArray[np.float64]

    def cycles(self, count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cycles of `count` elements, interpolated linearly between the samples."""
        passes, rest = np.divmod(count, PASS)
        beyond = np.maximum(0, passes - self.samples[0][-1])
        found: NDArray[np.float64] = np.interp(passes, *self.samples) + beyond * self.pass_cycles
        return found + self.rest_cycles[np.minimum(1, passes), rest]


@cache
def elements_timing(
    machine: Machine, streamed: Streamed, places: tuple[int, ...], *, looped: bool
) -> ElementsCycles:
    """The cycles of the text, twice as far as all places of open lines have been passed; where no
    count is `looped` over, those of less than a pass, so that no loop is scheduled.

    Each tensor begins in an open line at one of the `places` of its chip.
    """
    rdram = machine.section(Rdram)
    period = rdram.open_lines * rdram.open_bytes // PASS
    room = int(max(streamed.tensor_bytes(2 * period * PASS)))

    def cycles(count: int) -> int:
        writer = started()
        for tensor, place in enumerate(places):
            start = tensor * room + place * rdram.open_bytes
            writer.constant(streamed.starts[tensor], start)
        write_elements(writer, machine, streamed, count)
        return finished(machine, writer, (len(places) + 1) * room)

    if not looped:
        none, alone = np.array([0]), _rest_cycles(streamed, cycles)
        return ElementsCycles((none, np.array([cycles(0)])), 0.0, np.stack([alone, alone]))
    few = [1 << i for i in range(6)]
    passes = np.array([0, *few, *range(64, 2 * period + 1, 64)])
    taken = np.array([cycles(int(n) * PASS) for n in passes])
    each = np.stack(
        [
            _rest_cycles(streamed, cycles),
            _rest_cycles(streamed, lambda rest: cycles(PASS + rest)),
        ]
    )
    steady = taken[-1] - taken[np.searchsorted(passes, period)]
    return ElementsCycles((passes, taken), float(steady) / period, each)


def _rest_cycles(streamed: Streamed, cycles: Callable[[int], int]) -> NDArray[np.float64]:
    """Cycles that each number of elements beyond whole passes adds: within a vector, look-ups are
    charged one by one, other elements together.
    """
    rest, vectors = np.arange(PASS), np.arange(0, PASS, VECTOR)
    if isinstance(streamed, lookups.Lookup):
        points = np.sort(np.concatenate([vectors, vectors + 1, [PASS - 1]]))
        taken = np.array([cycles(int(n)) for n in points])
        return np.asarray(np.interp(rest, points, taken - taken[0]))
    taken = np.array([cycles(n) for n in range(0, PASS, VECTOR // 2)], np.float64)
    found: NDArray[np.float64] = (taken - taken[0])[2 * (rest // VECTOR) + (rest % VECTOR > 0)]
    return found
