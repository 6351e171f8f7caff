"""Choosing, for each operator, how it is divided over the core groups and how a piece is computed.

In: operators and a machine. Out: a `Choice` each: the best candidate of every partition and every
algorithm, the best of the others, and how many there were. All operators are ranked in one call:
the layers of a network share the structures of their spaces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from importlib import import_module
from pkgutil import iter_modules

from tilewright import seeds as shipped_seeds
from tilewright.common.errors import ScheduleError, SimulationError
from tilewright.common.expr import evaluate
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.partition import Partition, split
from tilewright.seeds.space import Seed, parameters, seeds_for
from tilewright.seeds.steps import Spread
from tilewright.tune.measure import Advance, Measure, Measured, measure_all
from tilewright.tune.records import Records
from tilewright.tune.search import Candidate, main_memory_bytes, rank, require_fit

for _module in iter_modules(shipped_seeds.__path__):
    import_module(f"{shipped_seeds.__name__}.{_module.name}")


@dataclass(frozen=True, eq=False)
class Option:
    """A candidate for the pieces of one partition; `measured_cycles` where it was measured."""

    partition: Partition
    candidate: Candidate
    measured_cycles: int | None = None

    @property
    def algorithm(self) -> str:
        """The name of the candidate's seed."""
        return self.candidate.seed.name


@dataclass(frozen=True, eq=False)
class Choice:
    """All that was kept of the search for one operator, best first; `candidates` were priced."""

    op: Op
    options: tuple[Option, ...]
    candidates: int
    fitting: int

    @property
    def best(self) -> Option:
        """The winner."""
        return self.options[0]

    def best_of(self, algorithm: str) -> Option | None:
        """The best option that uses `algorithm`, None where there is none."""
        return next((o for o in self.options if o.algorithm == algorithm), None)


def choose(
    ops: Sequence[Op],
    machine: Machine,
    *,
    algorithm: str | None = None,
    partition: str | None = None,
    strict: bool = True,
    keep: int = 4,
) -> list[Choice]:
    """Rank every partition and algorithm of every operator by the model.

    `keep` candidates are kept per partition and algorithm. With `strict` an `algorithm` that does
    not apply to an operator is refused, otherwise all algorithms are tried there. Raises
    CapacityError for an operator of which nothing fits.
    """
    every = [
        (i, part, seed)
        for i, op in enumerate(ops)
        for part, seed in _ways(_partitions(op, machine, partition), algorithm, strict)
    ]
    # What exceeds main memory is not even priced: its extents may be beyond any array's integers.
    room = machine.memory.main.capacity_bytes
    cases = [case for case in every if main_memory_bytes(case[1].piece, case[2]) <= room]
    rankings = rank([(part.piece, seed) for _, part, seed in cases], machine, keep=keep)
    found: list[list[Option]] = [[] for _ in ops]
    counts = [[0, 0] for _ in ops]
    for (i, part, _), ranking in zip(cases, rankings, strict=True):
        found[i] += [Option(part, candidate) for candidate in ranking.best]
        counts[i][0] += ranking.candidates
        counts[i][1] += ranking.fitting
    for op, options, i in zip(ops, found, range(len(ops)), strict=True):
        if not options:
            _refuse(op, [(part, seed) for n, part, seed in every if n == i], machine)
        options.sort(key=lambda option: option.candidate.cycles)
    return [
        Choice(op, tuple(options), *count)
        for op, options, count in zip(ops, found, counts, strict=True)
    ]


def confirm_choice(
    choice: Choice,
    top: int,
    machine: Machine,
    measure: Measure,
    *,
    records: Records | None = None,
    executor: Executor | None = None,
    advance: Advance | None = None,
) -> Choice:
    """Measure the `top` best options and put them first, fastest first.

    Raises SimulationError where none of them can run.
    """
    first, rest = choice.options[:top], choice.options[top:]
    measured = measure_all(
        [option.candidate for option in first],
        machine,
        measure,
        records=records,
        executor=executor,
        advance=advance,
    )
    if measured[0].cycles is None:
        raise SimulationError(
            f"none of the {len(first)} best candidates of {choice.op.describe()} runs: "
            f"{measured[0].failure}"
        )
    return replace(choice, options=(*_reordered(first, measured), *rest))


def _reordered(options: Iterable[Option], measured: Iterable[Measured]) -> list[Option]:
    by_candidate = {id(option.candidate): option for option in options}
    return [
        replace(by_candidate[id(m.candidate)], measured_cycles=m.cycles)
        for m in measured
        if m.cycles is not None
    ]


def _partitions(op: Op, machine: Machine, only: str | None) -> list[Partition]:
    found = split(op, machine.groups.count)
    chosen = [part for part in found if only in (None, part.kind)]
    if not chosen:
        kinds = ", ".join(part.kind for part in found)
        raise ScheduleError(
            f"{op.describe()} is not divided over {only!r} on {machine.groups.count} core groups",
            fix=f"choose one of {kinds}",
        )
    return chosen


def _ways(
    partitions: Sequence[Partition], algorithm: str | None, strict: bool
) -> list[tuple[Partition, Seed]]:
    """The seeds for the piece of each partition; an algorithm need not apply to all of them."""
    found: list[tuple[Partition, Seed]] = []
    refused: ScheduleError | None = None
    for part in partitions:
        try:
            found += [(part, seed) for seed in seeds_for(part.piece, algorithm)]
        except ScheduleError as error:
            refused = error
    if found or refused is None:
        return found
    if strict:
        raise refused
    return _ways(partitions, None, strict)


def padded_axes(op: Op, seed: Seed, machine: Machine) -> list[tuple[str, int, int]]:
    """(axis, extent, what it is computed as) where the mesh takes multiples only.

    The dimension that is vectorised may be rounded up further.
    """
    values, found = parameters(op), []
    for space in seed.spaces:
        fixed = (choice[0] for choice in space.choices if len(choice) == 1)
        for step in (step for alternative in fixed for step in alternative):
            if isinstance(step, Spread):
                extent = int(evaluate(space.nest.axis(step.axis).extent, values))
                multiple = _multiple(step.over, space.nest.primitive, machine)
                padded = -(-extent // multiple) * multiple
                if padded != extent:
                    found.append((step.axis, extent, padded))
    return found


def _multiple(over: str, primitive: str, machine: Machine) -> int:
    """What an extent that is spread over the mesh is at least a multiple of."""
    block = machine.primitives.gemm.register_block_scalars if primitive == "gemm" else 1
    match over:
        case "rows":
            return machine.mesh.rows * block
        case "columns":
            return machine.mesh.columns * block
        case _:
            return math.lcm(machine.mesh.rows, machine.mesh.columns)


def _refuse(op: Op, cases: Sequence[tuple[Partition, Seed]], machine: Machine) -> None:
    for part, seed in cases:
        require_fit(part.piece, seed, machine)
    raise ScheduleError(f"no candidate of {op.describe()} was found")
