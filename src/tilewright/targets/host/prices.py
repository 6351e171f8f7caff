"""The prices of this computer: copies by the core itself, caches, threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.chain import Prepared
from tilewright.cost.pipeline_types import COPY
from tilewright.cost.prices import Prices
from tilewright.cost.timing import TransferShape, transfer_cycles
from tilewright.ir.nodes import Direction, Program
from tilewright.machine import Machine
from tilewright.targets.host.cost.buffers import has_room
from tilewright.targets.host.cost.caches import exposed_cycles
from tilewright.targets.host.cost.calls import COSTS
from tilewright.targets.host.cost.streams import streamed_cycles
from tilewright.targets.host.cost.threads import meeting_cycles, memory_cycles
from tilewright.targets.host.sections import Caches


class HostPrices(Prices):
    """Prices of cores with caches, which make copies themselves."""

    costs = COSTS
    waits = True

    def transfer_kind(self, direction: Direction) -> int:
        """The core is busy with a copy."""
        return COPY

    def service_cycles(
        self,
        machine: Machine,
        direction: Direction,
        shape: TransferShape,
        tensor_bytes: Value,
        *,
        shared: bool,
    ) -> Value:
        """Cycles of a copy; longer where the last cache cannot keep the tensor it comes from."""
        cycles = transfer_cycles(machine, direction, shape, shared=shared)
        caches = machine.find_section(Caches)
        if caches is None or direction == "put":
            return cycles
        slower = machine.dma.get.peak_bytes_per_second / machine.direct_bytes_per_second
        far = np.greater(tensor_bytes, caches.l3.capacity_bytes)
        return cycles * np.where(far, max(1.0, slower), 1.0)

    def elapsed_cycles(
        self,
        prepared: Prepared,
        machine: Machine,
        env: Mapping[str, Value],
        buffer_bytes: Value,
        cycles: Value,
    ) -> Value:
        """With what the core waits for caches, for other threads, and for main memory."""
        cycles = cycles + exposed_cycles(prepared, machine, env, buffer_bytes, cycles)
        cycles = cycles + streamed_cycles(prepared, machine, env)
        cycles = cycles + meeting_cycles(prepared, machine, env)
        return np.maximum(cycles, memory_cycles(prepared, machine, env))

    def has_room(self, program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
        """True if the buffers fit the caches."""
        return has_room(program, machine, env)


PRICES = HostPrices()
