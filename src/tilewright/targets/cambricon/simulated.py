"""The time of generated code by the window simulator, every cycle with its cause.

In: a program, its code and the run of it. Out: a `KernelRun`, the form in which the times of all
machines are explained. Each cycle is charged once: to the matrix unit while it works, else to a
transfer under way, else to the vector unit, else to issue. A comment line names the subject of the
lines after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.codegen.artifact import Artifact
from tilewright.cost.totals import TransferGroup, executed
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import Instruction
from tilewright.machine import Machine
from tilewright.passes.allocate_buffers import bytes_on_a_core
from tilewright.simulate.kernel.account import Cause, TensorTraffic
from tilewright.simulate.kernel.level import KernelRun
from tilewright.simulate.window.run import WindowRun

Cycles = npt.NDArray[np.int64]
_UNITS = ("MATRIX", "TRANSFER", "VECTOR")
"""Units in the order in which a cycle is charged."""


def kernel_run(
    program: Program, artifact: Artifact, instructions: Sequence[Instruction], run: WindowRun,
    machine: Machine,
) -> KernelRun:  # fmt: skip
    """The run of one program's code."""
    (text,) = artifact.files.values()
    charged, engine = _charged(run, subjects_of(text, instructions))
    transfers, calls = executed(program, machine)
    products = [c for c in calls if isinstance(c.stmt.primitive, MatrixProduct)]
    flops = sum(c.count * int(c.stmt.primitive.flops(c.dims, 1)) for c in products)
    size = sum(bytes_on_a_core(b) for b in program.buffers)
    return KernelRun(
        cycles=run.cycles,
        seconds=run.cycles / machine.clock_hz,
        causes=_causes(charged, flops, run.cycles, machine),
        tensors=_traffic(transfers, engine),
        useful_flops=flops,
        allocated_bytes=size,
        peak_bytes=size,
        statements=run.instructions,
        simulated_statements=run.instructions,
    )


def subjects_of(text: str, instructions: Sequence[Instruction], begin: str = ";") -> list[str]:
    """The subject of each instruction: the last comment before its line, starting with `begin`."""
    found, title = [""], ""
    for line in text.splitlines():
        comment = line.strip()
        title = comment.removeprefix(begin).strip() if comment.startswith(begin) else title
        found.append(title)
    return [found[i.line] if i.line and i.line < len(found) else "" for i in instructions]


def _charged(
    run: WindowRun, titles: Sequence[str]
) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Cycles by unit and title, each charged once, and busy cycles of the engine by title."""
    taken: Cycles = np.zeros((0, 2), np.int64)
    charged: dict[tuple[str, str], int] = {}
    engine: dict[str, int] = {}
    for unit in (name for name in _UNITS if name in run.units):
        own = run.event_table[run.event_table[:, 3] == run.units.index(unit)]
        spans, numbers = own[:, 1:3], own[:, 4]
        busy = spans[:, 1] - spans[:, 0]
        free = np.bincount(numbers, busy - _covered(spans, taken), len(titles))
        whole = np.bincount(numbers, busy, len(titles))
        for number in np.flatnonzero(whole).tolist():
            title = titles[number]
            charged[unit, title] = charged.get((unit, title), 0) + int(free[number])
            if unit == "TRANSFER":
                engine[title] = engine.get(title, 0) + int(whole[number])
        taken = _union_of_spans(np.concatenate([taken, spans]))
    charged["", ""] = run.cycles - sum(charged.values())
    return charged, engine


def _covered(spans: Cycles, taken: Cycles) -> Cycles:
    """Cycles of each span that lie in any of the disjoint, sorted spans `taken`."""
    starts, lengths = taken[:, 0], taken[:, 1] - taken[:, 0]
    before = np.concatenate([[0], np.cumsum(lengths)])

    def up_to(times: Cycles) -> Cycles:
        place = np.searchsorted(starts, times, side="right")
        inside = np.zeros_like(times)
        last = np.maximum(place - 1, 0)
        if len(starts):
            inside = np.where(place > 0, np.minimum(times - starts[last], lengths[last]), 0)
        whole: Cycles = before[last] * (place > 0) + inside
        return whole

    found: Cycles = up_to(spans[:, 1]) - up_to(spans[:, 0])
    return found


def _union_of_spans(spans: Cycles) -> Cycles:
    """The union of spans as disjoint spans in order."""
    if not len(spans):
        return spans
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    ends = np.maximum.accumulate(spans[:, 1])
    begins = np.concatenate([[True], spans[1:, 0] > ends[:-1]])
    first = np.flatnonzero(begins)
    last = np.concatenate([first[1:] - 1, [len(spans) - 1]])
    return np.stack([spans[first, 0], ends[last]], axis=1)


def _causes(
    charged: Mapping[tuple[str, str], int], flops: int, cycles: int, machine: Machine
) -> tuple[Cause, ...]:
    found: dict[tuple[str, str], int] = {}

    def add(kind: str, subject: str, amount: int) -> None:
        found[kind, subject] = found.get((kind, subject), 0) + amount

    for (unit, title), amount in charged.items():
        if unit == "MATRIX":
            add("compute overhead", title.split()[0], amount)
        elif unit == "TRANSFER":
            way, *tensor = title.split()
            add("wait bandwidth", " ".join((*tensor, way)), amount)
        elif unit == "VECTOR":
            add("primitive", title.split()[0], amount)
        else:
            add("issue", "", amount)
    useful = round(flops / machine.core.of("i16").flops_per_cycle)
    for key in [key for key in found if key[0] == "compute overhead"]:
        own = min(useful, found[key])
        found[key] -= own
        useful -= own
        add("compute useful", key[1], own)
    causes = [Cause(kind, subject, amount) for (kind, subject), amount in found.items() if amount]
    return tuple(sorted(causes, key=lambda cause: -cause.cycles))


def _traffic(
    groups: Sequence[TransferGroup], engine: Mapping[str, int]
) -> tuple[TensorTraffic, ...]:
    """One row per tensor and direction."""
    rows: dict[tuple[str, str], list[int]] = {}
    for group in groups:
        row = rows.setdefault((group.stmt.tensor, group.stmt.direction), [0, 0, 0])
        row[0] += group.count
        row[1] += group.count * int(group.shape.blocks)
        row[2] += group.count * int(group.shape.asked_bytes)
    return tuple(
        TensorTraffic(
            tensor,
            "put" if way == "put" else "get",
            transfers=count,
            requests=requests,
            asked_bytes=size,
            moved_bytes=size,
            engine_cycles=engine.get(f"{way} {tensor}", 0),
            issue_cycles=0,
            wait_latency_cycles=0,
            wait_bandwidth_cycles=0,
        )
        for (tensor, way), (count, requests, size) in rows.items()
    )
