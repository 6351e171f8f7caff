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
"""Roles that a memory may be restricted to: factors of products, and their sums."""


class MemorySpace(Struct, frozen=True, forbid_unknown_fields=True):
    """One memory, by the name that programs use for it.

    Each core, each group or the whole machine has one (`scope`). `reserved_bytes` are taken before
    any program runs: stack, scalars, instructions. Accesses are aligned, or fastest, at
    `alignment_bytes`. `holds` restricts what may lie in it to some of `ROLES`; without it anything
    may. `direct_bytes_per_second` is what the cores that share it get by loads and stores of their
    own, all together.
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
        """Bytes that buffers may take."""
        return self.capacity_bytes - self.reserved_bytes


Way: TypeAlias = Literal["get", "put"]
"""Towards the cores, or away from them."""


class Direction(Struct, frozen=True, forbid_unknown_fields=True):
    """One way of an engine, from the memory that it `reads` to the one that it `writes`.

    `peak_bytes_per_second` is that of all `channels` together; a file may give `bytes_per_cycle` of
    one channel in its place. A contiguous block of s bytes counts as `ceil(s / transaction_bytes)`
    transactions plus `block_overhead_transactions`; each takes `transaction_bytes / peak`.
    """

    reads: Text
    writes: Text
    peak_bytes_per_second: PositiveFloat
    block_overhead_transactions: NonNegativeFloat = 0.0
    channels: PositiveInt = 1
    bytes_per_cycle: PositiveFloat | None = None


class DescriptorLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one descriptor of an engine, and of how many wait at a time; None: no limit."""

    size_bytes: PositiveInt | None = None
    block_bytes: PositiveInt | None = None
    stride_bytes: PositiveInt | None = None
    dimensions: PositiveInt | None = None
    descriptors: PositiveInt | None = None


class Engine(Struct, frozen=True, forbid_unknown_fields=True):
    """`count` equal engines of each core, of each group or of the machine that move data.

    `latency_cycles` is the time from a request to its first data; `issue_cycles` is what the core
    itself spends to build and issue one descriptor. `shared_block_overhead_transactions` takes the
    place of a get's block overhead where all groups read the same data at the same time. An engine
    that is `synchronous` is the core itself: it computes nothing meanwhile, and a second buffer is
    of no use. A file gives the `directions` as tables of the engine's own.
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

    A message of s bytes that passes h links takes `send_cycles + h * hop_cycles + (header_bytes +
    s) / bytes_per_cycle + receive_cycles`; `gap_cycles` pass between two of one sender
    (`machine.messages`). A core's port takes one message at a time of all links, or is as wide as
    all of them.
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
    """How a core issues long operations: it `waits` for each, or keeps a `window` of
    them in flight, whose slots are freed in order, or when an operation is done (a scoreboard).
    """

    rule: Literal["waits", "window"]
    width: PositiveInt = 1
    in_flight: PositiveInt = 1
    freed: Literal["in_order", "when_done"] = "in_order"
