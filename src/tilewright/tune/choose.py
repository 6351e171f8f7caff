"""Choose, for each operator, a partition over the core groups and a schedule of its pieces.

In: operators and a machine. Out: a `Choice` each: the best candidates of every partition and every
algorithm, and how many there were. All operators are ranked in one call, since the layers of a
network share the structures of their spaces. Divided sums are ranked after whole sums, and only
where adding up their partial results takes a small fraction of the best time so far.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress

from tilewright.common.errors import CapacityError, ScheduleError, SimulationError
from tilewright.common.expr import evaluate
from tilewright.common.progress import Steps, uncounted
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.partition import Partition
from tilewright.passes.lowering import lowering_of
from tilewright.seeds.space import Seed, bindings, parameters
from tilewright.seeds.steps import Schedule, Spread, parse_schedule
from tilewright.tune.accuracy import few_roundings
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.executors import call_beside
from tilewright.tune.fit import Shortage, main_memory_bytes, shortage
from tilewright.tune.kept import kept_rankings
from tilewright.tune.measure import Advance, Measure, Measured, measure_all, schedule_text
from tilewright.tune.records import Records
from tilewright.tune.refills import lacks_refills, steadied, with_refills
from tilewright.tune.search import Counts, choice_of
from tilewright.tune.ways import Way, adding, ways

_Case = tuple[int, Partition, Seed]
"""The number of an operator, and a way to compute it."""
_MOST_ADDING, _MOST_BEHIND = 0.2, 1.25
"""Divided sums are searched only within these multiples of the best time with whole sums: of the
time to add up partial results, and of the algorithm's best time with whole sums. In networks of the
zoo, winners reached 0.16 and 1.06 at most.
"""


@dataclass(frozen=True, eq=False)
class Option:
    """A candidate for the pieces of one partition; `measured_cycles` is None unless measured.

    Where the pieces' results are partial, `adding` computes a group's share of their sum.
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
    """Result of the search for one operator: the options that were kept, best first."""

    op: Op
    options: tuple[Option, ...]
    counts: Counts

    @property
    def best(self) -> Option:
        """The winner."""
        return self.options[0]

    @property
    def best_of_whole_sums(self) -> Option:
        """The best option without partial results; raises ScheduleError if there is none."""
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
    beside: bool = False,
    steps: Steps = uncounted,
) -> list[Choice]:
    """Rank every partition and algorithm of every operator by the model.

    Algorithms whose expected error exceeds `max_error` are excluded (`tune.accuracy`; on this
    computer the default is 1e-5), and so are candidates that round a fixed-point sum more than
    `max_roundings` times. `keep` candidates are kept per partition and algorithm. With `strict`, an
    `algorithm` or `partition` that does not apply to an operator is refused; otherwise that
    operator tries all. If operators fit in no way, raises CapacityError for the one that lacks
    most, called by its entry of `names`. With `beside`, several processes search (`call_beside`).
    `steps` counts priced (piece, algorithm) pairs, then operators refilled.
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
    found = _RankedOptions([[] for _ in ops], [Counts()] * len(ops))
    whole = [(case, None) for case in cases if not case[1].partial]
    _rank_into(found, whole, machine, keep, beside, steps)
    _rank_into(found, _promising(cases, found.options, machine), machine, 1, beside, uncounted)
    options, counts = found.options, found.counts
    called = names or [""] * len(ops)
    short = [_short(called[i], every[i], machine) for i, own in enumerate(options) if not own]
    if short:
        raise max(short, key=lambda s: s.factor).error
    if max_roundings is not None:
        options = [few_roundings(own, machine, max_roundings, _candidate_of) for own in options]
    if beside:
        _refill_beside(options, machine, steps)
    best = steadied(options, machine, _candidate_of, _with_candidate)
    return [Choice(*own) for own in zip(ops, best, counts, strict=True)]


def _candidate_of(option: Option) -> Candidate:
    return option.candidate


def _with_candidate(option: Option, candidate: Candidate) -> Option:
    return replace(option, candidate=candidate)


def _refill_beside(every: Sequence[Sequence[Option]], machine: Machine, steps: Steps) -> None:
    """Cache the refills of operators whose best option lacks them, in several processes."""
    leaders = (min(own, key=lambda option: option.cycles) for own in every)
    unknown = [lacks_refills(leader.candidate, machine) for leader in leaders]
    calls = (
        partial(steadied, [own], machine, _candidate_of, _with_candidate)
        for own in compress(every, unknown)
    )
    call_beside([*calls], steps)


@dataclass(frozen=True, eq=False)
class _RankedOptions:
    """Options and candidate counts found so far, by the number of the operator."""

    options: list[list[Option]]
    counts: list[Counts]


def _rank_into(
    found: _RankedOptions,
    cases: Sequence[tuple[_Case, Choice | None]],
    machine: Machine,
    keep: int,
    beside: bool,
    steps: Steps,
) -> None:
    """Rank `cases`, each with its addition of partial results, and append the best to `found`."""
    pairs = [(part.piece, seed) for (_, part, seed), _ in cases]
    shared = [shared_operands(part, seed) for (_, part, seed), _ in cases]
    rankings = kept_rankings(pairs, machine, shared=shared, keep=keep, beside=beside, steps=steps)
    for ((i, part, _), own), ranking in zip(cases, rankings, strict=True):
        found.options[i] += [Option(part, candidate, adding=own) for candidate in ranking.best]
        found.counts[i] += ranking.counts


def additions(ways: Sequence[Way], machine: Machine) -> list[Choice | None]:
    """The model's best addition of each way's partial results; None for ways without partial
    results and where the addition does not fit.
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
    """Cases with divided sums that may beat the whole sums in `found`, each with its addition; for
    an operator without any option, all cases whose addition fits.
    """
    close = [case for case in cases if case[1].partial and _is_close(case, found)]
    added = additions([(part, seed) for _, part, seed in close], machine)
    return [
        (case, own)
        for case, own in zip(close, added, strict=True)
        if own is not None and own.best.cycles <= _MOST_ADDING * _least(found[case[0]])
    ]


def _is_close(case: _Case, found: Sequence[Sequence[Option]]) -> bool:
    """True if the algorithm's best time with whole sums is within `_MOST_BEHIND` of the best."""
    number, _, seed = case
    alike = [option for option in found[number] if option.algorithm == seed.name]
    return _least(alike) <= _MOST_BEHIND * _least(found[number])


def _least(options: Sequence[Option]) -> float:
    return min((option.cycles for option in options), default=math.inf)


def _cases(every: Sequence[Sequence[Way]], machine: Machine) -> list[_Case]:
    """Each way that fits main memory, with the number of its operator.

    Larger ones are not priced at all: their extents may overflow the integers of arrays.
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

    Raises SimulationError if none of them can run.
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
    """Seed operands of which every piece reads the same region: all groups read them together."""
    alike = zip(seed.operands, partition.shared_operands, strict=True)
    return frozenset(name for name, shared in alike if shared)


def padded_axes(op: Op, seed: Seed, machine: Machine) -> list[tuple[str, int, int]]:
    """(axis, extent, padded extent) of each spread axis that the mesh does not divide evenly.

    The vectorised dimension may be padded further.
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
    """The multiple to which an extent spread `over` the mesh is padded."""
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
    """The least shortage of any way; its error names the operator and the number of pieces."""
    tried = [(part, shortage(part.piece, seed, machine)) for part, seed in own]
    short = [(part, found) for part, found in tried if found is not None]
    part, least = min(short, key=lambda pair: pair[1].factor)
    pieces = len(part.pieces)
    where = ", ".join(filter(None, [name, f"each of {pieces} pieces" if pieces > 1 else ""]))
    return replace(least, error=least.error.at(where))


_AS_PRINTED = "give the text as schedule.txt of a compiled kernel has it"


@dataclass(frozen=True)
class _Text:
    """A parsed schedule text; `nests` maps names of nests to their schedules."""

    algorithm: str
    shared: frozenset[str]
    blocks: Mapping[str, int]
    nests: Mapping[str, Schedule]


def replay(op: Op, machine: Machine, text: str, partition: str | None = None) -> Choice:
    """The choice for `op` with the schedule in `text`, under `partition` or under every partition.

    Raises ScheduleError if the text is malformed, or if its schedule is outside the operator's
    space on this machine or does not fit.
    """
    said = _parse_schedule_text(text)
    (found,) = ways([op], machine, algorithm=said.algorithm, partition=partition)
    options, refused = [], []
    for part, seed in found:
        try:
            candidate = _candidate(said, part, seed, machine)
            (adding,) = additions([(part, seed)], machine)
            if part.partial and adding is None:
                raise ScheduleError("what adds up the groups' partial results fits in no way")
            options.append(Option(part, with_refills(candidate, machine), adding=adding))
        except ScheduleError as error:
            refused.append(error)
    if not options:
        raise refused[0]
    options.sort(key=lambda option: option.cycles)
    return Choice(op, tuple(options), Counts(*[len(options)] * 4))


def option_like(option: Option, op: Op, machine: Machine) -> Option:
    """An option for `op` with the schedule of `option` or, where `op` does not permit that, the
    best of its algorithm. Raises ScheduleError if the algorithm does not apply or fit.
    """
    said, kind = _parse_schedule_text(schedule_text(option.candidate)), option.partition.kind
    every = ways([op], machine, algorithm=said.algorithm, partition=kind)
    cases = _cases(every, machine)
    added = additions([(part, seed) for _, part, seed in cases], machine)
    summed = [(c, own) for c, own in zip(cases, added, strict=True) if own or not c[1].partial]
    for (_, part, seed), own in summed:
        with suppress(ScheduleError):
            return Option(part, _candidate(said, part, seed, machine), adding=own)
    found = _RankedOptions([[]], [Counts()])
    _rank_into(found, summed, machine, 1, False, uncounted)
    if not found.options[0]:
        raise ScheduleError(f"{said.algorithm} does not fit {op.describe()} on {machine.name}")
    return min(found.options[0], key=lambda own: own.cycles)


def _candidate(said: _Text, part: Partition, seed: Seed, machine: Machine) -> Candidate:
    op, shared = part.piece, shared_operands(part, seed)
    if said.blocks not in list(seed.blocks(parameters(op))):
        sizes = ", ".join(f"{name}={size}" for name, size in said.blocks.items()) or "none"
        raise _foreign(f"blocks of these sizes, {sizes},", op, machine)
    names = [space.nest.name for space in seed.spaces]
    if list(said.nests) != names:
        raise ScheduleError(
            f"algorithm {seed.name!r} has the nests {', '.join(names)}, found "
            f"{', '.join(said.nests) or 'none'}",
            fix=_AS_PRINTED,
        )
    nests: list[NestChoice] = []
    for space in seed.spaces:
        schedule = said.nests[space.nest.name]
        choice = choice_of(schedule, op, seed, space, machine, blocks=said.blocks, shared=shared)
        if choice is None:
            raise _foreign(f"this schedule of nest {space.nest.name!r}", op, machine)
        nests.append(choice)
    candidate = Candidate(op, seed, tuple(nests), said.blocks)
    if frozenset(candidate.shared) != said.shared:
        raise _foreign(f"{', '.join(said.shared) or 'nothing'} as shared", op, machine)
    candidate.joint_layouts()
    return candidate


def _foreign(what: str, op: Op, machine: Machine) -> ScheduleError:
    return ScheduleError(
        f"{what} is not in the space of {op.describe()} on {machine.name}, or does not fit",
        fix="replay it for the operator and the machine that it was found for",
    )


def _parse_schedule_text(text: str) -> _Text:
    head, *rest = re.split(r"^nest +(.*?) *$", text, flags=re.MULTILINE)
    first, *lines = head.strip().splitlines() or [""]
    word, _, algorithm = first.partition(" ")
    if word != "algorithm" or not algorithm.strip():
        raise ScheduleError(
            f"a schedule begins with its algorithm, found {first[:60]!r}", fix=_AS_PRINTED
        )
    shared = frozenset(x.split()[1] for x in lines if re.fullmatch(r"shared \S+\s*", x))
    others = [x for x in lines if not re.fullmatch(r"shared \S+\s*", x)]
    blocks: Mapping[str, int] = {}
    if others and others[0].startswith("blocks("):
        blocks = dict(parse_schedule(others.pop(0).replace("blocks", "factors", 1)).factors)
    if any(x.strip() for x in others):
        raise ScheduleError(
            f"{others[0].strip()[:60]!r} stands before the first nest", fix=_AS_PRINTED
        )
    nests: dict[str, Schedule] = {}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        try:
            nests[name] = parse_schedule(body)
        except ScheduleError as error:
            raise error.at(f"nest {name}, {error.where}" if error.where else name) from None
    return _Text(algorithm.strip(), shared, blocks, nests)
