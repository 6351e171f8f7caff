"""The next layers on a node: products, global sums and look-ups, interleaved as in section 4.2.4.

In: a machine, local layers, the number of patterns. Out: lines of a program. The sums of a stripe
of 64 columns run beside the next product, its look-ups follow both. The last 64 hidden nodes are
known only when their sums are: the first product of the outputs takes the other rows before (the
report begins it with none of them missing).

Registers: `$vs21` weights of the outputs, `$vs22` start and `$vs23` middle of the sigmoid table,
`$22` the shift of sums at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.common.errors import CapacityError
from tilewright.machine import Machine
from tilewright.targets.cns1.kernels.bodies import Body, forward_body
from tilewright.targets.cns1.kernels.lookups import ENTRIES
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines
from tilewright.targets.cns1.nodes.sums import SUMMED, Sum, begun
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.timing.layers import STRIPE, Layers
from tilewright.targets.cns1.timing.messages import hidden_sum, output_sum

PENDING, SCRATCH = "$22", "$5"
PRODUCTS = 17
"""First vector register of a product's sums, two for each pattern."""
_MANY = 1 << 20
"""Iterations of a loop whose code is that of any number."""


@dataclass(frozen=True)
class CachePlaces:
    """Where a node keeps vectors in its data cache, each pattern's behind the one before."""

    inputs: int
    hidden: int
    outputs: int


@dataclass(frozen=True)
class Forward:
    """Steps 2 and 3 for a number of patterns, and where their vectors are."""

    machine: Machine
    local: Layers
    patterns: int
    places: CachePlaces

    @property
    def sums(self) -> tuple[Sum, Sum]:
        """The global sums of hidden and of output vectors."""
        vectors = 2 * self.patterns
        first = Sum(hidden_sum(self.machine), vectors, 0, PENDING)
        return first, Sum(output_sum(self.machine), vectors, first.sharing.rounds, PENDING)

    def lines(self) -> Iterator[str]:
        """Both layers, from the inputs in the data cache to the outputs there."""
        local, places = self.local, self.places
        hidden, outputs = self.sums
        yield from self._layer("$0", local.hidden, places.inputs, local.inputs, local.inputs)
        yield from (f"$8 = {places.hidden}", f"$17 = {places.hidden + local.hidden}")
        yield from self._first_stripe(hidden)
        yield from self._stripes(1, hidden)
        rows = local.hidden - STRIPE
        yield from self._layer("$vs21", local.outputs, places.hidden, local.hidden, rows)
        yield from self._started()
        yield from called("product") if rows else ()
        yield from (f"await ({PENDING} == $0)", *called("sigmoid_1"))
        yield from (f"$10 = {places.hidden + local.hidden}", *called("product"))
        yield "$4 = $4 + $30"
        yield from (f"$8 = {places.outputs}", f"$17 = {places.outputs + local.outputs}")
        yield from self._summed(outputs)
        yield from self._stripes(2, outputs)
        yield from (f"await ({PENDING} == $0)", *called("sigmoid_2"))

    def routines(self) -> Iterator[str]:
        """The product and both look-ups, which the lines call."""
        yield from routine("product", looped(forward_body(self.patterns), self.machine, "product"))
        for step, one in enumerate(self.sums, 1):
            yield from routine(f"sigmoid_{step}", self._sigmoid(one))

    def _layer(
        self, weights: str, columns: int, inputs: int, input_step: int, rows: int
    ) -> Iterator[str]:
        """Pointers of a layer: `$4` weights, `$9` bytes of a row, `$15` the end of the first."""
        yield from (f"$4 = {weights}", f"$9 = {columns}", "$9 = $9 << 1", "$15 = $4 + $9")
        yield from (f"$7 = {inputs}", f"$16 = {inputs + input_step}", f"$10 = {inputs + rows}")

    def _first_stripe(self, one: Sum) -> Iterator[str]:
        yield from self._multiplied()
        yield from ("$4 = $4 + $30", *self._summed(one))

    def _stripes(self, step: int, one: Sum) -> Iterator[str]:
        """All stripes but the first."""
        if (self.local.hidden if step == 1 else self.local.outputs) == STRIPE:
            return
        first, *others = self._multiplied()
        yield from (f"stripe_{step}: {first}", *others, "$4 = $4 + $30")
        yield from (f"await ({PENDING} == $0)", *called(f"sigmoid_{step}"))
        yield from self._summed(one)
        yield from (f"if ($4 != $15) stripe_{step}", "nop")

    def _multiplied(self) -> Iterator[str]:
        """One stripe's product."""
        yield from (*self._started(), *called("product"))

    def _started(self) -> Iterator[str]:
        """Pointers to the first row of a stripe, and sums of zero."""
        yield from ("$14 = $4", "$20 = $4 + 64", "$13 = $7", "$18 = $16")
        yield from (f"$v{PRODUCTS + i} = $v0" for i in range(2 * self.patterns))

    def _summed(self, one: Sum) -> Iterator[str]:
        yield from (f"$v{SUMMED + i} = $v{PRODUCTS + i}" for i in range(one.vectors))
        yield from begun(self.machine, one, SCRATCH)

    def _sigmoid(self, one: Sum) -> Iterator[str]:
        """The table goes into the open lines; then each vector is looked up and stored."""
        rdram = self.machine.section(Rdram)
        yield from ("$23 = $vs23", "$29 = $vs22")
        lines = -(-ENTRIES // rdram.open_bytes) * rdram.chips_per_port
        yield from ("$v0 = m[$29+=$30].w" for _ in range(lines))
        for i in range(one.vectors):
            yield f"$v{21 + i} = $v0 addap0 {one.result(i)}"
            yield f"$v{25 + i} = m[$23+$v{21 + i}].b"
            yield f"d[{'$8' if i < 2 else '$17'}+=$28].b = $v{25 + i}"


def prologue() -> tuple[str, ...]:
    """Constants that all routines use; the way back is kept."""
    return ("$vs31 = $31", "$28 = 32", "vlr = $28", f"vshift = {PENDING}", "$30 = 128")


def finish() -> tuple[str, ...]:
    """The end of a program."""
    return ("$31 = $vs31", "goto $31", "nop")


def called(name: str) -> tuple[str, ...]:
    """A call of a routine, and the branch's delay slot."""
    return (f"call {name}, $31", "nop")


def routine(name: str, lines: Iterable[str]) -> Iterator[str]:
    """A routine that returns to `$31`."""
    yield from (f"{name}:", *lines, "goto $31", "nop")


def looped(body: Body, machine: Machine, name: str) -> list[str]:
    """A pipelined loop whose label is its own."""
    return named(pipelined_lines(body, machine, _MANY), name)


def named(lines: Iterable[str], name: str) -> list[str]:
    """Lines with another label for their loop."""
    return [re.sub(r"\bloop\b", f"loop_{name}", line) for line in lines]


def require_cache(machine: Machine, needed: int, what: str) -> None:
    """Raise CapacityError where the data cache has less room."""
    room = machine.space("cache").capacity_bytes
    if needed > room:
        raise CapacityError(
            f"{what} take {needed} bytes of the data cache of a node, which has {room}",
            fix="divide the network over more nodes",
        )
