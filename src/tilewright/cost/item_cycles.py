"""Cycles of the calls and transfers of many nests, those that are priced alike as one array.

In: the items of prepared nests with the values of what their cost depends on. Out: cycles of each.
Nests of one seed hold the same few kinds of calls and transfers on small arrays of tiles, so that
most of the time of pricing one after the other would be that of calling NumPy.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.moments import Costed
from tilewright.cost.pipeline_types import COPY
from tilewright.cost.prices import Prices
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.cost.timing import issue_cycles
from tilewright.ir.primitive import Primitive
from tilewright.machine import Machine

Cycles = tuple[Value, Value]
"""(of service or of the call, of issue), of the form (kinds, tiles) or what broadcasts to it."""


@dataclass(frozen=True, eq=False)
class PricedItem:
    """A call or transfer: whether it happens, and the `numbers` that its cost depends on: integers,
    arrays of tiles, or (kinds, tiles). Of a call `call` is all else.
    """

    step: Costed
    call: PricedCall[Primitive] | None
    holds: Value
    numbers: Sequence[Value]

    @property
    def alike(self) -> Hashable:
        """Key of the items that are priced together: they differ in their arrays alone."""
        fixed = tuple(None if isinstance(n, np.ndarray) else n for n in self.numbers)
        if isinstance(self.step, CallStep):
            own = self.call
            assert own is not None
            kind = (own.primitive, own.dtype, own.packed, own.operand_dtypes)
            return (*kind, tuple(self.step.dims), fixed)
        step = self.step
        place = (step.space, step.lines, step.moved)
        return (step.stmt.direction, step.element_bytes, step.shared, *place, fixed)


def item_cycles(items: Sequence[PricedItem], machine: Machine, prices: Prices) -> list[Cycles]:
    """The cycles of each item; zero where it does not happen."""
    found: list[Cycles] = [(0.0, 0.0)] * len(items)
    together: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        if _happens(item.holds):
            together.setdefault(item.alike, []).append(i)
    for places in together.values():
        alike = [items[i] for i in places]
        shapes = [_shape(item.numbers) for item in alike]
        service, issue = _cycles(alike[0], _columns(alike, shapes), machine, prices)
        ends = accumulate(map(prod, shapes), initial=0)
        for i, shape, span in zip(places, shapes, pairwise(ends), strict=True):
            own = _part(service, span, shape), _part(issue, span, shape)
            holds = items[i].holds
            found[i] = own if _always(holds) else (own[0] * holds, own[1] * holds)
    return found


def _happens(holds: Value) -> bool:
    return bool(holds.any() if isinstance(holds, np.ndarray) else holds)


def _always(holds: Value) -> bool:
    return type(holds) is int and holds == 1


def _columns(items: Sequence[PricedItem], shapes: Sequence[tuple[int, ...]]) -> list[Value]:
    """The numbers of all items side by side; those that are no arrays are the same in all."""
    return [
        np.concatenate([_flat(n, shape) for n, shape in zip(column, shapes, strict=True)])
        if isinstance(column[0], np.ndarray)
        else column[0]
        for column in zip(*(item.numbers for item in items), strict=True)
    ]


def _shape(numbers: Sequence[Value]) -> tuple[int, ...]:
    """The shape that arrays broadcast to, mostly that of all."""
    shapes = {n.shape for n in numbers if isinstance(n, np.ndarray)}
    longest = max(shapes, key=len, default=())
    if all(shape == longest[len(longest) - len(shape) :] for shape in shapes):
        return longest
    return np.broadcast_shapes(*shapes)


def _flat(value: Value, shape: tuple[int, ...]) -> Value:
    if value.shape != shape:
        every = np.empty(shape, value.dtype)
        every[...] = value
        value = every
    return value.ravel()


def _part(cycles: Value, span: tuple[int, int], shape: tuple[int, ...]) -> Value:
    return cycles[slice(*span)].reshape(shape) if isinstance(cycles, np.ndarray) else cycles


def _cycles(item: PricedItem, numbers: Sequence[Value], machine: Machine, prices: Prices) -> Cycles:
    """The cycles of an item with these numbers."""
    step = item.step
    if isinstance(step, CallStep):
        assert item.call is not None
        call = replace(item.call, dims=dict(zip(step.dims, numbers, strict=True)))
        operations = prices.operations(machine, call) if machine.has_window else 0.0
        return call_cycles(machine, call, prices.costs), operations
    return _transfer_cycles(step, numbers, machine, prices)


def _transfer_cycles(
    step: TransferStep, numbers: Sequence[Value], machine: Machine, prices: Prices
) -> Cycles:
    rank = len(step.tensor_shape)
    shape = step.shape(numbers[:rank], numbers[rank:])
    direction, size = step.stmt.direction, prod(numbers[:rank]) * step.element_bytes
    service = prices.service_cycles(machine, direction, shape, size, shared=step.shared)
    issue = shape.blocks if machine.has_window else issue_cycles(machine, shape)
    if prices.transfer_kind(direction) == COPY:
        return service + issue, 0.0
    return service, issue
