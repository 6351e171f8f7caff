"""The report's own program on all nodes, with values and every message, beside the closed form:
steps 2 and 3 of recall, 2 to 9 of training, cause by cause.

The report has no such table. Under the formula's conventions, messages that share a link follow
each other without a gap, and code stays in the instruction cache. Under the hardware's, they keep
the gap of section 4.1. In the worst case, all codes evict each other (section 4.2.5).

The sums of a stripe of 64 columns, or of the errors of 32 hidden nodes, are exchanged whole in log
p rounds by handlers during the next product; look-ups and scaling follow both (sections 3.2.1,
4.2.4, 6.2). The last 64 hidden nodes are known only after their sums, so the first product of the
outputs takes the other rows first.

Registers: `$vs21` weights of the outputs, `$vs22` start and `$vs23` middle of the sigmoid table,
`$vs24` the desired results, `$vs25` space for the errors of the hidden nodes, `$vs26` the rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from tilewright.graph.tables import RATE
from tilewright.machine import Machine
from tilewright.machine.build import changed
from tilewright.machine.parts import Fabric
from tilewright.papers.cns1.all_nodes import forward_of, random_numbers, weights_after
from tilewright.papers.cns1.cases import (
    AROUND,
    MAPS,
    MODEL,
    OUTSIDE,
    WAITS,
    WORST,
    Parts,
    node_parts,
    recall_parts,
    rows_of_parts,
    simulated_row,
    training_parts,
)
from tilewright.papers.cns1.digits import SHIFT
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.kernels import bodies
from tilewright.targets.cns1.kernels.code import lane_sums, updated_rows
from tilewright.targets.cns1.kernels.elements import ENTRIES
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines
from tilewright.targets.cns1.nodes.run import NodeStart, cycles_of_labels, run_nodes
from tilewright.targets.cns1.nodes.transfers import (
    SUMMED,
    SumMessages,
    exchange_begun,
    handlers,
    installed,
    place_registers,
    text_of,
)
from tilewright.targets.cns1.sections import Messages, NodeCaches, Rdram
from tilewright.targets.cns1.timing.forward import step_misses
from tilewright.targets.cns1.timing.layers import STRIPE, Layers, on_each_node
from tilewright.targets.cns1.timing.messages import hidden_sum, output_sum
from tilewright.targets.cns1.timing.recall import recall_times
from tilewright.targets.cns1.timing.training import backward_misses, training_times

TITLE = "the report's own program on all nodes beside the closed form"
Array = NDArray[Any]
_FORWARD, _BACK = ("$22", "$5"), ("$23", "$29")
"""Registers of a sum: its remaining count, zero when done, and a scratch one."""
_PRODUCTS, _MANY = 17, 1 << 20
_GROUP, _SUM_BYTES = 32, 4
_LENGTHS = ("$2", "$3", "$11", "$12", "$15")
_INTO = 20
"""Instructions into a loop's first line where a short code starts, to evict two lines."""


@dataclass(frozen=True)
class InterleavedProgram:
    """Steps 2 and 3 for one or two patterns; with `trains`, steps 5 to 9 for one."""

    machine: Machine
    local: Layers
    patterns: int
    trains: bool

    @property
    def hidden(self) -> int:
        """Cache address of the hidden vectors; recall overwrites them with outputs."""
        local = self.local
        return local.inputs if self.trains else self.patterns * max(local.inputs, local.outputs)

    @property
    def outputs(self) -> int:
        """Cache address of the outputs."""
        return self.hidden + self.local.hidden if self.trains else 0

    @property
    def errors(self) -> int:
        """Cache address of the outputs' errors, followed by the sums of a group."""
        return self.outputs + self.local.outputs

    @property
    def sums(self) -> tuple[SumMessages, ...]:
        """Global sums of hidden and output vectors, and of the errors of 32 hidden nodes."""
        hidden, outputs = hidden_sum(self.machine), output_sum(self.machine)
        first, vectors = hidden.rounds, 2 * self.patterns
        found = (
            SumMessages(hidden, vectors, 0, _FORWARD[0]),
            SumMessages(outputs, vectors, first, _FORWARD[0]),
        )
        errors = SumMessages(hidden, 1, first + outputs.rounds, _BACK[0])
        return (*found, errors) if self.trains else found

    def text(self, *, together: bool = False) -> str:
        """The program of every node. Routines and handlers follow each other, or, with `together`,
        share the same lines of the instruction cache.
        """
        lines = ["$vs31 = $31", "$28 = 32", "vlr = $28", "vshift = $22", "$30 = 128"]
        lines += [*installed(self.sums, _FORWARD[1]), *self._forward()]
        lines += self._backward() if self.trains else ()
        lines += ["$31 = $vs31", "goto $31", "nop"]
        every = [*self._routines()]
        for one in self.sums:
            every += _apart([*handlers(self.machine, one)])
        sets = self.machine.section(NodeCaches).instruction_bytes // bodies.WORD_BYTES
        for code in every:
            place = 0 if any(line.startswith("loop") for line in code) else _INTO
            rows = sum(not line.endswith(":") for line in lines)
            lines += ["nop"] * ((place - rows) % sets if together else 0)
            lines += code
        return text_of(lines)

    def _routines(self) -> Iterator[list[str]]:
        yield _routine("product", self._looped(bodies.forward_body(self.patterns), "product"))
        for step, one in enumerate(self.sums[:2], 1):
            yield _routine(f"sigmoid_{step}", self._sigmoid(one))
        if self.trains:
            yield _routine("group", self._group())
            yield _routine("scale", self._scaled())
            yield _routine("update", self._update())

    def _looped(self, body: bodies.Body, name: str) -> list[str]:
        return _with_loop_label(pipelined_lines(body, self.machine, _MANY), name)

    def _forward(self) -> Iterator[str]:
        """Both layers, from inputs to outputs in the data cache."""
        local, (hidden, outputs, *_) = self.local, self.sums
        yield from self._layer("$0", local.hidden, 0, local.inputs, local.inputs)
        yield from (f"$8 = {self.hidden}", f"$17 = {self.hidden + local.hidden}")
        yield from (*self._started(), *_called("product"), "$4 = $4 + $30", *self._summed(hidden))
        yield from self._stripes(1, hidden, local.hidden)
        yield from self._layer(
            "$vs21", local.outputs, self.hidden, local.hidden, local.hidden - STRIPE
        )
        yield from (*self._started(), *(_called("product") if local.hidden > STRIPE else ()))
        yield from (f"await ({_FORWARD[0]} == $0)", *_called("sigmoid_1"))
        yield from (f"$10 = {self.hidden + local.hidden}", *_called("product"), "$4 = $4 + $30")
        yield from (f"$8 = {self.outputs}", f"$17 = {self.outputs + local.outputs}")
        yield from self._summed(outputs)
        yield from self._stripes(2, outputs, local.outputs)
        yield from (f"await ({_FORWARD[0]} == $0)", *_called("sigmoid_2"))

    def _layer(
        self, weights: str, columns: int, inputs: int, input_step: int, rows: int
    ) -> Iterator[str]:
        """Set a layer's pointers: `$4` weights, `$9` bytes per row, `$15` end of the first row."""
        yield from (f"$4 = {weights}", f"$9 = {columns}", "$9 = $9 << 1", "$15 = $4 + $9")
        yield from (f"$7 = {inputs}", f"$16 = {inputs + input_step}", f"$10 = {inputs + rows}")

    def _stripes(self, step: int, one: SumMessages, columns: int) -> Iterator[str]:
        """All stripes except the first."""
        if columns == STRIPE:
            return
        first, *others = (*self._started(), *_called("product"))
        yield from (f"stripe_{step}: {first}", *others, "$4 = $4 + $30")
        yield from (f"await ({_FORWARD[0]} == $0)", *_called(f"sigmoid_{step}"))
        yield from (*self._summed(one), f"if ($4 != $15) stripe_{step}", "nop")

    def _started(self) -> Iterator[str]:
        """Set pointers to the first row of a stripe, and clear the sums."""
        yield from ("$14 = $4", "$20 = $4 + 64", "$13 = $7", "$18 = $16")
        yield from (f"$v{_PRODUCTS + i} = $v0" for i in range(2 * self.patterns))

    def _summed(self, one: SumMessages) -> Iterator[str]:
        yield from (f"$v{SUMMED + i} = $v{_PRODUCTS + i}" for i in range(one.vectors))
        yield from exchange_begun(self.machine, one, _FORWARD[1])

    def _sigmoid(self, one: SumMessages) -> Iterator[str]:
        """Load the table into the open lines, then look up and store each vector."""
        rdram = self.machine.section(Rdram)
        yield from ("$23 = $vs23", "$29 = $vs22")
        lines = -(-ENTRIES // rdram.open_bytes) * rdram.chips_per_port
        yield from ("$v0 = m[$29+=$30].w" for _ in range(lines))
        for i in range(one.vectors):
            yield f"$v{21 + i} = $v0 addap0 {one.result(i)}"
            yield f"$v{25 + i} = m[$23+$v{21 + i}].b"
            yield f"d[{'$8' if i < 2 else '$17'}+=$28].b = $v{25 + i}"

    def _backward(self) -> Iterator[str]:
        """Steps 5 to 9, from outputs in the data cache to new weights."""
        local, sums = self.local, self.errors + 2 * self.local.outputs
        yield from ("errors: $8 = 64", "$4 = $vs24", f"$13 = {self.outputs}")
        yield from (f"$16 = {self.errors}", "$2 = $vs26", "$vs1 = $2")
        yield f"$10 = {self.outputs + local.outputs}"
        yield from self._looped(bodies.errors_body(), "errors")
        yield from ("back: $4 = $vs21", *_rows(local.outputs), "$30 = 4", "$1 = 1", "$vs9 = $1")
        yield from (f"{register} = {16 >> i}" for i, register in enumerate(_LENGTHS))
        yield from (f"$7 = {self.errors}", f"$10 = {sums}", f"$5 = {self.hidden}")
        yield from (f"$19 = {sums}", "$18 = $vs25", f"$24 = {local.hidden // _GROUP - 1}")
        one, awaited = self.sums[2], f"await ({_BACK[0]} == $0)"
        summed = [f"$v{SUMMED} = d[$19].w", *exchange_begun(self.machine, one, _BACK[1])]
        first, *others = _called("group")
        yield from (first, *others, *summed, f"groups: {first}", *others, awaited)
        yield from (*_called("scale"), *summed, "$24 = $24 - 1", "if ($24 != $0) groups", "nop")
        yield from (awaited, *_called("scale"))
        yield from self._updated("$vs21", local.outputs, self.hidden, local.hidden, self.errors)
        yield from self._preloaded()
        yield from self._updated("$0", local.hidden, 0, local.inputs, self.hidden)

    def _group(self) -> Iterator[str]:
        """Sums of 32 rows times the errors, four rows at a time (Table 6.2)."""
        sums = range(_PRODUCTS, _PRODUCTS + bodies.ROWS)
        yield from ("$22 = $19", f"$21 = $19 + {_SUM_BYTES * _GROUP}")
        yield from ("rows: $14 = $4", "$20 = $4 + 64", "$13 = $7", *(f"$v{s} = $v0" for s in sums))
        yield from (*self._looped(bodies.backward_body(), "group"), "$4 = $4 + $26")
        yield from lane_sums(_LENGTHS, bodies.ROWS)
        yield from (*(f"d[$22+=$30].w = $v{s}" for s in sums), "if ($22 != $21) rows", "vlr = $28")

    def _scaled(self) -> Iterator[str]:
        """Step 7 of 32 sums."""
        yield from ("$v26 = d[$5+=$28].b", f"$v25 = {self.sums[2].result(0)} * $v26")
        yield from ("$v26 = $v26 - $vs9", "$v25 = $v25 * $v26", "m[$18+=$8].h = $v25")

    def _updated(
        self, weights: str, columns: int, data: int, rows: int, errors: int
    ) -> Iterator[str]:
        """Steps 8 and 9: add data x errors to a matrix."""
        yield from (f"$4 = {weights}", *_rows(columns), f"$7 = {data}", f"$12 = {data + rows}")
        yield from (f"$17 = {errors}", f"$10 = {errors + 2 * columns}", *_called("update"))

    def _update(self) -> Iterator[str]:
        yield from ("update_rows: $14 = $4", "$20 = $4 + 64")
        yield from _with_loop_label(updated_rows(self.machine, _MANY), "update")
        yield from ("if ($7 != $12) update_rows", "$4 = $4 + $26")

    def _preloaded(self) -> Iterator[str]:
        """Copy the hidden nodes' errors from main memory to the data cache (section 6.2.3), over
        data no longer needed.
        """
        yield from ("preload: $30 = 128", "$14 = $vs25", f"$13 = {self.local.inputs}")
        yield f"$10 = {self.local.inputs + 2 * self.local.hidden}"
        yield from ("preloads: $v1 = m[$14+=$30].w", "d[$13+=$30].w = $v1")
        yield from ("if ($13 != $10) preloads", "nop")


def _rows(columns: int) -> tuple[str, ...]:
    """`$9` bytes per row, `$26` bytes of four rows, `$27` the way back and on by 64 columns."""
    start = (f"$9 = {columns}", "$9 = $9 << 1", "$26 = $9 << 2")
    return (*start, "$27 = $9 - $26", "$27 = $27 + 128")


def _called(name: str) -> tuple[str, ...]:
    return (f"call {name}, $31", "nop")


def _routine(name: str, lines: Iterable[str]) -> list[str]:
    return [f"{name}:", *lines, "goto $31", "nop"]


def _with_loop_label(lines: Iterable[str], name: str) -> list[str]:
    """The lines with their loop's label renamed."""
    return [re.sub(r"\bloop\b", f"loop_{name}", line) for line in lines]


def _apart(lines: Sequence[str]) -> list[list[str]]:
    """The lines of each handler."""
    starts = [i for i, line in enumerate(lines) if re.match(r"sum_\d+: ", line)] or [0]
    return [list(lines[a:b]) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]


@dataclass(frozen=True)
class InterleavedRun:
    """The nodes' values after a run: outputs [patterns, outputs], or both matrices."""

    outputs: Array
    weights: tuple[Array, Array]
    run: MeshRun


def interleaved_run(
    machine: Machine,
    given: Mapping[str, Array],
    shift: int,
    rate: int,
    fabric: Fabric,
    *,
    trains: bool,
    together: bool = False,
) -> InterleavedRun:
    """Run all nodes: recall of the patterns `x`, or training on the only one with `labels`, with
    weights `w0`, `w1` and the sigmoid `table`. Raises as `on_each_node` and `run_nodes` do.
    """
    w0, w1 = given["w0"], given["w1"]
    local = on_each_node(machine, Layers(len(w0), len(w1), w1.shape[1]))
    program = InterleavedProgram(machine, local, len(given["x"]), trains)
    text, table = program.text(together=together), given["table"]
    start = -(-2 * local.connections // len(table)) * len(table)
    wanted = start + len(table)
    errors = wanted + local.outputs
    registers = {"$22": shift, "$vs21": 2 * local.inputs * local.hidden, "$vs22": start,
                 "$vs23": start + len(table) // 2, "$vs24": wanted, "$vs25": errors,
                 "$vs26": rate}  # fmt: skip
    own = list(_parts(machine, local))
    nodes = []
    for number, (inputs, hidden, outputs) in enumerate(own):
        first, second = w0[inputs, hidden], w1[hidden, outputs]
        main = {0: first, first.nbytes: second, start: table, wanted: given["labels"][0, outputs],
                errors: np.zeros(local.hidden, "<i2")}  # fmt: skip
        images = {"main": main, "cache": {0: given["x"][:, inputs]}}
        nodes.append(NodeStart(text, images, {**place_registers(fabric, number), **registers}))
    run = run_nodes(machine, nodes, fabric, traced=(0,))
    found = np.zeros((program.patterns, w1.shape[1]), np.int8)
    updated = np.empty_like(w0), np.empty_like(w1)
    for core, (inputs, hidden, outputs) in zip(run.cores, own, strict=True):
        size = program.patterns * local.outputs
        kept = core.memory("cache")[program.outputs :][:size].view("i1")
        found[:, outputs] = kept.reshape(program.patterns, -1)
        held = core.memory("main")[: 2 * local.connections].view("<i2")
        first, second = np.split(held, [local.inputs * local.hidden])
        updated[0][inputs, hidden] = first.reshape(local.inputs, local.hidden)
        updated[1][hidden, outputs] = second.reshape(local.hidden, local.outputs)
    return InterleavedRun(found, updated, run)


def _parts(machine: Machine, local: Layers) -> Iterator[tuple[slice, slice, slice]]:
    """The inputs, hidden nodes and outputs of each node: blocks over groups of columns, and over
    places within a group (section 3.2.1).
    """
    columns = machine.mesh.columns
    width = columns // machine.section(Messages).hidden_sharers
    for node in range(machine.cores):
        row, column = divmod(node, columns)
        group, place = column // width, row * width + column % width
        sizes = (group, local.inputs), (place, local.hidden), (group, local.outputs)
        inputs, hidden, outputs = (slice(i * n, (i + 1) * n) for i, n in sizes)
        yield inputs, hidden, outputs


Convention = Literal["formula", "one port", "hardware", "evicted"]
_WAITING = ("message", "network_interface")
_LATE = "nodes that end later"
_WHY = {
    MAPS: "random sums go through all ports, those of the closed form through one",
    WAITS: "handlers wait for their interface, nodes for those whose look-ups take longer",
    _LATE: "than the first one, whose parts these are",
}


class ProgramTiming(Struct, frozen=True):
    """Cycles of all nodes, the first node's cycles by part and instruction misses, and True if the
    values equal those of the fixed-point network.
    """

    cycles: int
    parts: dict[str, float]
    misses: int
    same_bits: bool


def simulate_program(asked: tuple[str, Convention]) -> ProgramTiming:
    """Recall of two patterns or training on one, with random numbers; under `one port` all numbers
    are zero, so that all look-ups go through one port, the closed form's worst case.
    """
    kernel, convention = asked
    machine, trains = MODEL.machine(), kernel == "training"
    given = random_numbers(MODEL, 1 if trains else 2)
    if convention == "one port":
        given = {name: np.zeros_like(values) for name, values in given.items()}
    fabric = machine.fabrics["torrents"]
    if convention in ("formula", "one port"):
        fabric = structs.replace(fabric, gap_cycles=0.0)
    found = interleaved_run(
        machine, given, SHIFT, RATE, fabric, trains=trains, together=convention == "evicted"
    )
    core = found.run.cores[0]
    assert core.trace_complete
    times, numbers = np.array([(one.cycle, one.instruction) for one in core.issues]).T
    waits = sum(span.cycles for span in core.spans if span.cause in _WAITING)
    parts = node_parts(cycles_of_labels(times, numbers, core.program.labels), waits)
    parts[_LATE] = float(found.run.cycles - sum(parts.values()))
    if trains:
        expected = weights_after(given, 1, scaled=False)
        same = all((a == b).all() for a, b in zip(found.weights, expected, strict=True))
    else:
        same = bool((found.outputs == forward_of(given)[1]).all())
    return ProgramTiming(found.run.cycles, parts, core.instruction_cache_misses, same)


def run(lab: Lab) -> Findings:
    """Both kernels under each convention; a quick run has recall under the formula's."""
    kernels = ("recall",) if lab.quick else ("recall", "training")
    ways: tuple[Convention, ...] = ("formula", "one port", "hardware", "evicted")
    ways = ways[: 1 if lab.quick else None]
    asked = [(kernel, way) for kernel in kernels for way in ways]
    found = dict(zip(asked, lab.map(simulate_program, asked), strict=True))
    rows: list[Row] = []
    for kernel in kernels:
        closed = _closed(kernel)
        rows += rows_of_parts(kernel, closed, found[kernel, "formula"].parts, _WHY)
        if not lab.quick:
            rows += _others(kernel, closed, *(found[kernel, way] for way in ways))
    same = all(one.same_bits for one in found.values())
    notes = (
        "the nodes' first in parts; look-ups by random sums, of the closed form through one port",
        f"{'the bits' if same else 'other bits than those'} of the fixed-point network",
    )
    return Findings(tuple(rows), {"rows": len(rows)}, notes)


def _closed(kernel: str) -> Parts:
    """The closed form of the nodes' work, with code in the instruction cache."""
    recall, training = MODEL.recall(WORST), MODEL.training(WORST)
    every = recall_parts(recall) if kernel == "recall" else training_parts(training)
    return {part: cycles for part, cycles in every.items() if part not in (OUTSIDE, AROUND)}


def _others(
    kernel: str,
    closed: Parts,
    formula: ProgramTiming,
    port: ProgramTiming,
    own: ProgramTiming,
    evicted: ProgramTiming,
) -> Iterator[Row]:
    said = f"{port.cycles - formula.cycles:+} by look-ups"
    total = sum(closed.values())
    yield simulated_row(f"{kernel}: look-ups all through one port", total, port.cycles, said)
    said = f"{own.cycles - formula.cycles:+} by gaps"
    yield simulated_row(f"{kernel}: hardware", total, own.cycles, said)
    for name, lines in (("the report's", {}), ("the codes' own", _LINES)):
        said = (
            f"{evicted.misses} misses of the first node, by {name} lines {_misses(kernel, lines)}"
        )
        called = f"{kernel}: codes in the same lines, penalty by {name} lines"
        yield simulated_row(called, _penalty(kernel, lines), evicted.cycles - own.cycles, said)


_LINES = {"codes.product_lines": 4, "codes.send_lines": 1}
"""Lines of the program's product; a handler receives and sends, and takes two in all."""


def _penalty(kernel: str, lines: Mapping[str, int]) -> float:
    """P_enalty of the closed form, given the lines of codes."""
    machine, worst = changed(MODEL.machine(), lines), replace(WORST, worst_instruction_misses=True)
    if kernel == "recall":
        return recall_times(machine, MODEL.layers, worst).forward.penalty_cycles
    return training_times(machine, MODEL.layers, worst).penalty_cycles


def _misses(kernel: str, lines: Mapping[str, int]) -> int:
    """N_Im of the closed form, given the lines of codes."""
    machine = changed(MODEL.machine(), lines)
    local, patterns = on_each_node(machine, MODEL.layers), 2 if kernel == "recall" else 1
    steps = (local.hidden, hidden_sum(machine), True), (local.outputs, output_sum(machine), False)
    found = sum(
        step_misses(machine, columns // STRIPE, 2 * patterns * own.rounds, first=first).fetched
        for columns, own, first in steps
    )
    return found + (backward_misses(machine, local).fetched if kernel == "training" else 0)
