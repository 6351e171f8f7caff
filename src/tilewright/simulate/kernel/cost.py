"""Cost of one execution of a transfer or call, computed once per set of extents.

In: prepared statements with the values of their expressions. Out: integer cycles (rounded up once
per statement) and their breakdown. It also tracks which part of each tile is data: a matrix product
on a tile that reaches beyond its tensor spends cycles on padding.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import SimulationError
from tilewright.common.expr import evaluate
from tilewright.cost.calls import Costs, call_cycles
from tilewright.cost.prices import call_costs as usual_costs
from tilewright.cost.steps import TransferStep
from tilewright.cost.timing import asked_bytes, by_cores, issue_cycles, moved_bytes
from tilewright.ir.primitives import Repack
from tilewright.machine import Machine
from tilewright.simulate.kernel import account
from tilewright.simulate.kernel.engines import engine_rule_of
from tilewright.simulate.kernel.program import CallStatement, InsideRegion, TransferStatement

Values: TypeAlias = tuple[int, ...]
Counters: TypeAlias = npt.NDArray[np.int64]
Extents: TypeAlias = npt.NDArray[np.int64]
CallCycles: TypeAlias = tuple[int, int, int, int]
"""Cycles of a call until all cores are done, of the first core, of cores with data, of others."""


class _Content(NamedTuple):
    """Extents of the part of a tile that is data, [dimension][core]: `down` the first column of the
    mesh, and `along` its first row.
    """

    down: list[list[int]]
    along: list[list[int]]


class Participants(NamedTuple):
    """The cores that take part in a transfer: `cores` is their number, and all are among the first
    `until`. In each row that has any, they are the first ones.
    """

    cores: int
    until: int

    def end(self, columns: int) -> int:
        """Position after the last participant, with `columns` cores in a row."""
        return self.until - columns + -(-self.cores * columns // self.until)

    def shared(self, other: Participants) -> int:
        """Number of cores that take part in both: the fewer rows, each as long as the shorter."""
        crossing = ((a.cores * b.until, a.until) for a, b in ((self, other), (other, self)))
        return min(self.cores, other.cores, *(-(-cores // until) for cores, until in crossing))


@dataclass(frozen=True)
class MoveCost:
    """One transfer in which the cores of `part` take part; `elements` are core (0, 0)'s."""

    elements: int
    requests: int
    issue_cycles: int
    service_cycles: int
    part: Participants
    asked_bytes: int
    moved_bytes: int

    @property
    def share_cycles(self) -> int:
        """Engine cycles of one request of one core."""
        return -(-self.service_cycles // (self.part.cores * self.requests))

    @cached_property
    def counters(self) -> Counters:
        """Amounts that it adds to its tensor's counters, in their order (`kernel.account`)."""
        return _counters(
            account.TRANSFERS + 1,
            {
                account.ENGINE: self.service_cycles,
                account.ASKED: self.asked_bytes,
                account.MOVED: self.moved_bytes,
                account.REQUESTS: self.requests,
                account.TRANSFERS: 1,
            },
        )


@dataclass(frozen=True)
class WorkCost:
    """One call: `cycles`, with those that its useful and padding flops take at the cores' peak, and
    the useful flops of all cores. The first core takes `first_cycles`, cores with data
    `own_cycles`, others `apart_cycles`.
    """

    cycles: int
    first_cycles: int
    own_cycles: int
    apart_cycles: int
    useful_cycles: int
    padding_cycles: int
    useful_flops: int

    @cached_property
    def counters(self) -> Counters:
        """Amounts that it adds to its primitive's counters, in their order (`kernel.account`)."""
        useful, padding = self.useful_cycles, self.padding_cycles
        rest = self.cycles - useful - padding
        return _counters(
            account.OVERHEAD + 1,
            {account.USEFUL: useful, account.PADDING: padding, account.OVERHEAD: rest},
        )


def _counters(count: int, amounts: Mapping[int, int]) -> Counters:
    found = np.zeros(count, np.int64)
    for place, amount in amounts.items():
        found[place] = amount
    return found


@dataclass(frozen=True)
class _Priced:
    """Costs of statements by everything that determines them; programs of a search share most."""

    moves: dict[Hashable, MoveCost] = field(default_factory=dict)
    calls: dict[Hashable, CallCycles] = field(default_factory=dict)


@lru_cache(maxsize=4)
def _priced_on(machine: Machine) -> _Priced:
    """Costs of a machine's statements by its family's own prices, one object per machine."""
    del machine
    return _Priced()


class KernelCosts:
    """Costs of prepared statements on a machine, each computed once; `call_costs` replaces the
    family's prices of primitives.
    """

    def __init__(self, machine: Machine, call_costs: Costs | None = None) -> None:
        self._machine = machine
        self._rule = engine_rule_of(machine)
        self._priced = _priced_on(machine) if call_costs is None else _Priced()
        self._call_costs = usual_costs(machine) if call_costs is None else call_costs
        self._rid, self._cid = np.ogrid[: machine.mesh.rows, : machine.mesh.columns]
        self._moves: dict[tuple[int, Values], MoveCost] = {}
        self._calls: dict[tuple[int, Values], CallCycles] = {}
        self._works: dict[tuple[int, Values, Values], WorkCost] = {}
        self._regions: dict[tuple[int, Values], int] = {}
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._contents: list[_Content | None] = [None]

    def move(self, move: TransferStatement, numbers: Values) -> MoveCost:
        """Cost of a transfer whose extents and steps on core (0, 0) are `numbers`."""
        key = (move.number, numbers)
        if key not in self._moves:
            whole = tuple(int(evaluate(e, {})) for e in move.step.tensor_shape)
            alike = move.step.kind, whole, numbers
            if alike not in self._priced.moves:
                self._priced.moves[alike] = self._move(move.step, whole, numbers)
            self._moves[key] = self._priced.moves[alike]
        return self._moves[key]

    def _move(self, step: TransferStep, whole: Values, numbers: Values) -> MoveCost:
        machine, direction = self._machine, step.stmt.direction
        shape = step.shape(whole, numbers)
        service = self._rule.service_cycles(machine, direction, shape, shared=step.shared)
        return MoveCost(
            elements=int(shape.asked_bytes) // step.element_bytes,
            requests=int(shape.requests),
            issue_cycles=ceil(issue_cycles(machine, shape)),
            service_cycles=ceil(service),
            part=Participants(
                round(machine.cores * shape.moving), round(machine.cores * shape.until)
            ),
            asked_bytes=round(asked_bytes(machine, shape)),
            moved_bytes=round(moved_bytes(machine, shape)),
        )

    def content(self, region: InsideRegion, env: Mapping[str, int]) -> int:
        """Number for the data of a tile; equal numbers mean equal extents on every core."""
        key = (region.number, tuple(env[s] for s in region.symbols))
        if key not in self._regions:
            self._regions[key] = self._content(region, env)
        return self._regions[key]

    def _content(self, region: InsideRegion, env: Mapping[str, int]) -> int:
        mesh = (self._machine.mesh.rows, self._machine.mesh.columns)
        bound: dict[str, Any] = {**env, "rid": self._rid, "cid": self._cid}
        values = [np.asarray(evaluate(e, bound), np.int64) for e in region.extents]
        extents: Extents = np.zeros((len(values), *mesh), np.int64)
        for dim, value in enumerate(values):
            extents[dim] = value
        if (extents > extents[:, :1, :1]).any():
            raise SimulationError(
                "another core moves more than core (0, 0), whose transfers decide the time",
                where=region.text,
                fix="give core (0, 0) the largest region",
            )
        known = (len(values), extents.tobytes())
        number = self._numbers.setdefault(known, len(self._contents))
        if number == len(self._contents):
            self._contents.append(_Content(extents[:, :, 0].tolist(), extents[:, 0].tolist()))
        return number

    def work(self, work: CallStatement, values: Values, contents: Values) -> WorkCost:
        """Cost of a call whose expressions have `values`, on slots with these contents."""
        key = (work.number, values, contents if work.axes else ())
        found = self._works.get(key)
        if found is None:
            found = self._works[key] = (
                self._product(work, values, contents)
                if work.axes
                else WorkCost(*self._call_cycles(work, values), 0, 0, 0)
            )
        return found

    def _call_cycles(self, work: CallStatement, values: Values) -> CallCycles:
        key = (work.number, values)
        if key not in self._calls:
            dims = self._dims(work, values)
            alike = work.priced.kind, *dims.items()
            if alike not in self._priced.calls:
                self._priced.calls[alike] = self._cycles(work, dims)
            self._calls[key] = self._priced.calls[alike]
        return self._calls[key]

    def _cycles(self, work: CallStatement, dims: Mapping[str, int]) -> CallCycles:
        own = by_cores(dims) if isinstance(work.call.primitive, Repack) else dims
        found = call_cycles(self._machine, replace(work.priced, dims=own), self._call_costs)
        every, first, some, others = np.broadcast_to(np.ceil(found), 4).tolist()
        return int(every), int(first), int(some), int(others)

    def _dims(self, work: CallStatement, values: Values) -> dict[str, int]:
        return dict(zip(work.dims, work.dims_of(values), strict=True))

    def _product(self, work: CallStatement, values: Values, contents: Values) -> WorkCost:
        machine = self._machine
        cycles = self._call_cycles(work, values)[0]
        dims = self._dims(work, values)
        core, kind = machine.core, work.priced.dtype
        peak = machine.cores * core.peak_flops_per_cycle(
            kind if kind in core.arithmetic else core.usual_type
        )
        each = work.call.primitive.flops(dims, machine.mesh.columns)
        flops = machine.cores * int(each)
        extents = (self._useful_extents(work, values, contents, i) for i in range(work.links))
        useful_flops = min(sum(2 * m * n * k for m, n, k in extents), flops)
        useful = min(useful_flops // peak, cycles)
        padding = min(flops // peak, cycles) - useful
        return WorkCost(cycles, cycles, cycles, cycles, useful, padding, useful_flops)

    def _useful_extents(
        self, work: CallStatement, values: Values, contents: Values, link: int
    ) -> tuple[int, int, int]:
        """m, n and k of a link's product over the whole mesh, counting data only.

        Core (r, c) holds block (r, c) of each matrix, so rows count down the first column of the
        mesh and columns along its first row. m and n occur in a factor and in the result.
        """
        axes = len(work.axes) * 3
        end = len(values) - axes * (work.links - 1 - link)
        extents = partial(self._extents_of_cores, work, values[end - axes : end], contents)
        m = sum(map(min, extents(0, "m"), extents(1, "m")))
        n = sum(map(min, extents(0, "n"), extents(2, "n")))
        return m, n, min(sum(extents(1, "k")), sum(extents(2, "k")))

    def _extents_of_cores(
        self, work: CallStatement, numbers: Values, contents: Values, operand: int, role: str
    ) -> list[int]:
        """Data extents of an operand's axis on each core, from the numbers of all axes: down the
        first column of the mesh for rows of the operand, along its first row for columns.
        """
        down = role == "m" or (role == "k" and operand == 2)
        content = self._contents[contents[operand]]
        found = [1] * (self._machine.mesh.rows if down else self._machine.mesh.columns)
        for i, axis in enumerate(work.axes):
            if axis.operand != operand or axis.name != role:
                continue
            start, extent, step = numbers[3 * i : 3 * i + 3]
            if content is None or len(content.down) != axis.rank:
                found = [own * extent for own in found]
                continue
            data = (content.down if down else content.along)[axis.dim]
            counts = (-((start - own) // step) for own in data)
            found = [
                own * min(max(count, 0), extent) for own, count in zip(found, counts, strict=True)
            ]
        return found
