"""Dependence graph of straight-line code and of loop bodies: the input of list and modulo
scheduling.

In: operations in program order, each with its registers, functional units, memory access and
channels. Out: a list of `Dependence(source, target, distance, delay_cycles, kind)`, each requiring
that `target` of iteration `k + distance` issues at least `delay_cycles` after `source` of iteration
`k`. Follows the "dependence analysis" step of swDNN (IPDPS 2017) section VI, and its in-order rules
of section VI-A.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tilewright.common.errors import ScheduleError
from tilewright.isa.table import IssueRules


class DependenceKind(Enum):
    """Why two operations must keep their order."""

    READ_AFTER_WRITE = "RAW"
    WRITE_AFTER_READ = "WAR"
    WRITE_AFTER_WRITE = "WAW"
    MEMORY = "memory"
    CHANNEL = "channel"
    BARRIER = "barrier"


@dataclass(frozen=True)
class MemoryAccess:
    """`size_bytes` at `base + displacement_bytes` of a memory; the base register is read when the
    operation issues. Accesses to different memories never overlap.
    """

    base: int
    displacement_bytes: int
    size_bytes: int
    is_store: bool = False
    smallest_displacement: int = -(1 << 15)
    largest_displacement: int = (1 << 15) - 1
    memory: str = ""


@dataclass(frozen=True)
class Operation:
    """The scheduling properties of one instruction.

    `units` are alternatives, of which one is busy for `occupancy_cycles`; a result is usable
    `latency_cycles` after issue. `channels` are first-in-first-out streams whose order must be kept
    (register communication). `increment_bytes` is set if the operation is `r = r + constant` on its
    only written register. A `barrier` is ordered against every memory access, channel and barrier.
    `branch` marks the branch that ends a loop body. Of the written registers, `address_writes` are
    usable in the next cycle, whatever the latency.
    """

    name: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    units: tuple[str, ...] = ()
    latency_cycles: int = 1
    occupancy_cycles: int = 1
    memory: MemoryAccess | None = None
    channels: tuple[str, ...] = ()
    increment_bytes: int | None = None
    barrier: bool = False
    branch: bool = False
    address_writes: tuple[int, ...] = ()

    def latency_of(self, register: int) -> int:
        """Cycles from issue until a written register can be read."""
        return 1 if register in self.address_writes else self.latency_cycles

    def __post_init__(self) -> None:
        if not self.units:
            raise ScheduleError(f"operation '{self.name}' names no functional unit")


@dataclass(frozen=True)
class AliasRules:
    """Alias information on pointers: registers that map to different objects never address the same
    byte.

    A register without an entry may address anything.
    """

    objects: Mapping[int, str] = field(default_factory=dict)

    def disjoint(self, base: int, other: int) -> bool:
        """True if accesses through two different registers are known not to overlap."""
        one, two = self.objects.get(base), self.objects.get(other)
        return one is not None and two is not None and one != two


@dataclass(frozen=True)
class Dependence:
    """`target` of iteration k + distance issues at least `delay_cycles` after `source` of k."""

    source: int
    target: int
    distance: int
    delay_cycles: int
    kind: DependenceKind
    what: str = ""


@dataclass(frozen=True)
class AddressUse:
    """A memory access whose base only advances by constants, so that it may move across these
    additions.

    The emitter corrects its displacement by `step_bytes` for each addition it crosses, so only the
    latency of the addition (not its order) constrains the pair.
    """

    access: int
    increment: int
    step_bytes: int


@dataclass(frozen=True)
class DependenceGraph:
    """Operations with all their orderings; `address_uses` are the relaxed register orderings.

    `versions` are the sets of operations that execute together; empty means a single set of all.
    """

    operations: tuple[Operation, ...]
    edges: tuple[Dependence, ...]
    address_uses: tuple[AddressUse, ...] = ()
    versions: tuple[frozenset[int], ...] = ()

    @property
    def members(self) -> tuple[frozenset[int], ...]:
        """The versions, at least one."""
        return self.versions or (frozenset(range(len(self.operations))),)


def build_dependences(
    operations: Sequence[Operation],
    *,
    rules: IssueRules,
    aliases: AliasRules | None = None,
    loop: bool = True,
    relax_addresses: bool = True,
) -> DependenceGraph:
    """All orderings of a loop body (`loop`) or of straight-line code (distance 0 only).

    With `relax_addresses`, accesses may cross additions of constants to their base register; see
    `AddressUse`.
    """
    body = tuple(operations)
    uses = tuple(_address_uses(body)) if relax_addresses else ()
    relaxed = {(use.access, use.increment) for use in uses}
    edges = [
        *_register_edges(body, rules, relaxed),
        *_memory_edges(body, aliases or AliasRules()),
        *_channel_edges(body),
        *_barrier_edges(body),
    ]
    kept = [edge for edge in edges if loop or edge.distance == 0]
    return DependenceGraph(body, tuple(_strongest(kept)), uses)


def _strongest(edges: Sequence[Dependence]) -> list[Dependence]:
    """Keeps, for each (source, target, distance), the edge with the longest delay."""
    best: dict[tuple[int, int, int], Dependence] = {}
    for edge in edges:
        key = (edge.source, edge.target, edge.distance)
        if key not in best or best[key].delay_cycles < edge.delay_cycles:
            best[key] = edge
    return list(best.values())


def advancing_registers(body: Sequence[Operation]) -> dict[int, int]:
    """Registers that the body changes only by adding constants, with their advance per iteration in
    bytes.

    Registers that the body never writes advance by 0.
    """
    advance: dict[int, int | None] = {}
    for operation in body:
        for register in operation.reads:
            advance.setdefault(register, 0)
        for register in operation.writes:
            before = advance.get(register, 0)
            step = operation.increment_bytes
            advance[register] = None if before is None or step is None else before + step
    return {register: step for register, step in advance.items() if step is not None}


def _address_uses(body: tuple[Operation, ...]) -> Iterator[AddressUse]:
    advancing = advancing_registers(body)
    for index, operation in enumerate(body):
        access = operation.memory
        # A base that is also data, or that the access itself changes, must be read in its original
        # position.
        if access is None or access.base not in advancing or access.base in operation.writes:
            continue
        if operation.reads.count(access.base) != 1:
            continue
        for position, increment in enumerate(body):
            if access.base in increment.writes and increment.increment_bytes is not None:
                yield AddressUse(index, position, increment.increment_bytes)


def _register_edges(
    body: tuple[Operation, ...], rules: IssueRules, relaxed: set[tuple[int, int]]
) -> Iterator[Dependence]:
    writers: dict[int, list[int]] = {}
    for index, operation in enumerate(body):
        for register in operation.writes:
            writers.setdefault(register, []).append(index)
    for register, sources in writers.items():
        yield from _write_edges(body, rules, register, sources)
        for index, operation in enumerate(body):
            if register in operation.reads:
                yield from _read_edges(body, rules, register, sources, index, relaxed)


def _write_edges(
    body: tuple[Operation, ...], rules: IssueRules, register: int, sources: list[int]
) -> Iterator[Dependence]:
    kind = DependenceKind.WRITE_AFTER_WRITE
    for position, source in enumerate(sources):
        last = position + 1 == len(sources)
        target, distance = (sources[0], 1) if last else (sources[position + 1], 0)
        delay = body[source].latency_of(register)
        if rules.write_after_write == "ordered":
            delay = max(1, delay - body[target].latency_of(register) + 1)
        yield Dependence(source, target, distance, delay, kind, str(register))


def _read_edges(
    body: tuple[Operation, ...],
    rules: IssueRules,
    register: int,
    sources: list[int],
    reader: int,
    relaxed: set[tuple[int, int]],
) -> Iterator[Dependence]:
    before = [source for source in sources if source < reader]
    after = [source for source in sources if source > reader]
    writer, distance = (before[-1], 0) if before else (sources[-1], 1)
    if (reader, writer) not in relaxed:
        latency = body[writer].latency_of(register)
        kind = DependenceKind.READ_AFTER_WRITE
        yield Dependence(writer, reader, distance, latency, kind, str(register))
    # A reader that also writes the register is the next writer itself.
    if reader in sources:
        return
    following, distance = (after[0], 0) if after else (sources[0], 1)
    if (reader, following) not in relaxed:
        together = rules.write_after_read == "same_cycle" and not body[reader].branch
        delay = 0 if together else 1
        kind = DependenceKind.WRITE_AFTER_READ
        yield Dependence(reader, following, distance, delay, kind, str(register))


def _memory_edges(body: tuple[Operation, ...], aliases: AliasRules) -> Iterator[Dependence]:
    advancing = advancing_registers(body)
    accesses = [index for index, operation in enumerate(body) if operation.memory is not None]
    offsets = _base_offsets(body)
    for position, one in enumerate(accesses):
        for two in accesses[position:]:
            first, second = body[one].memory, body[two].memory
            if first is None or second is None or not (first.is_store or second.is_store):
                continue
            if first.memory != second.memory:
                continue
            forward, backward = _conflict_distances(
                first, second, offsets[one], offsets[two], advancing, aliases
            )
            kind, what = DependenceKind.MEMORY, f"{first.base}/{second.base}"
            if forward is not None and one != two:
                yield Dependence(one, two, forward, body[one].occupancy_cycles, kind, what)
            if backward is not None:
                yield Dependence(two, one, backward, body[two].occupancy_cycles, kind, what)


def _base_offsets(body: tuple[Operation, ...]) -> list[int]:
    """Bytes already added, within one iteration, to the base register of each access."""
    added: dict[int, int] = {}
    offsets = []
    for operation in body:
        offsets.append(added.get(operation.memory.base, 0) if operation.memory else 0)
        if operation.increment_bytes is not None:
            register = operation.writes[0]
            added[register] = added.get(register, 0) + operation.increment_bytes
    return offsets


def _conflict_distances(
    first: MemoryAccess,
    second: MemoryAccess,
    first_offset: int,
    second_offset: int,
    advancing: Mapping[int, int],
    aliases: AliasRules,
) -> tuple[int | None, int | None]:
    """Least distances at which accesses meet: first -> second (>= 0), second -> first (>= 1)."""
    if first.base != second.base:
        return (None, None) if aliases.disjoint(first.base, second.base) else (0, 1)
    if first.base not in advancing:
        return 0, 1
    step = advancing[first.base]
    gap = (first.displacement_bytes + first_offset) - (second.displacement_bytes + second_offset)
    forward = _smallest_overlap(gap, step, first.size_bytes, second.size_bytes, 0)
    backward = _smallest_overlap(-gap, step, second.size_bytes, first.size_bytes, 1)
    return forward, backward


def _smallest_overlap(gap: int, step: int, size: int, later_size: int, start: int) -> int | None:
    """Least d >= start for which [gap, gap+size) overlaps [d*step, d*step+later_size), if any."""
    low, high = gap - later_size + 1, gap + size - 1
    if step == 0:
        return start if low <= 0 <= high else None
    if step < 0:
        low, high, step = -high, -low, -step
    distance = max(start, -(-low // step))
    return distance if distance * step <= high else None


def _chain(members: Sequence[int], kind: DependenceKind, what: str) -> Iterator[Dependence]:
    """Keeps `members` in order, one per cycle, the last before the next iteration's first."""
    for position, source in enumerate(members):
        last = position + 1 == len(members)
        target, distance = (members[0], 1) if last else (members[position + 1], 0)
        yield Dependence(source, target, distance, 1, kind, what)


def _channel_edges(body: tuple[Operation, ...]) -> Iterator[Dependence]:
    channels = sorted({channel for operation in body for channel in operation.channels})
    for channel in channels:
        members = [i for i, operation in enumerate(body) if channel in operation.channels]
        yield from _chain(members, DependenceKind.CHANNEL, channel)


def _barrier_edges(body: tuple[Operation, ...]) -> Iterator[Dependence]:
    barriers = [index for index, operation in enumerate(body) if operation.barrier]
    ordered = [i for i, op in enumerate(body) if op.memory or op.channels or op.barrier]
    for barrier in barriers:
        for other in ordered:
            if other == barrier:
                continue
            first, second = min(barrier, other), max(barrier, other)
            yield Dependence(first, second, 0, 1, DependenceKind.BARRIER)
            yield Dependence(second, first, 1, 1, DependenceKind.BARRIER)
