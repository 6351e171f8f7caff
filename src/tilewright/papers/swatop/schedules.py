"""The best schedule of one operator, simulated; several experiments measure it.

In: an operator, an algorithm, a machine. Out: an `Outcome`: the model's pick over all partitions,
its simulated cycles and their causes. Equal tasks of several experiments share one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from msgspec import Struct

from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.common.expr import Var
from tilewright.machine import Machine, load_machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.papers.lab import Lab
from tilewright.partition import Partition, split
from tilewright.seeds.space import Seed, seeds_for
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.targets.sw26010.timing.products import product_timing
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose, shared_operands
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.search import rank

MACHINE = "sw26010_measured"
"""The machine with the costs of measured kernels, beyond those that their instructions explain."""

Fetching = Literal["ahead", "late", "late, tuned"]
""""ahead": the best schedule of all. "late": the same with single buffers, so that no transfer
overlaps with computing. "late, tuned": the best schedule with single buffers."""


class Setting(Struct, frozen=True):
    """A machine with some numbers overridden."""

    machine: str = MACHINE
    overrides: tuple[tuple[str, str], ...] = ()

    def load(self) -> Machine:
        """The machine. Raises MachineError."""
        return load_machine(self.machine, dict(self.overrides))

    def described(self) -> str:
        """The machine's name and the overridden numbers."""
        return ", ".join([self.machine, *(f"{key} = {value}" for key, value in self.overrides)])


def setting(lab: Lab, machine: str = MACHINE) -> Setting:
    """`machine`, or the one that the options name, with their overrides."""
    options = dict(lab.options)
    name = options.pop("machine", machine)
    return Setting(name, tuple(sorted(options.items())))


def our_product(on: Setting) -> str:
    """Name of the matrix product that a setting prices, for notes."""
    takes = product_timing(on.load(), "f64").cycles_per_k
    return f"this project's matrix product, {takes:.1f} cycles per k on {on.described()}"


class TuningTask(Struct, frozen=True):
    """One operator by one algorithm on a machine."""

    op: Conv2d | Gemm
    algorithm: str
    on: Setting = Setting()
    fetching: Fetching = "ahead"


class Outcome(Struct, frozen=True):
    """The model's pick: cycles of one core group, and their causes, which sum to the cycles.

    `efficiency` is of all cores' peak, by the operations of the direct form. `engine_cycles` is the
    DMA engine's busy time. Without a schedule, `refusal` says why and the numbers are 0.
    """

    refusal: str = ""
    cycles: int = 0
    efficiency: float = 0.0
    engine_cycles: int = 0
    bound: str = ""
    causes: dict[str, int] = {}
    waits: dict[str, int] = {}
    partition: str = ""


def largest_shares(outcomes: Sequence[Outcome], count: int) -> str:
    """The largest mean shares of the time by cause, as evidence for a deviation."""
    shares: dict[str, float] = {}
    for outcome in outcomes:
        for kind, cycles in outcome.causes.items():
            shares[kind] = shares.get(kind, 0.0) + cycles / outcome.cycles / len(outcomes)
    largest = sorted(shares.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in largest)


def best_schedules(tasks: Sequence[TuningTask]) -> list[Outcome]:
    """Tune by the model and simulate the picks. Operators of like tasks are priced in one walk."""
    alike: dict[tuple[str, Setting, Fetching], list[TuningTask]] = {}
    for task in tasks:
        alike.setdefault((task.algorithm, task.on, task.fetching), []).append(task)
    found = {
        task: outcome
        for group in alike.values()
        for task, outcome in zip(group, _outcomes(group), strict=True)
    }
    return [found[task] for task in tasks]


def _outcomes(tasks: list[TuningTask]) -> list[Outcome]:
    machine = tasks[0].on.load()
    try:
        picks = _picks(tasks, machine)
    except (CapacityError, ScheduleError) as error:
        if len(tasks) == 1:
            return [Outcome(refusal=error.message)]
        return [outcome for task in tasks for outcome in _outcomes([task])]
    return [
        outcome_of(task.op, part, simulate(candidate.program(machine), machine), machine)
        for task, (part, candidate) in zip(tasks, picks, strict=True)
    ]


Pick = tuple[Partition, Candidate]


def _picks(tasks: list[TuningTask], machine: Machine) -> list[Pick]:
    ops, algorithm, fetching = [t.op for t in tasks], tasks[0].algorithm, tasks[0].fetching
    if fetching == "late, tuned":
        return _best_late(ops, algorithm, machine)
    choices = choose(ops, machine, algorithm=algorithm, keep=1)
    options = [choice.best_of_whole_sums for choice in choices]  # swATOP divides no sums
    found = [(option.partition, option.candidate) for option in options]
    if fetching == "ahead":
        return found
    return [(part, fetching_late(candidate)) for part, candidate in found]


def fetching_late(candidate: Candidate) -> Candidate:
    """The candidate with single buffers."""
    nests = []
    for nest in candidate.nests:
        copies = {buffer.copies for buffer in nest.structure.staged.buffers}
        names = {copy.name for copy in copies if isinstance(copy, Var)}
        factors = {name: 1 if name in names else n for name, n in nest.factors.items()}
        nests.append(replace(nest, factors=factors))
    return replace(candidate, nests=tuple(nests))


def _best_late(ops: Sequence[Op], algorithm: str, machine: Machine) -> list[Pick]:
    """The model's picks among candidates with single buffers."""
    cases: list[tuple[Op, Partition, Seed]] = []
    for op in ops:
        for part in split(op, machine.groups.count):
            (seed,) = seeds_for(part.piece, algorithm)
            late = _undoubled(seed)
            if main_memory_bytes(part.piece, late) <= machine.main.capacity_bytes:
                cases.append((op, part, late))
    shared = [shared_operands(part, seed) for _, part, seed in cases]
    pieces = [(part.piece, seed) for _, part, seed in cases]
    found: dict[Op, list[Pick]] = {}
    rankings = rank(pieces, machine, shared=shared, keep=1)
    for (op, part, _), ranking in zip(cases, rankings, strict=True):
        found.setdefault(op, []).extend((part, candidate) for candidate in ranking.best)
    for op in ops:
        if not found.get(op):
            raise CapacityError(f"nothing fits for {op.describe()} by {algorithm}")
    return [min(found[op], key=lambda pick: pick[1].cycles) for op in ops]


@cache
def _undoubled(seed: Seed) -> Seed:
    """The seed without double buffers. Cached, since seeds ranked together must be identical."""
    return replace(seed, spaces=tuple(replace(space, doubled=()) for space in seed.spaces))


def outcome_of(op: Op, part: Partition, run: KernelRun, machine: Machine) -> Outcome:
    """The outcome for the whole operator, from a candidate simulated on one group."""
    waits: dict[str, int] = {}
    for cause in run.causes:
        if cause.kind.startswith("wait"):
            waits[cause.subject] = waits.get(cause.subject, 0) + cause.cycles
    return Outcome(
        cycles=run.cycles,
        efficiency=op.flops / (run.seconds * machine.peak_flops),
        engine_cycles=sum(tensor.engine_cycles for tensor in run.tensors),
        bound=run.bound(),
        causes=run.by_kind(),
        waits=waits,
        partition=part.kind,
    )


def piece_of(op: Conv2d, machine: Machine) -> Conv2d:
    """The part of `op` that one core group computes when the output rows are divided."""
    found = split(op, machine.groups.count)
    piece = next((p.piece for p in found if p.kind in ("rows", "whole")), found[0].piece)
    assert piece.convolution is not None
    return piece.convolution
