"""Measure candidates: a few to confirm the model, or all of a space as a black box.

In: ranked candidates and a `Measure` (the simulator, or this computer). Out: the candidates in
measured order, fastest first. Any `concurrent.futures.Executor` does the work, given as program
text, so that processes and remote workers share nothing but tilewright itself; finished results are
recorded at once. swATOP 4.6 (model) and 5.3 (black-box tuner) are the two extremes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

from tilewright.common.errors import TilewrightError
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.candidate import Candidate
from tilewright.tune.executors import as_done
from tilewright.tune.records import MeasuredSubject, Records, subject

EVERYTHING = 2**62
"""More candidates than any space holds."""

Advance = Callable[[int, int], None]
"""Called with (schedules measured so far, schedules in all)."""


class Measure(Protocol):
    """Measures one program at a time; must be picklable for an executor of processes."""

    @property
    def kind(self) -> str:
        """Kind of the numbers: "simulated", "measured"."""

    def cycles(self, program_text: str, machine: Machine) -> int:
        """Cycles of one core group; raises TilewrightError if the program cannot run."""


@runtime_checkable
class InterleavedMeasure(Protocol):
    """A measure whose numbers compare only within one run."""

    def cycles_of(
        self, program_texts: Sequence[str], machine: Machine
    ) -> list[int | TilewrightError]:
        """Cycles of each program, or why it cannot run."""


@dataclass(frozen=True)
class SimulatedMeasure:
    """The kernel-level simulator."""

    kind: str = "simulated"

    def cycles(self, program_text: str, machine: Machine) -> int:
        """Simulate the program."""
        return simulate(parse(program_text), machine).cycles


@dataclass(frozen=True, eq=False)
class Measured:
    """A candidate with its cycles, or None and the reason in `failure`."""

    candidate: Candidate
    cycles: int | None
    failure: str = ""


def schedule_text(candidate: Candidate) -> str:
    """The whole choice as text: the algorithm, the sizes of its blocks, the schedule of each nest.

    Two candidates of one operator are equal exactly if their texts are.
    """
    head = (f"algorithm {candidate.seed.name}", *(f"shared {name}" for name in candidate.shared))
    if candidate.blocks:
        sizes = ", ".join(f"{name}={size}" for name, size in candidate.blocks.items())
        head = (*head, f"blocks({sizes})")
    nests = (f"nest {n.structure.space.nest.name}\n{n.schedule}" for n in candidate.nests)
    return "\n".join((*head, *nests)) + "\n"


def measure_all(
    candidates: Sequence[Candidate],
    machine: Machine,
    measure: Measure,
    *,
    records: Records | None = None,
    executor: Executor | None = None,
    advance: Advance | None = None,
) -> list[Measured]:
    """Measure every candidate; fastest first, failed ones last.

    Each distinct schedule is measured once, and not at all if `records` holds it; new results are
    committed at once. Without `executor`, this process does the work. An `InterleavedMeasure`
    always runs in this process, and its results are not recorded.
    """
    if isinstance(measure, InterleavedMeasure):
        return _measured_together(candidates, machine, measure)
    places: dict[MeasuredSubject, list[int]] = {}
    for i, candidate in enumerate(candidates):
        what = subject(candidate.op, machine, schedule_text(candidate), measure.kind)
        places.setdefault(what, []).append(i)
    found: dict[MeasuredSubject, Measured] = {}
    if records is not None:
        recorded = ((what, records.get(what)) for what in places)
        found = {w: Measured(candidates[places[w][0]], c) for w, c in recorded if c is not None}
    new = [what for what in places if what not in found]
    calls = _calls({what: candidates[places[what][0]] for what in new}, machine, measure)
    for what, cycles in as_done(executor, calls):
        found[what] = result = _result(candidates[places[what][0]], cycles)
        if records is not None and result.cycles is not None:
            records.put(what, result.cycles)
        if advance:
            advance(len(found), len(places))
    every = (replace(found[w], candidate=candidates[i]) for w in places for i in places[w])
    return sorted(every, key=_order)


def _measured_together(
    candidates: Sequence[Candidate], machine: Machine, measure: InterleavedMeasure
) -> list[Measured]:
    """Measure all candidates in one run, each distinct program once."""
    texts = [print_program(candidate.program(machine)) for candidate in candidates]
    distinct = list(dict.fromkeys(texts))
    found = dict(zip(distinct, measure.cycles_of(distinct, machine), strict=True))
    results = []
    for candidate, text in zip(candidates, texts, strict=True):
        match found[text]:
            case int(cycles):
                results.append(Measured(candidate, cycles))
            case error:
                results.append(Measured(candidate, None, str(error)))
    return sorted(results, key=_order)


def _order(measured: Measured) -> float:
    return float("inf") if measured.cycles is None else measured.cycles


def _calls(
    candidates: dict[MeasuredSubject, Candidate], machine: Machine, measure: Measure
) -> Iterator[tuple[MeasuredSubject, Callable[[], int]]]:
    """One call per candidate; its program is printed only when the executor takes the call."""
    for what, candidate in candidates.items():
        text = print_program(candidate.program(machine))
        yield what, partial(_run, measure, text, machine)


def _result(candidate: Candidate, cycles: Callable[[], int]) -> Measured:
    try:
        return Measured(candidate, cycles())
    except TilewrightError as error:
        return Measured(candidate, None, str(error))


def _run(measure: Measure, program_text: str, machine: Machine) -> int:
    return measure.cycles(program_text, machine)
