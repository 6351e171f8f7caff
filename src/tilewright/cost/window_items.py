"""A nest's items as the playback of a window of operations takes them (`cost.window`): the unit
that executes each, and the buffers that it writes and reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.common.expr import Const
from tilewright.cost.chain import Item, Prepared
from tilewright.cost.prices import Prices
from tilewright.cost.steps import CallStep
from tilewright.cost.window import Window
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
        np.zeros((loops, 2, int(first[-1]))),
        np.zeros((loops, 2, max(1, count)), np.int64),
        np.zeros(loops, np.int64),
        np.zeros(loops),
        int(rules.freed == "in_order"),
        np.zeros(1),
    )


def _used(item: Item, buffers: Mapping[str, int]) -> tuple[int, list[int]]:
    """The buffer that an item writes, and those that it reads."""
    if not isinstance(item.step, CallStep):
        return (item.buffer, []) if item.step.stmt.direction == "get" else (-1, [item.buffer])
    names = [buffers[o.buffer] for o in item.step.stmt.operands if isinstance(o, View)]
    return names[0], names[1:][:_MOST_OPERANDS]
