"""Choosing, for each operator, how it is divided over the core groups and how a piece is computed.

In: operators and a machine. Out: a `Choice` each: the best candidate of every partition and every
algorithm, the best of the others, and how many there were. All operators are ranked in one call:
the layers of a network share the structures of their spaces. Divided sums are ranked behind the
others, where adding up their partial results is little of what the best of the others takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from tilewright.common.errors import CapacityError, ScheduleError, SimulationError
from tilewright.common.expr import evaluate
from tilewright.common.progress import Steps, uncounted
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.partition import Partition
from tilewright.passes.lowering import lowering_of
from tilewright.seeds.space import Seed, bindings
from tilewright.seeds.steps import Spread
from tilewright.tune.candidate import Candidate
from tilewright.tune.fit import Shortage, main_memory_bytes, shortage
from tilewright.tune.kept import kept_rankings
from tilewright.tune.measure import Advance, Measure, Measured, measure_all
from tilewright.tune.records import Records
from tilewright.tune.roundings import few_roundings
from tilewright.tune.search import Counts
from tilewright.tune.sums import adding
from tilewright.tune.ways import Way, ways

_Case = tuple[int, Partition, Seed]
"""A way to compute the operator of this number."""
_MOST_ADDING, _MOST_BEHIND = 0.2, 1.25
"""Limits for a search of divided sums, as multiples of the best time without: of adding up partial
results, and of the algorithm's own time. In networks of the zoo the winners were at 0.16 and 1.06
at most.
"""


@dataclass(frozen=True, eq=False)
class Option:
    """A candidate for the pieces of one partition; `measured_cycles` where it was measured.

    Where the pieces' results are partial, `adding` says how a group adds up its share of them.
    """

    partition: Partition
    candidate: Candidate
    measured_cycles: int | None = None
    adding: Choice | None = None

    @property
    def algorithm(self) -> str:
        """The name of the candidate's seed."""
        return self.candidate.seed.name

    @property
    def adding_cycles(self) -> float:
        """Estimated cycles of adding up partial results."""
        return 0.0 if self.adding is None else self.adding.best.cycles

    @property
    def cycles(self) -> float:
        """Estimated cycles of one core group."""
        return self.candidate.cycles + self.adding_cycles


@dataclass(frozen=True, eq=False)
class Choice:
    """All that was kept of the search for one operator, best first."""

    op: Op
    options: tuple[Option, ...]
    counts: Counts

    @property
    def best(self) -> Option:
        """The winner."""
        return self.options[0]

    @property
    def best_of_whole_sums(self) -> Option:
        """The best whose pieces have no partial results; ScheduleError where all have."""
        for option in self.options:
            if not option.partition.partial:
                return option
        names = ", ".join(dict.fromkeys(option.algorithm for option in self.options))
        raise ScheduleError(f"{names} does not apply to {self.op.describe()} with whole sums")


def choose(
    ops: Sequence[Op],
    machine: Machine,
    *,
    algorithm: str | None = None,
    partition: str | None = None,
    max_error: float | None = None,
    max_roundings: int | None = None,
    strict: bool = True,
    keep: int = 4,
    names: Sequence[str] = (),
    steps: Steps = uncounted,
) -> list[Choice]:
    """Rank every partition and algorithm of every operator by the model.

    Algorithms that err by more than `max_error` are left out, on this computer by more than 1e-5 by
    default (`tune.accuracy`), and candidates that round a sum of fixed point more than
    `max_roundings` times. `keep` candidates are kept per partition and algorithm. With
    `strict` an `algorithm` or `partition` that does not apply to an operator is refused, otherwise
    all are tried there. Raises CapacityError where nothing fits, for the operator that lacks most;
    `names` are what it calls them. `steps` counts the pieces with an algorithm that are priced.
    """
    every = ways(
        ops,
        machine,
        algorithm=algorithm,
        partition=partition,
        max_error=max_error,
        max_roundings=max_roundings,
        strict=strict,
    )
    cases = _cases(every, machine)
    found = _Found([[] for _ in ops], [Counts()] * len(ops))
    whole = [(case, None) for case in cases if not case[1].partial]
    _rank_into(found, whole, machine, keep, steps)
    _rank_into(found, _promising(cases, found.options, machine), machine, 1, uncounted)
    options, counts = found.options, found.counts
    called = names or [""] * len(ops)
    short = [_short(called[i], every[i], machine) for i, own in enumerate(options) if not own]
    if short:
        raise max(short, key=lambda s: s.factor).error
    if max_roundings is not None:
        options = [
            few_roundings(own, machine, max_roundings, lambda option: option.candidate)
            for own in options
        ]
    return [
        Choice(op, tuple(sorted(own, key=lambda option: option.cycles)), count)
        for op, own, count in zip(ops, options, counts, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Found:
    """The options of each operator, and how many candidates there were."""

    options: list[list[Option]]
    counts: list[Counts]


def _rank_into(
    found: _Found,
    cases: Sequence[tuple[_Case, Choice | None]],
    machine: Machine,
    keep: int,
    steps: Steps,
) -> None:
    """Rank the cases, each with its addition of partial results, and append the best to `found`."""
    pairs = [(part.piece, seed) for (_, part, seed), _ in cases]
    shared = [shared_operands(part, seed) for (_, part, seed), _ in cases]
    rankings = kept_rankings(pairs, machine, shared=shared, keep=keep, steps=steps)
    for ((i, part, _), own), ranking in zip(cases, rankings, strict=True):
        found.options[i] += [Option(part, candidate, adding=own) for candidate in ranking.best]
        found.counts[i] += ranking.counts


def additions(ways: Sequence[Way], machine: Machine) -> list[Choice | None]:
    """The best addition of partial results by the model, for each way; None for ways without
    partial results and where the sum does not fit.
    """
    wanted = [adding(part, seed, machine) if part.partial else None for part, seed in ways]
    chosen = {op: _fitting(op, machine) for op in dict.fromkeys(wanted) if op is not None}
    return [None if op is None else chosen[op] for op in wanted]


def _fitting(op: Op, machine: Machine) -> Choice | None:
    try:
        return choose([op], machine, keep=1)[0]
    except CapacityError:
        return None


def _promising(
    cases: Sequence[_Case], found: Sequence[Sequence[Option]], machine: Machine
) -> list[tuple[_Case, Choice | None]]:
    """Divided sums that may beat the options `found` without them, and their additions; all that
    fit where nothing was found.
    """
    close = [case for case in cases if case[1].partial and _is_close(case, found)]
    added = additions([(part, seed) for _, part, seed in close], machine)
    return [
        (case, own)
        for case, own in zip(close, added, strict=True)
        if own is not None and own.best.cycles <= _MOST_ADDING * _least(found[case[0]])
    ]


def _is_close(case: _Case, found: Sequence[Sequence[Option]]) -> bool:
    """True if the algorithm with whole sums is at most `_MOST_BEHIND` times as slow as the best."""
    number, _, seed = case
    alike = [option for option in found[number] if option.algorithm == seed.name]
    return not found[number] or _least(alike) <= _MOST_BEHIND * _least(found[number])


def _least(options: Sequence[Option]) -> float:
    return min((option.cycles for option in options), default=math.inf)


def _cases(every: Sequence[Sequence[Way]], machine: Machine) -> list[_Case]:
    """Each way with the number of its operator.

    What exceeds main memory is not even priced: its extents may be beyond any array's integers.
    """
    room = machine.main.capacity_bytes
    return [
        (i, part, seed)
        for i, found in enumerate(every)
        for part, seed in found
        if main_memory_bytes(part.piece, seed) <= room
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
    pairs = [(by_candidate[id(m.candidate)], m.cycles) for m in measured]
    found = [
        replace(option, measured_cycles=cycles + round(option.adding_cycles))
        for option, cycles in pairs
        if cycles is not None
    ]
    return sorted(found, key=lambda option: option.measured_cycles or 0)


def shared_operands(partition: Partition, seed: Seed) -> frozenset[str]:
    """The operands of the seed that no piece has to itself: all groups read them together."""
    alike = zip(seed.operands, partition.shared_operands, strict=True)
    return frozenset(name for name, shared in alike if shared)


def padded_axes(op: Op, seed: Seed, machine: Machine) -> list[tuple[str, int, int]]:
    """(axis, extent, padded extent) where the mesh takes multiples only.

    The dimension that is vectorised may be rounded up further.
    """
    values, found = bindings(op, seed)[0], []
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


def _multiple(over: str, primitive: Primitive, machine: Machine) -> int:
    """The number whose multiples an extent is padded to when it is spread `over` the mesh."""
    block = lowering_of(machine).block[1] if isinstance(primitive, MatrixProduct) else 1
    match over:
        case "rows":
            return machine.mesh.rows * block
        case "columns":
            return machine.mesh.columns * block
        case "cores":
            return machine.cores
        case _:
            return math.lcm(machine.mesh.rows, machine.mesh.columns)


def _short(name: str, own: Sequence[Way], machine: Machine) -> Shortage:
    """Why nothing fits: of all ways the one that lacks least, with the place in front."""
    tried = [(part, shortage(part.piece, seed, machine)) for part, seed in own]
    short = [(part, found) for part, found in tried if found is not None]
    part, least = min(short, key=lambda pair: pair[1].factor)
    pieces = len(part.pieces)
    where = ", ".join(filter(None, [name, f"each of {pieces} pieces" if pieces > 1 else ""]))
    return replace(least, error=least.error.at(where))
