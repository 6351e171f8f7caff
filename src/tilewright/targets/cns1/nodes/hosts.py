"""The Hydrants, the I/O nodes below the mesh, as programs: they read a port to the outside world
and send blocks up the columns (Tables 4.2 and 4.3 of ICSI TR-93-046).

In: a machine, and for a divided network the inputs and outputs of each column's nodes in a pass.
Out: the cycle in which each of four neighbouring Hydrants sends its first block up; for a network,
the programs of all Hydrants. A Hydrant with a port reads the blocks of several columns, sends each
to its column, and writes the blocks that come back. The inputs of a pass go up while the one before
is computed, if the nodes have room for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Machine
from tilewright.machine.messages import send_cycles
from tilewright.machine.parts import Fabric
from tilewright.ops.box import Box
from tilewright.ops.op import Array, Arrays
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.nodes.roles import BLOCK
from tilewright.targets.cns1.nodes.run import IDLE, NodeStart, run_nodes
from tilewright.targets.cns1.nodes.shares import KINDS
from tilewright.targets.cns1.nodes.transfers import text_of
from tilewright.targets.cns1.sections import Hosts

_HEAD = ("$5 = 1", "$6 = 2", "$7 = -1", "$8 = 3", "$9 = {height}", "$30 = 128")
_RETURN = ("goto $31", "nop")
_READ = "h[$4+=$30].w"
COLUMNS, BLOCKS = 4, 3
"""Columns that four Hydrants serve; blocks that each sends up, so that the loop runs twice."""


def host_startup_cycles(machine: Machine, height: int, *, apart: bool) -> list[int]:
    """The cycle in which each Hydrant starts its first multicast to `height` rows of Torrents. With
    `apart`, two columns share a vector: the second Hydrant reads two, and all four forward (Table
    4.2). Otherwise the first reads one for all (Table 4.3).
    """
    fabric = msgspec.structs.replace(
        machine.fabrics["torrents"], topology="ring_mesh", rows=height + 1, columns=COLUMNS
    )
    readers = {1: _two_vectors()} if apart else {0: _one_vector()}
    head = [line.format(height=height) for line in _HEAD]
    blocks = BLOCKS * machine.section(Hosts).block_bytes * 2
    nodes = [IDLE] * (fabric.rows * COLUMNS)
    for column in range(COLUMNS):
        text = text_of([*head, *readers.get(column, _forwarding()), *_RETURN])
        nodes[column] = NodeStart(text, {"host": {0: np.zeros(blocks, np.uint8)}})
        nodes[COLUMNS + column] = NodeStart(
            text_of(["$v1 = receive(1)", "$v2 = $v1 + $v1", *_RETURN])
        )
    run = run_nodes(machine, nodes, fabric)
    own = len(_RETURN) + 1 + len(head) + int(send_cycles(fabric, 1, 128))
    return [run.cores[COLUMNS + column].cycles - own for column in range(COLUMNS)]


def _two_vectors() -> Sequence[str]:
    """Hydrant b: a vector for its two upper neighbours, one for itself and its lower neighbour."""
    first = (
        f"$v1 = {_READ}", f"$v2 = {_READ}", "bcast($0, $6, $v1, 0)", "send($0, $7, $v2, 0)",
    )  # fmt: skip
    loop = [*first, "bcast($9, $0, $v3, 1)", "$v3 = $v2"] * (BLOCKS - 1)
    return [*first, "$v3 = $v2", *loop, "bcast($9, $0, $v3, 1)"]


def _one_vector() -> Sequence[str]:
    """Hydrant a: a vector for itself and three neighbours."""
    first = (f"$v1 = {_READ}", "bcast($0, $8, $v1, 0)")
    loop = [*first, "bcast($9, $0, $v3, 1)", "$v3 = $v1"] * (BLOCKS - 1)
    return [*first, "$v3 = $v1", *loop, "bcast($9, $0, $v3, 1)"]


def _forwarding() -> Sequence[str]:
    """A Hydrant without a port."""
    return ["$v1 = receive(0)", "bcast($9, $0, $v1, 1)"] * BLOCKS


_AHEAD = 24
"""Most blocks of the next pass that wait at a node."""


@dataclass(frozen=True)
class Given:
    """A region of an input that a node of a copy takes in each pass."""

    tensor: str
    box: Box
    copy: int

    def blocks(self, values: Array) -> NDArray[np.uint8]:
        """Blocks of a pass; each row has blocks of its own: [block, byte]."""
        rows = np.ascontiguousarray(values[self.box.slices]).view(np.uint8)
        count = -(-rows.shape[1] // BLOCK)
        found = np.zeros((len(rows), count * BLOCK), np.uint8)
        found[:, : rows.shape[1]] = rows
        return found.reshape(-1, BLOCK)

    def count(self, values: Array) -> int:
        """Blocks of a pass."""
        return len(self.blocks(values))


@dataclass(frozen=True)
class Wanted:
    """A region of an output that a node of a copy returns in each pass, in rows of some bytes."""

    tensor: str
    box: Box
    row_bytes: int
    copy: int

    @property
    def count(self) -> int:
        """Blocks of a pass."""
        return self.box.shape[0] * -(-self.row_bytes // BLOCK)

    def put(self, blocks: NDArray[np.uint8], found: Array) -> None:
        """Reassemble the region from its blocks."""
        rows = blocks.reshape(self.box.shape[0], -1)[:, : self.row_bytes]
        found[self.box.slices] = np.ascontiguousarray(rows).view(found.dtype)


@dataclass
class HostColumn:
    """The nodes of a column: their rows, from the I/O nodes on, with their inputs and outputs."""

    nodes: list[tuple[int, tuple[Given, ...], tuple[Wanted, ...]]] = field(default_factory=list)

    def add(self, row: int, given: Sequence[Given], wanted: Sequence[Wanted]) -> None:
        """Add a node."""
        self.nodes.append((row, tuple(given), tuple(wanted)))

    def sent(self, rows: int) -> list[tuple[str, int, Given]]:
        """Messages upwards with their last rows: by `bcast` those for all nodes, then by `send`."""
        every, alike = [given for _, given, _ in self.nodes], 0
        if len(self.nodes) == rows > 1:
            while alike < len(every[0]) and len({given[alike : alike + 1] for given in every}) == 1:
                alike += 1
        cast = [("bcast", rows, one) for one in (every[0][:alike] if every else ())]
        return cast + [("send", row, one) for row, own, _ in self.nodes for one in own[alike:]]

    @property
    def wanted(self) -> list[tuple[int, Wanted]]:
        """Messages downwards, row by row."""
        return [(row, one) for row, _, wanted in sorted(self.nodes) for one in wanted]


@dataclass(frozen=True)
class Outside:
    """The I/O nodes of all columns, for a number of passes of each copy."""

    machine: Machine
    fabric: Fabric
    columns: Sequence[HostColumn]
    passes: int
    copies: int

    @property
    def served(self) -> int:
        """Columns that a port serves."""
        ports = self.machine.section(Hosts).ports
        return -(-len(self.columns) // ports)

    def nodes(self, inputs: Arrays) -> list[NodeStart]:
        """The I/O nodes' programs, for inputs [pass, pattern, ...]."""
        return [self._node(column, inputs) for column in range(len(self.columns))]

    def take(self, core: CoreRun, found: Arrays) -> None:
        """Put the blocks written by an I/O node into the outputs [pass, pattern, ...]."""
        first = core.core
        if first % self.served:
            return
        wanted = [one for c in self._members(first) for _, one in self.columns[c].wanted]
        count = sum(one.count for one in wanted)
        memory = core.memory("host")
        blocks = memory[: self.passes * count * BLOCK].reshape(self.passes, count, BLOCK)
        for number, own in enumerate(blocks):
            place = 0
            for one in wanted:
                values = found[one.tensor][number * self.copies + one.copy]
                one.put(own[place : place + one.count], values)
                place += one.count

    def _members(self, first: int) -> range:
        return range(first, min(first + self.served, len(self.columns)))

    def _sent(self, column: int, inputs: Arrays) -> list[tuple[str, int, NDArray[np.uint8]]]:
        """The messages of a pass: how, how far, and the blocks of all passes [pass, byte]."""
        found = []
        for how, hops, given in self.columns[column].sent(self.fabric.rows - 1):
            of_copy = inputs[given.tensor][given.copy :: self.copies]
            passes = np.stack([given.blocks(values) for values in of_copy])
            found += [(how, hops, passes[:, i]) for i in range(passes.shape[1])]
        return found

    def _node(self, column: int, inputs: Arrays) -> NodeStart:
        first = column - column % self.served
        sent = {c: self._sent(c, inputs) for c in self._members(first)}
        has_port = column == first
        columns = [c for c in sent if c != first] + [first] if has_port else [column]
        order = [
            (c, one)
            for together in zip_longest(*([(c, m) for m in sent[c]] for c in columns))
            for c, one in (pair for pair in together if pair is not None)
        ]
        writer = Writer()
        collected = list(self._collected(column, first))
        if not order and not collected:
            return IDLE
        lines = list(chain.from_iterable(self._up(c, column, one) for c, one in order))
        images = np.array([block for _, (_, _, block) in order]) if has_port and order else None
        start = (
            self.passes
            * BLOCK
            * sum(one.count for c in self._members(first) for _, one in self.columns[c].wanted)
        )
        writer.add("$30 = 128", "$9 = 0")
        writer.constant("$4", start)
        self._loop(writer, lines, collected, ahead=len(order) <= _AHEAD * len(columns))
        host = {} if images is None else {start: np.ascontiguousarray(images.transpose(1, 0, 2))}
        host[start + sum(a.nbytes for a in host.values())] = np.zeros(0, np.uint8)
        return NodeStart(writer.text(), {"host": {at: a.ravel() for at, a in host.items()}})

    def _up(
        self, target: int, column: int, one: tuple[str, int, NDArray[np.uint8]]
    ) -> Iterator[str]:
        """A block on its way up: read or received, then sent on to its column, or up its own."""
        how, hops, _ = one
        has_port = column % self.served == 0
        yield "$v1 = h[$4+=$30].w" if has_port else "$v1 = receive(0)"
        if target != column:
            yield from (f"$8 = {target - column}", "send($0, $8, $v1, 0)")
        else:
            yield from (f"$8 = {hops}", f"{how}($8, $0, $v1, 0)")

    def _collected(self, column: int, first: int) -> Iterator[str]:
        """Write or forward the blocks coming down the column, then those sent by other columns."""
        write = "h[$9+=$30].w = $v1"
        down = [row for row, one in self.columns[column].wanted for _ in range(one.count)]
        for row in down:
            yield f"$v1 = receive({row})"
            if column == first:
                yield write
            else:
                kind = KINDS - (column - first)
                yield from (f"$8 = {first - column}", f"send($0, $8, $v1, {kind})")
        for other in self._members(first)[1:] if column == first else ():
            for _, one in self.columns[other].wanted:
                for _ in range(one.count):
                    yield from (f"$v1 = receive({KINDS - (other - first)})", write)

    def _loop(self, writer: Writer, up: Sequence[str], down: Sequence[str], *, ahead: bool) -> None:
        """All passes: inputs a pass ahead of outputs, or one after the other."""
        first, last = (up, down) if ahead else ((), ())
        rounds = self.passes - ahead
        writer.add(*first)
        if rounds:
            writer.constant("$10", rounds)
            writer.place("pass")
            writer.add(*up, *down, "$10 = $10 - 1", "if ($10 != $0) pass", "nop")
        writer.add(*last, "goto $31", "nop")
