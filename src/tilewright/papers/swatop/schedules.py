"""The best schedule of one operator, simulated: what several experiments measure.

In: an operator, an algorithm, a machine. Out: an `Outcome`: the model's pick over all partitions,
its simulated cycles and where they went. Equal tasks of several experiments share one record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from msgspec import Struct

from tilewright.common.errors import CapacityError
from tilewright.common.expr import Var
from tilewright.machine import Machine, load_machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.papers.lab import Lab
from tilewright.partition import Partition, split
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel_level import KernelRun, simulate
from tilewright.tune.choose import choose, shared_operands
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.search import Candidate, rank

MACHINE = "sw26010_measured"
"""The machine with the costs that measured kernels show, beyond what their instructions explain."""

Fetching = Literal["ahead", "late", "late, tuned"]
"""Ahead: the best schedule of all. Late: the same with one copy of each buffer, so that no transfer
overlaps with computing. Late, tuned: the best schedule of those with one copy of each."""


class Setting(Struct, frozen=True):
    """A machine with some of its numbers overridden."""

    machine: str = MACHINE
    overrides: tuple[tuple[str, str], ...] = ()

    def load(self) -> Machine:
        """The machine. Errors: MachineError."""
        return load_machine(self.machine, dict(self.overrides))

    def described(self) -> str:
        """Its name and what was set."""
        return ", ".join([self.machine, *(f"{key} = {value}" for key, value in self.overrides)])


def setting(lab: Lab, machine: str = MACHINE) -> Setting:
    """`machine`, or the one that the options name, with the numbers that they override."""
    options = dict(lab.options)
    name = options.pop("machine", machine)
    return Setting(name, tuple(sorted(options.items())))


class Task(Struct, frozen=True):
    """One operator by one algorithm on a machine."""

    op: Conv2d | Gemm
    algorithm: str
    on: Setting = Setting()
    fetching: Fetching = "ahead"


class Outcome(Struct, frozen=True):
    """The pick of the model: cycles of one core group, and their causes (they sum to the cycles).

    `efficiency` is of the peak of all cores, by the operations of the direct form. `engine_cycles`
    is how long the DMA engine was busy. Without a schedule `refusal` says why and numbers are 0.
    """

    refusal: str = ""
    cycles: int = 0
    efficiency: float = 0.0
    engine_cycles: int = 0
    bound: str = ""
    causes: dict[str, int] = {}
    waits: dict[str, int] = {}
    partition: str = ""


def best_schedule(task: Task) -> Outcome:
    """Tune by the model, simulate the pick."""
    machine = task.on.load()
    try:
        part, candidate = _pick(task, machine)
    except CapacityError as error:
        return Outcome(refusal=error.message)
    run = simulate(candidate.program(machine), machine)
    return outcome_of(task.op, part, run, machine)


def _pick(task: Task, machine: Machine) -> tuple[Partition, Candidate]:
    if task.fetching == "late, tuned":
        return _best_late(task.op, task.algorithm, machine)
    (choice,) = choose([task.op], machine, algorithm=task.algorithm, keep=1)
    part, candidate = choice.best.partition, choice.best.candidate
    return part, candidate if task.fetching == "ahead" else fetching_late(candidate)


def fetching_late(candidate: Candidate) -> Candidate:
    """The candidate with one copy of every buffer."""
    nests = []
    for nest in candidate.nests:
        copies = {buffer.copies for buffer in nest.structure.staged.buffers}
        names = {copy.name for copy in copies if isinstance(copy, Var)}
        factors = {name: 1 if name in names else n for name, n in nest.factors.items()}
        nests.append(replace(nest, factors=factors))
    return replace(candidate, nests=tuple(nests))


def _best_late(op: Op, algorithm: str, machine: Machine) -> tuple[Partition, Candidate]:
    """The model's pick of the candidates with one copy of every buffer."""
    found: list[tuple[Partition, Candidate]] = []
    for part in split(op, machine.groups.count):
        (seed,) = seeds_for(part.piece, algorithm)
        late = replace(seed, spaces=tuple(replace(space, doubled=()) for space in seed.spaces))
        if main_memory_bytes(part.piece, late) <= machine.memory.main.capacity_bytes:
            shared = [shared_operands(part, late)]
            (ranking,) = rank([(part.piece, late)], machine, shared=shared, keep=1)
            found += [(part, candidate) for candidate in ranking.best]
    if not found:
        raise CapacityError(f"nothing fits for {op.describe()} by {algorithm}")
    return min(found, key=lambda pair: pair[1].cycles)


def outcome_of(op: Op, part: Partition, run: KernelRun, machine: Machine) -> Outcome:
    """What a simulated candidate of one group says of the whole operator."""
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
