"""The report's questions about a node's design, answered by the model, by loop bounds and by a
kernel on the simulated node.

Faster memory, an associative instruction cache, no multiply-accumulate, scalars in the scalar unit,
narrower stripes, one pattern at a time (sections 2.3, 5.1.3, 5.2, 7.1.2, 8.2). `--option KEY=VALUE`
first changes a number of the machine, as `--set` does elsewhere. Rows have no published number
where the report gives none.
"""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from tilewright.machine import Machine, load_machine
from tilewright.machine.model import Leaf
from tilewright.papers.cns1.cases import MODEL, WORST
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare
from tilewright.targets.cns1.emit.calls import SUM_BYTES, WEIGHT_BYTES, NodeProduct
from tilewright.targets.cns1.kernels.bodies import forward_body
from tilewright.targets.cns1.kernels.pipelining import least_interval, port_cycles
from tilewright.targets.cns1.prices import product_text_cycles
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.timing.layers import VECTOR_BYTES, read_cycles
from tilewright.targets.cns1.timing.recall import recall_times
from tilewright.targets.cns1.timing.training import training_times

TITLE = "questions about the design of a node"
TAKES_OPTIONS = True
"""`--option` changes numbers of the machine."""
SPEEDS = (1.0, 1.25, 1.5, 2.0, 4.0)
QUESTIONS: dict[str, dict[str, Leaf]] = {
    "as described": {},
    "no multiply-accumulate": {"core.vectors.multiply_accumulate": 0},
    "scalars in the scalar unit": {"core.vectors.scalar_registers": 0},
    "stripes of 32": {"kernels.stripe_columns": 32},
    "one pattern at a time": {"kernels.patterns": 1},
}
"""Machine settings (`--set`) of each question."""
_PATTERNS, _COLUMNS, _ROWS = 2, 512, 256
_KERNEL = f"{_PATTERNS} x {_COLUMNS} sums over {_ROWS}"

_ALONE = "the product alone: explain adds zeroing the sums and copying the rows"


def run(lab: Lab) -> Findings:
    """Cycles of recall (two patterns), of training and of the inner loop, by variant."""
    settings: dict[str, Leaf] = dict(lab.options)
    machine = load_machine("cns1-128", settings)
    kernels = _kernels(settings)
    rows = (*_memory(machine, settings), *_instructions(settings), *_loops(machine), *kernels)
    notes = (f"on {machine.name}, the model network of 192M connections",)
    return Findings(tuple(rows), {"rows": len(rows)}, notes)


def draw(result: Result) -> Figure:
    """Run time over memory speed, and a kernel's cycles by question."""
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    memory, kernel = figure.subplots(1, 2)
    found: dict[str, list[float]] = {}
    for row in result.rows:
        if row.name.endswith("share of the time") and row.ours is not None:
            found.setdefault(row.name.split(",")[0], []).append(row.ours)
    for name, shares in found.items():
        memory.plot(SPEEDS, shares, marker="o", label=name)
    memory.set_title("model network by the speed of the RDRAM (model)", fontsize=10)
    memory.set_xlabel("times as fast")
    memory.set_ylabel("share of the time")
    memory.legend()
    bars = {row.name: row.ours for row in result.rows if row.name.startswith("kernel, ")}
    kernel.barh([name.removeprefix("kernel, ") for name in bars], [v or 0 for v in bars.values()])
    kernel.invert_yaxis()
    kernel.set_title(f"{_KERNEL} (simulated)", fontsize=10)
    kernel.set_xlabel("cycles")
    return figure


def _memory(machine: Machine, settings: dict[str, Leaf]) -> list[Row]:
    """Rows with all times of the RDRAM divided by a factor."""
    rdram = machine.section(Rdram)
    times = [name for name in Rdram.__struct_fields__ if name.endswith("_ns")]
    times = [name for name in times if not name.startswith("refresh")]
    base = _totals(machine)
    found = []
    for speed in SPEEDS:
        changes = {f"memory.rdram.{name}": getattr(rdram, name) / speed for name in times}
        changed = load_machine("cns1-128", {**settings, **changes})
        for kernel, cycles in _totals(changed).items():
            memory = "memory as described" if speed == 1 else f"memory {speed:g} times as fast"
            name = f"{kernel}, {memory}: share of the time"
            found.append(compare(name, None, cycles / base[kernel], "model"))
    return found


def _totals(machine: Machine) -> dict[str, float]:
    return {
        "recall": recall_times(machine, MODEL.layers, WORST).total_cycles,
        "training": training_times(machine, MODEL.layers, WORST).total_cycles,
    }


def _instructions(settings: dict[str, Leaf]) -> list[Row]:
    """Rows for codes that evict each other, against a cache whose ways keep them apart."""
    worst, asked = replace(WORST, worst_instruction_misses=True), "memory.caches.instruction_ways"
    machines = [load_machine("cns1-128", {**settings, asked: ways}) for ways in (1, 2)]
    recall = [recall_times(m, MODEL.layers, worst).total_cycles for m in machines]
    training = [training_times(m, MODEL.layers, worst).total_cycles for m in machines]
    return [
        compare(
            f"{kernel}, associative instruction cache: cycles saved", None, a - b, "model",
            note=f"--set {asked}=2",
        )
        for kernel, (a, b) in (("recall", recall), ("training", training))
    ]  # fmt: skip


def _kernels(settings: dict[str, Leaf]) -> list[Row]:
    """Rows of a product's program on the simulated node, by machine setting."""
    sums, row_bytes = SUM_BYTES * _COLUMNS, WEIGHT_BYTES * _COLUMNS
    product = NodeProduct(_PATTERNS, _COLUMNS, _ROWS, 1, _ROWS, row_bytes, sums)
    found = []
    for name, changes in QUESTIONS.items():
        machine = load_machine("cns1-128", {**settings, **changes})
        cycles = product_text_cycles(machine, product, row_bytes * _ROWS)
        asked = " ".join(f"--set {key}={value}" for key, value in changes.items())
        note = "; ".join(filter(None, (f"{_KERNEL}, {_ALONE}", asked)))
        found.append(compare(f"kernel, {name}", None, cycles, "simulated", note=note))
    return found


def _loops(machine: Machine) -> list[Row]:
    """Rows of the loop over four rows of 64 columns and two patterns: least cycles by variant."""
    ports = port_cycles(machine)
    two, one = (least_interval(forward_body(p), ports) for p in (2, 1))
    apart = least_interval(forward_body(2, accumulate=False), ports)
    moves = two.issue_cycles - 8
    narrow = 2 * max(two.minimum_interval // 2, 4 * read_cycles(machine, VECTOR_BYTES).hit)
    claim = "the report counts no loss, its listing has 12 idle slots for 16 additions"
    return [
        compare("loop, as described", 64, two.minimum_interval, "exact", note=two.reasons()),
        compare(
            "loop, no multiply-accumulate", 64, apart.minimum_interval, "exact",
            note=f"{claim}; {apart.reasons()}",
        ),
        compare(
            "loop, scalars in the scalar unit", 64, max(moves, two.minimum_interval), "exact",
            note=f"{moves} instructions without the 8 moves",
        ),
        compare(
            "loop, stripes of 32", None, narrow, "exact",
            note="two of four ports: each load of a row waits for the one before",
        ),
        compare(
            "loop, one pattern at a time", 112, 2 * one.minimum_interval, "exact",
            note=f"twice: {one.reasons()}",
        ),
    ]  # fmt: skip
