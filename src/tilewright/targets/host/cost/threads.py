"""Cost of running several threads: barriers, and a main memory that they share.

In: a prepared nest with a division, a machine and the values of its parameters. Out: cycles and
factors, of the values' form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value, evaluate, product
from tilewright.cost.chain import Prepared
from tilewright.machine import Machine
from tilewright.targets.host.sections import Caches


def meeting_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Cycles of the barriers behind a nest: one for each iteration of the loops that it shares with
    others, none where those are divided, for then its neighbours are the same thread's.
    """
    division, threads = prepared.division, machine.threads
    if division is None or threads is None:
        return 0.0
    meetings: Value = 1
    apart: Value = False
    for extent, parts in division.shared:
        meetings = meetings * evaluate(extent, env)
        apart = apart | np.greater(env[parts], 1)
    return np.where(apart, 0, meetings) * threads.meet_cycles


def has_own(prepared: Prepared, env: Mapping[str, Value], moved_by: Sequence[bool]) -> Value:
    """True if each thread has an operand's bytes to itself, given which loops move it."""
    if prepared.division is None:
        return True
    own: Value = False
    for parts, moves in zip(prepared.division.parts, moved_by, strict=False):
        if parts is not None and moves:
            own = own | np.greater(env[parts], 1)
    return own


def memory_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Cycles that main memory needs at least to deliver a nest's tensors once to the threads that
    divide its loops; 0 where the last cache holds them, and on one thread, whose copies are priced.
    """
    caches, threads = machine.find_section(Caches), machine.threads
    if prepared.division is None or caches is None or threads is None:
        return 0.0
    total: Value = 0
    for tensor in prepared.program.tensors:
        if not tensor.storage:
            elements = evaluate(product(tensor.shape), env)
            total = total + elements * dtype(tensor.dtype).size_bytes
    busy: Value = 1
    for parts in prepared.division.parts:
        busy = busy * (1 if parts is None else env[parts])
    rate = machine.direct_bytes_per_second * np.minimum(busy, threads.saturating)
    far = np.greater(total, caches.l3.capacity_bytes)
    return np.where(far, total * (machine.clock_hz / rate), 0.0)


def crowding(machine: Machine) -> float:
    """Factor by which a byte from main memory takes longer if all threads want one."""
    threads = machine.threads
    return max(1.0, threads.count / threads.saturating) if threads else 1.0
