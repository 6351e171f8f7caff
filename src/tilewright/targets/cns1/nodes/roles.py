"""The program of a node that has shares of a divided network: products, messages, look-ups, maps.

In: shares and exchanges. Out: text, the initial contents of main memory, and the places of results.
Numbers that differ between nodes of one role, hops and addresses, are in a table at the start of
main memory, so that all of them run the same text. A pass takes some patterns through the network.

Registers: `$28` the vector length, `$30` the bytes of a vector; callees may use all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, cast

from tilewright.common.errors import CapacityError, PartitionError
from tilewright.machine import Machine
from tilewright.machine.messages import hops_to
from tilewright.machine.parts import Fabric
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.targets.cns1.code import ARGUMENTS, CODE
from tilewright.targets.cns1.emit import calls
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.timing.layers import ROWS_AT_ONCE, STRIPE
from tilewright.tune.choose import choose

TABLE_BYTES = 8192
BLOCK = 128
"""Most bytes of a message."""
_WORD, _RETURN, _LEFT = 4, 0, 4
_ALIGNMENT = 128


@dataclass(frozen=True)
class NodeRoutine:
    """The code of an operator. `operands` are the names of its operands and result, `arguments`
    their order in a call; its labels begin with its `kind`.
    """

    kind: str
    lines: tuple[str, ...]
    operands: tuple[str, ...]
    arguments: tuple[str, ...]
    cycles: float


def node_routine(op: Op, machine: Machine) -> NodeRoutine:
    """The best code of an operator on a node. Raises the errors of `choose`."""
    return _routine(cast("Any", op), machine)  # operators are frozen dataclasses


@cache
def _routine(op: Op, machine: Machine) -> NodeRoutine:
    node = machine.of_one_program
    (choice,) = choose([op], node, keep=1)
    candidate = choice.best.candidate
    artifact = CODE.emit(candidate.program(node), node)
    (text,) = artifact.files.values()
    operands = (*candidate.seed.operands, candidate.seed.result)
    arguments = tuple(info.name for info in artifact.tensors)
    return NodeRoutine("map", tuple(text.splitlines()), operands, arguments, choice.best.cycles)


@cache
def product_routine(product: calls.NodeProduct, machine: Machine) -> NodeRoutine:
    """Sums c = a b with factors a of whole rows, and weights b and sums c with the bytes of their
    rows. Takes as many terms at a time as fit the data cache, which is not refilled if all fit and
    the previous call had the same factors. Raises CapacityError if none fit.
    """
    writer, size = Writer(), product.factor_bytes
    block = block_of_terms(machine, product.m, product.k, size, along=product.along_terms)
    step = calls.WEIGHT_BYTES if product.along_terms else product.weight_row_bytes
    writer.add("$28 = 32", "vlr = $28", f"$30 = {BLOCK}", "$16 = $6")
    for start in range(0, product.k, block):
        terms, filled = min(block, product.k - start), writer.label("filled")
        if block == product.k:
            writer.add(f"if ($7 != $0) {filled}", "nop")
        _cached(writer, "$4", start * size, (product.m, terms * size, product.factor_row_bytes), 0)
        writer.place(filled)
        writer.add("$7 = 0", "$16 = $6")
        writer.sum("$15", "$5", start * step, "$11")
        part = replace(product, k=terms, factor_row_bytes=terms * size, from_zero=not start)
        calls.write_product(writer, machine, part)
    return _returned(writer, "product", "filled")


@cache
def part_routine(product: calls.NodeProduct, machine: Machine, terms: int) -> NodeRoutine:
    """Sums c plus a part of the terms. The cache has rows of all `terms`; `$7` is the place of the
    part in the first of them.
    """
    writer, size = Writer(), product.factor_bytes
    writer.add("$28 = 32", "vlr = $28", f"$30 = {BLOCK}")
    for row in range(product.m):
        writer.sum("$15", "$4", row * product.factor_row_bytes, "$11")
        writer.sum("$16", "$7", row * terms * size, "$11")
        calls.write_get(writer, 1, product.k * size, product.factor_row_bytes)
    writer.add("$15 = $5", "$16 = $6")
    calls.write_product(writer, machine, replace(product, factor_row_bytes=terms * size))
    return _returned(writer, "part", "place")


def block_of_terms(machine: Machine, m: int, k: int, size: int, *, along: bool) -> int:
    """Terms of m rows of factors of so many bytes that fit the data cache, k at most."""
    unit = STRIPE if along else ROWS_AT_ONCE
    return min(k, _room(machine, m * size * unit) * unit)


@cache
def update_routine(update: calls.Update, machine: Machine) -> NodeRoutine:
    """Weights c plus the outer product of m bytes a and n halves b, summed over patterns. Takes as
    many columns and rows at a time as fit the data cache; the errors of a set stay in memory.
    Raises CapacityError if none fit.
    """
    writer = Writer()
    if update.patterns > 1:
        return _set_routine(writer, machine, update)
    columns, rows = update_blocks(machine, update.m, update.n)
    writer.add("$28 = 32", "vlr = $28", f"$30 = {BLOCK}")
    for left in range(0, update.n, columns):
        width = min(columns, update.n - left)
        errors = calls.WEIGHT_BYTES * width
        _cached(
            writer, "$5", calls.WEIGHT_BYTES * left, (1, errors, calls.WEIGHT_BYTES * update.n), 0
        )
        for top in range(0, update.m, rows):
            height = min(rows, update.m - top)
            _cached(writer, "$4", top, (1, height, update.m), errors)
            writer.add("$17 = 0")
            writer.constant("$7", errors)
            writer.sum("$18", "$6", top * update.row_bytes + calls.WEIGHT_BYTES * left, "$11")
            calls.write_update(writer, machine, replace(update, m=height, n=width))
    return _returned(writer, "update")


def _set_routine(writer: Writer, machine: Machine, update: calls.Update) -> NodeRoutine:
    """The update by a set of patterns, with as many rows at a time as fit the data cache."""
    rows, patterns = set_rows(machine, update.m, update.patterns), update.patterns
    writer.add("$28 = 32", "vlr = $28", f"$30 = {BLOCK}")
    for top in range(0, update.m, rows):
        height = min(rows, update.m - top)
        _cached(writer, "$4", top, (patterns, height, update.m), 0, as_words=True)
        writer.add("$17 = $5")
        writer.sum("$8", "$6", top * update.row_bytes, "$11")
        calls.write_set_update(writer, machine, replace(update, m=height))
    return _returned(writer, "update")


def set_rows(machine: Machine, m: int, patterns: int) -> int:
    """Rows of an update by a set of patterns whose factors fit the data cache: as few blocks as
    possible, equal up to a group of rows.
    """
    blocks = -(-m // (_room(machine, patterns * _WORD * ROWS_AT_ONCE) * ROWS_AT_ONCE))
    return -(-m // (blocks * ROWS_AT_ONCE)) * ROWS_AT_ONCE


def update_blocks(machine: Machine, m: int, n: int) -> tuple[int, int]:
    """Columns and rows of an update by data and errors that fit the data cache: whole stripes and
    words, and as many columns as leave room for some rows. Raises CapacityError if none fit.
    """
    fewest = min(m, STRIPE)
    room = _room(machine, 1)
    _room(machine, calls.WEIGHT_BYTES * STRIPE + fewest)
    for parts in range(1, n // STRIPE):
        columns = -(-n // STRIPE // parts) * STRIPE
        if room - calls.WEIGHT_BYTES * columns >= fewest:
            break
    else:
        columns = STRIPE
    rows = (room - calls.WEIGHT_BYTES * columns) // ROWS_AT_ONCE * ROWS_AT_ONCE
    return columns, min(m, rows)


def _room(machine: Machine, size_bytes: int) -> int:
    """How many times so many bytes fit the data cache. Raises CapacityError if they do not fit."""
    room = machine.space("cache").available_bytes
    if size_bytes > room:
        raise CapacityError(
            f"factors take {size_bytes} bytes of the data cache of a node, which has {room}",
            fix="divide the network over more nodes",
        )
    return room // size_bytes


def _cached(
    writer: Writer,
    register: str,
    offset: int,
    rows: tuple[int, int, int],
    place: int,
    *,
    as_words: bool = False,
) -> None:
    """Copy rows (their number, bytes and distance in bytes) to a place in the cache."""
    writer.sum("$15", register, offset, "$11")
    writer.constant("$16", place)
    calls.write_get(writer, *rows, as_words=as_words)


def _returned(writer: Writer, kind: str, *others: str) -> NodeRoutine:
    writer.add("goto $31", "nop")
    arguments = ("a", "b", "c", *others)
    return NodeRoutine(kind, tuple(writer.text().splitlines()), arguments, arguments, 0)


@dataclass(frozen=True)
class MemoryRows:
    """Rows of memory: `count` of `size_bytes` at a distance of `step_bytes`. `start` is an address,
    or the operand that loads one.
    """

    start: int | str
    count: int
    size_bytes: int
    step_bytes: int

    @property
    def words(self) -> list[int]:
        """Words of each message of a row."""
        whole, rest = divmod(self.size_bytes, BLOCK)
        return [BLOCK // _WORD] * whole + ([rest // _WORD] if rest else [])


@dataclass(frozen=True)
class WeightPlace:
    """A region of a weight at an address, transposed if `turned`, and repeated to `shape` if it has
    fewer elements.
    """

    address: int
    tensor: str
    box: Box
    turned: bool = False
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class StateBlock:
    """A region of a state at an address, by rows, or stripe by stripe of rows."""

    address: int
    box: Box
    striped: bool

    @property
    def row_bytes(self) -> int:
        return calls.STRIPE_BYTES if self.striped else calls.WEIGHT_BYTES * self.box.shape[1]

    @property
    def stripe_bytes(self) -> int:
        return self.row_bytes * self.box.shape[0] if self.striped else calls.STRIPE_BYTES

    def places(self, name: str) -> Iterator[WeightPlace]:
        """Addresses of the rows, or of the rows of each stripe."""
        left, right = self.box.sides[1]
        width = STRIPE if self.striped else right - left
        for number, first in enumerate(range(left, right, width)):
            part = Box.of(self.box.sides[0], (first, first + width))
            yield WeightPlace(self.address + number * self.stripe_bytes, name, part)


class Exchange(NamedTuple):
    """A message that a node sends over so many hops across and along, or receives."""

    kind: int
    words: int
    hops: tuple[int, int] | None = None
    to_host: bool = False


_ALONG = {"$7": "$12", "$8": "$13"}


def _sent(kind: int) -> tuple[str, ...]:
    return "$v1 = m[$12+=$30].w", f"send($5, $6, $v1, {kind})"


def _received(kind: int, *, adds: bool) -> tuple[str, ...]:
    return f"$v1 = receive({kind})", *_stored(adds=adds)


def _stored(*, adds: bool) -> tuple[str, ...]:
    added = ("$v2 = m[$13].w", "$v1 = $v1 + $v2") if adds else ()
    return *added, "m[$13+=$30].w = $v1"


@dataclass
class NodeRole:
    """A node's program under construction."""

    machine: Machine
    fabric: Fabric
    node: int
    passes: int
    writer: Writer = field(default_factory=Writer)
    words: list[int] = field(default_factory=lambda: [0, 0])
    end: int = TABLE_BYTES
    constants: list[WeightPlace] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    _called: dict[NodeRoutine, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.words[_LEFT // _WORD] = self.passes
        self.writer.add(f"m[$0+{_RETURN}].w = $31")
        self.writer.place("pass")
        self.vectors()

    def vectors(self) -> None:
        """Restore the length of whole vectors."""
        self.writer.add("$28 = 32", "vlr = $28", f"$30 = {BLOCK}")

    def room(self, size_bytes: int, *, lines: bool = False) -> int:
        """Reserve so many bytes; returns their address, with `lines` at a new line of all chips."""
        step = self.machine.section(Rdram).open_bytes if lines else _ALIGNMENT
        start = -(-self.end // step) * step
        self.end = start + size_bytes
        return start

    def word(self, value: int) -> str:
        """Add a number that is specific to this node; returns the operand that loads it."""
        self.words.append(value)
        if len(self.words) * _WORD > TABLE_BYTES:
            raise PartitionError(
                f"node {self.node} exchanges messages by more than {TABLE_BYTES // _WORD} numbers",
                fix="divide the network over fewer nodes",
            )
        return f"m[$0+{(len(self.words) - 1) * _WORD}].w"

    def call(self, routine: NodeRoutine, places: Sequence[int | str]) -> None:
        """Call an operator's code with the places of its operands and its result."""
        name = self._called.setdefault(routine, f"{routine.kind}_{len(self._called)}")
        of = dict(zip(routine.operands, places, strict=True))
        for register, tensor in zip((*ARGUMENTS, "$7"), routine.arguments, strict=False):
            self.load(register, of[tensor])
        self.writer.add(f"call {name}, $31", "nop")
        self.vectors()

    def load(self, register: str, place: int | str) -> None:
        """register = an address, or a number from the table."""
        if isinstance(place, str):
            self.writer.add(f"{register} = {place}")
        else:
            self.writer.constant(register, place)

    def send(self, rows: MemoryRows, target: int, kind: int, *, to_host: bool = False) -> None:
        """Send rows to another node, or to an I/O node."""
        self._exchange(rows, self._to(target, kind, to_host=to_host), {"$7": rows}, *_sent(kind))

    def receive(self, rows: MemoryRows, kind: int, *, adds: bool) -> None:
        """Store arriving messages in rows, or add them."""
        self._exchange(rows, Exchange(kind, 0), {"$8": rows}, *_received(kind, adds=adds))

    def swap(
        self, sent: MemoryRows, target: int, kind: int, rows: MemoryRows, came: int, *, adds: bool
    ) -> None:
        """Send rows, and after each message receive one of another kind into as many rows; this
        hides some of the time in which the interface is busy.
        """
        one, lines = self._to(target, kind), (*_sent(kind), *_received(came, adds=adds))
        self._exchange(sent, one, {"$7": sent, "$8": rows}, *lines, behind=Exchange(came, 0))

    def _to(self, target: int, kind: int, *, to_host: bool = False) -> Exchange:
        """A message to a node, its hops in `$5` and `$6`."""
        across, along = hops_to(self.fabric, self.node, target)
        self.writer.add(f"$5 = {self.word(along)}", f"$6 = {self.word(across)}")
        return Exchange(kind, 0, (across, along), to_host)

    def _exchange(
        self,
        rows: MemoryRows,
        one: Exchange,
        pointers: dict[str, MemoryRows],
        *lines: str,
        behind: Exchange | None = None,
    ) -> None:
        for words in rows.words * rows.count:
            self.exchanges += [e._replace(words=words) for e in (one, behind) if e is not None]
        self._rows(pointers, lines)

    def zero(self, rows: MemoryRows) -> None:
        """Zero rows that follow each other, up to a whole vector."""
        self.load("$16", rows.start)
        self.writer.add(*["m[$16+=$30].w = $v0"] * -(-rows.count * rows.size_bytes // BLOCK))

    def move(self, source: MemoryRows, rows: MemoryRows, *, adds: bool) -> None:
        """Copy rows to others, or add them."""
        self._rows({"$7": source, "$8": rows}, ("$v1 = m[$12+=$30].w", *_stored(adds=adds)))

    def _rows(self, pointers: dict[str, MemoryRows], lines: Sequence[str]) -> None:
        """Write lines for each message of each row; `$12`, `$13` go along rows of `$7`, `$8`."""
        writer, (first, *_) = self.writer, pointers.values()
        for register, rows in pointers.items():
            self.load(register, rows.start)
        again = writer.label("rows")
        if first.count > 1:
            writer.constant("$29", first.count)
            writer.place(again)
        for register in pointers:
            writer.add(f"{_ALONG[register]} = {register}")
        for words in first.words:
            if words != BLOCK // _WORD:
                writer.add(f"$11 = {words}", "vlr = $11", *lines, "vlr = $28")
            else:
                writer.add(*lines)
        if first.count > 1:
            for register, rows in pointers.items():
                writer.sum(register, register, rows.step_bytes, "$11")
            writer.add("$29 = $29 - 1", f"if ($29 != $0) {again}", "nop")

    def text(self) -> str:
        """The whole source: passes as long as some are left, then the operators' code."""
        left = f"m[$0+{_LEFT}].w"
        self.writer.add(f"$5 = {left}", "$5 = $5 - 1", f"{left} = $5", "if ($5 != $0) pass", "nop")
        self.writer.add(f"$31 = m[$0+{_RETURN}].w", "goto $31", "nop")
        routines = (_renamed(routine, name) for routine, name in self._called.items())
        return self.writer.text() + "".join(routines)


@cache
def _renamed(routine: NodeRoutine, name: str) -> str:
    """The lines of a routine under a name that also prefixes its labels."""
    text = "\n".join(routine.lines)
    labels = set(re.findall(r"^\s*(\w+):", text, re.MULTILINE))
    for label in labels:
        text = re.sub(rf"\b{label}\b", f"{name}_{label}", text)
    return f"{name}:\n{text}\n"
