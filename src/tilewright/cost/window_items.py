"""A nest's items as the playback of a window of operations takes them (`cost.window`): the unit
that executes each, and the buffers that it writes and reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.common.expr import Const, free_vars
from tilewright.cost.chain import Item, Prepared
from tilewright.cost.prices import Prices
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.cost.window import AHEAD, BESIDE, Window
from tilewright.ir.nodes import View
from tilewright.machine import Machine

UNITS = 4
"""Most units that execute operations."""
_MOST_OPERANDS = 8


def window_of(prepared: Prepared, machine: Machine, prices: Prices) -> Window:
    """The window of a core, empty, for the items of one nest."""
    rules = machine.issue
    assert rules is not None
    buffers = {b.name: i for i, b in enumerate(prepared.program.buffers)}
    count, loops = len(buffers), max(1, len(prepared.loops))
    sizes = (1, rules.in_flight, UNITS, 2 * count, 2 * count)
    first = np.cumsum((0, *sizes)).astype(np.int64)
    used = [_used(item, buffers) for item in prepared.items]
    writes = np.array([w for w, _ in used] or [-1], np.int64)
    reads = np.full((max(1, len(used)), _MOST_OPERANDS), -1, np.int64)
    for row, (_, own) in zip(reads, used, strict=False):
        row[: len(own)] = own
    moved = {i.buffer for i in prepared.items if not isinstance(i.step, CallStep)}
    rotates = [
        i not in moved and b.copies == Const(2) for i, b in enumerate(prepared.program.buffers)
    ]
    return Window(
        np.zeros(int(first[-1])),
        first,
        np.zeros(max(1, count), np.int64),
        np.array([prices.unit(i.step) for i in prepared.items] or [0], np.int64),
        writes,
        reads,
        np.array(rotates or [False], np.int64),
        np.array([_beside(i, prepared) for i in prepared.items] or [0], np.int64),
        np.zeros((loops, 2, int(first[-1]))),
        np.zeros((loops, 2, max(1, count)), np.int64),
        np.zeros(loops, np.int64),
        np.zeros(loops),
        int(rules.freed == "in_order"),
        np.zeros(1),
        np.zeros((max(1, count), 3)),
    )


def _names(step: CallStep | TransferStep) -> tuple[str, list[str]]:
    """The buffer that a step writes, empty for none, and those that it reads."""
    if isinstance(step, CallStep):
        names = [o.buffer for o in step.stmt.operands if isinstance(o, View)]
        return names[0], names[1:]
    own = step.stmt.buffer
    return (own, []) if step.stmt.direction == "get" else ("", [own])


def _used(item: Item, buffers: Mapping[str, int]) -> tuple[int, list[int]]:
    """The numbers of the buffer that an item writes, -1 for none, and of those that it reads."""
    written, read = _names(item.step)
    return buffers.get(written, -1), [buffers[name] for name in read[:_MOST_OPERANDS]]


def _beside(item: Item, prepared: Prepared) -> int:
    """How an item writes a buffer that the items of one loop alone use, which read it in the order
    in which their parts move: what it writes they have read, or read later. 0 for other items.
    """
    written, _ = _names(item.step)
    if not item.level or not written:
        return 0
    variable = prepared.loops[item.level - 1].var
    users = [i for i in prepared.items if written in (_names(i.step)[0], *_names(i.step)[1])]
    read = [
        any(variable in free_vars(r.start) for r in o.ranges)
        for i in users
        if isinstance(i.step, CallStep)
        for o in i.step.stmt.operands[1:]
        if isinstance(o, View) and o.buffer == written
    ]
    if not read or not all(read) or any(i.level != item.level for i in users):
        return 0
    return AHEAD if variable in _start(item.step) else BESIDE


def _start(step: CallStep | TransferStep) -> frozenset[str]:
    """The symbols in the place of what a step writes."""
    if isinstance(step, TransferStep):
        return free_vars(step.stmt.first)
    made = step.stmt.operands[0]
    return frozenset().union(*(free_vars(r.start) for r in made.ranges))
