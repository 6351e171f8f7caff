"""The parts of a machine: memories, the engines that move data between them, networks, issue rules.

Every number carries its unit in its name. The transfer model follows swDNN section III (Table II).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from tilewright.common.errors import MachineError

PositiveInt = Annotated[int, Meta(gt=0)]
MeshExtent = Annotated[int, Meta(gt=0, le=1024)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]
Scope = Literal["core", "group", "machine"]
ROLES = ("factors", "sums")
"""Roles that a memory can be restricted to: factors of products, and their sums."""


class MemorySpace(Struct, frozen=True, forbid_unknown_fields=True):
    """One memory, by the name that programs use for it.

    Each core, each group or the whole machine has one (`scope`). `reserved_bytes` are in use before
    any program runs: stack, scalars, instructions. Accesses must be, or are fastest, aligned at
    `alignment_bytes`. `holds` restricts the contents to some of `ROLES`; empty means anything.
    `direct_bytes_per_second` is the bandwidth of loads and stores by all cores that share it.
    """

    capacity_bytes: PositiveInt
    reserved_bytes: NonNegativeInt = 0
    alignment_bytes: PositiveInt = 1
    banks: PositiveInt = 1
    scope: Scope = "core"
    holds: tuple[Text, ...] = ()
    direct_bytes_per_second: PositiveFloat | None = None

    @property
    def available_bytes(self) -> int:
        """Bytes that are available for buffers."""
        return self.capacity_bytes - self.reserved_bytes


Way: TypeAlias = Literal["get", "put"]
"""Towards the cores, or away from them."""


class Direction(Struct, frozen=True, forbid_unknown_fields=True):
    """One direction of an engine, from the memory that it `reads` to the one that it `writes`.

    `peak_bytes_per_second` covers all `channels`; a file may state `bytes_per_cycle` of one channel
    instead. A contiguous block of s bytes counts as `ceil(s / transaction_bytes)` transactions plus
    `block_overhead_transactions`; each takes `transaction_bytes / peak`.
    """

    reads: Text
    writes: Text
    peak_bytes_per_second: PositiveFloat
    block_overhead_transactions: NonNegativeFloat = 0.0
    channels: PositiveInt = 1
    bytes_per_cycle: PositiveFloat | None = None


class DescriptorLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one descriptor of an engine, and on queued descriptors; None for no limit."""

    size_bytes: PositiveInt | None = None
    block_bytes: PositiveInt | None = None
    stride_bytes: PositiveInt | None = None
    dimensions: PositiveInt | None = None
    descriptors: PositiveInt | None = None


class Engine(Struct, frozen=True, forbid_unknown_fields=True):
    """`count` equal engines per core, per group or of the machine (`scope`) that move data.

    `latency_cycles` is the time from a request to its first data; `issue_cycles` is the core's time
    to build and issue one descriptor. `shared_block_overhead_transactions` replaces a get's block
    overhead if all groups read the same data at the same time. A `synchronous` engine is the core
    itself, which computes nothing meanwhile, so double buffering is useless. In a file,
    `directions` are tables of the engine.
    """

    transaction_bytes: PositiveInt = 1
    latency_cycles: NonNegativeInt = 0
    issue_cycles: NonNegativeInt = 0
    shared_block_overhead_transactions: NonNegativeFloat = 0.0
    scope: Scope = "group"
    count: PositiveInt = 1
    directions: Mapping[str, Direction] = {}
    limits: DescriptorLimits | None = None
    synchronous: bool = False

    def direction(self, name: str) -> Direction:
        """The direction called `name`; raises MachineError where the engine has none."""
        found = self.directions.get(name)
        if found is None:
            known = ", ".join(self.directions) or "none"
            raise MachineError(f"the engine has no direction {name!r}", fix=f"it has: {known}")
        return found

    def between(self, outer: str, inner: str, way: Way) -> Direction:
        """The direction from the `outer` memory to the `inner` one (get), or back (put)."""
        ends = (outer, inner) if way == "get" else (inner, outer)
        found = (d for d in self.directions.values() if (d.reads, d.writes) == ends)
        return next(found, None) or self.direction(way)

    @property
    def get(self) -> Direction:
        """The direction towards the cores."""
        return self.direction("get")

    @property
    def put(self) -> Direction:
        """The direction away from the cores."""
        return self.direction("put")


class Fabric(Struct, frozen=True, forbid_unknown_fields=True):
    """A network over which cores exchange messages.

    A message of s bytes over h links takes `send_cycles + h * hop_cycles + (header_bytes + s) /
    bytes_per_cycle + receive_cycles`; messages of one sender are `gap_cycles` apart
    (`machine.messages`). A core's port handles one message at a time (`one`), or one per link.
    """

    topology: Literal["buses", "mesh", "ring_mesh", "torus", "crossbar"]
    bytes_per_cycle: PositiveFloat
    rows: MeshExtent = 1
    columns: MeshExtent = 1
    hop_cycles: NonNegativeFloat = 0.0
    gap_cycles: NonNegativeFloat = 0.0
    header_bytes: NonNegativeInt = 0
    send_cycles: NonNegativeFloat = 0.0
    receive_cycles: NonNegativeFloat = 0.0
    multicast: Literal["none", "line", "path"] = "none"
    ports: Literal["one", "each_link"] = "one"


class Issue(Struct, frozen=True, forbid_unknown_fields=True):
    """Issue of long operations: a core `waits` for each, or keeps a `window` of them in flight,
    whose slots are freed in order, or as soon as an operation is done (a scoreboard).
    """

    rule: Literal["waits", "window"]
    width: PositiveInt = 1
    in_flight: PositiveInt = 1
    freed: Literal["in_order", "when_done"] = "in_order"
