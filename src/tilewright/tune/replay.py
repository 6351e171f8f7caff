"""The text of a schedule back into the choice that it was printed from (`measure.schedule_text`).

In: an operator, a machine, a text. Out: a `Choice`: what the search knows by that text, with its
estimate, once for each way to divide the operator under which it is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.common.errors import ScheduleError
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.partition import Partition
from tilewright.seeds.space import Seed, parameters
from tilewright.seeds.steps import Schedule, parse_schedule
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.choose import Choice, Option, additions, shared_operands
from tilewright.tune.search import Counts, choice_of
from tilewright.tune.ways import ways

_AS_PRINTED = "give the text as schedule.txt of a compiled kernel has it"


@dataclass(frozen=True)
class _Text:
    """A parsed schedule text; `nests` are the schedules by the names of their nests."""

    algorithm: str
    shared: frozenset[str]
    blocks: Mapping[str, int]
    nests: Mapping[str, Schedule]


def replay(op: Op, machine: Machine, text: str, partition: str | None = None) -> Choice:
    """The choice for `op` that has this text; of all ways to divide it, or of `partition` alone.

    Raises ScheduleError for a text that is none, and for one that is not of this operator's space
    on this machine, or does not fit it.
    """
    said = _read(text)
    (found,) = ways([op], machine, algorithm=said.algorithm, partition=partition)
    options, refused = [], []
    for part, seed in found:
        try:
            candidate = _candidate(said, part, seed, machine)
            (adding,) = additions([(part, seed)], machine)
            if part.partial and adding is None:
                raise ScheduleError("what adds up the groups' partial results fits in no way")
            options.append(Option(part, candidate, adding=adding))
        except ScheduleError as error:
            refused.append(error)
    if not options:
        raise refused[0]
    options.sort(key=lambda option: option.cycles)
    return Choice(op, tuple(options), Counts(*[len(options)] * 4))


def _candidate(said: _Text, part: Partition, seed: Seed, machine: Machine) -> Candidate:
    op, shared = part.piece, shared_operands(part, seed)
    if said.blocks not in list(seed.blocks(parameters(op))):
        raise _foreign(f"blocks of these sizes, {_named(said.blocks)},", op, machine)
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


def _named(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "none"


def _read(text: str) -> _Text:
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
