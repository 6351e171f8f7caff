"""Measuring candidates beyond the model: a few to confirm it, or all of a space as a black box.

In: ranked candidates and a `Measure` (the simulator; later, a run on the host). Out: the candidates
in the order of what was measured. Work goes through any `concurrent.futures.Executor`, as program
text, so that processes and remote workers share nothing but tilewright itself; finished results
go to the records at once. swATOP 4.6 (model) and 5.3 (black-box tuner) are the two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from tilewright.common.errors import TilewrightError, ToolError
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import Machine
from tilewright.simulate.kernel_level import simulate
from tilewright.tune.records import Records, Subject, subject
from tilewright.tune.search import Candidate

_IN_FLIGHT = 32
"""Programs handed to an executor at a time; more would only hold memory."""

EVERYTHING = 2**62
"""More candidates than any space holds."""

Advance = Callable[[int, int], None]
"""Called with (schedules measured so far, schedules in all)."""


class Measure(Protocol):
    """Runs one program; must be picklable where an executor of processes is used."""

    @property
    def kind(self) -> str:
        """What the numbers are: "simulated", "measured"."""

    def cycles(self, program_text: str, machine: Machine) -> int:
        """Cycles of one core group; raises TilewrightError where the program cannot run."""


@dataclass(frozen=True)
class SimulatedMeasure:
    """The kernel-level simulator."""

    kind: str = "simulated"

    def cycles(self, program_text: str, machine: Machine) -> int:
        """Simulate the program."""
        return simulate(parse(program_text), machine).cycles


@dataclass(frozen=True, eq=False)
class Measured:
    """A candidate with its cycles; `failure` says why there are none."""

    candidate: Candidate
    cycles: int | None
    failure: str = ""


def schedule_text(candidate: Candidate) -> str:
    """The whole choice as text: the algorithm, then the schedule of each nest.

    Two candidates of one operator compute it in the same way exactly if their texts are equal.
    """
    nests = (f"nest {n.structure.space.nest.name}\n{n.schedule}" for n in candidate.nests)
    return "\n".join((f"algorithm {candidate.seed.name}", *nests)) + "\n"


def measure_all(
    candidates: Sequence[Candidate],
    machine: Machine,
    measure: Measure,
    *,
    records: Records | None = None,
    executor: Executor | None = None,
    advance: Advance | None = None,
) -> list[Measured]:
    """Measure every candidate; fastest first, those that cannot run last.

    What `records` holds is not measured again, nor is a schedule that occurs twice; what is new is
    committed as soon as it is known. Without `executor` the work is done in this process.
    """
    places: dict[Subject, list[int]] = {}
    for i, candidate in enumerate(candidates):
        what = subject(candidate.op, machine, schedule_text(candidate), measure.kind)
        places.setdefault(what, []).append(i)
    found: dict[Subject, Measured] = {}
    if records is not None:
        recorded = ((what, records.get(what)) for what in places)
        found = {w: Measured(candidates[places[w][0]], c) for w, c in recorded if c is not None}
    done = _in_process if executor is None else _through(executor)
    tasks = ((w, candidates[places[w][0]], machine, measure) for w in places if w not in found)
    for what, result in done(list(tasks)):
        found[what] = result
        if records is not None and result.cycles is not None:
            records.put(what, result.cycles)
        if advance:
            advance(len(found), len(places))
    every = (replace(found[w], candidate=candidates[i]) for w in places for i in places[w])
    return sorted(every, key=_order)


_Task = tuple[Subject, Candidate, Machine, Measure]


def _order(measured: Measured) -> float:
    return float("inf") if measured.cycles is None else measured.cycles


def _in_process(tasks: Iterable[_Task]) -> Iterator[tuple[Subject, Measured]]:
    for what, candidate, machine, measure in tasks:
        text = print_program(candidate.program(machine))
        yield what, _result(candidate, partial(_run, measure, text, machine))


def _through(executor: Executor) -> Callable[[Iterable[_Task]], Iterator[tuple[Subject, Measured]]]:
    """Keep a window of tasks in flight, and yield each as it is done."""

    def run(tasks: Iterable[_Task]) -> Iterator[tuple[Subject, Measured]]:
        source = iter(tasks)
        flying: dict[Future[int], tuple[Subject, Candidate]] = {}
        try:
            while True:
                for what, candidate, machine, measure in islice(source, _IN_FLIGHT - len(flying)):
                    text = print_program(candidate.program(machine))
                    flying[executor.submit(_run, measure, text, machine)] = (what, candidate)
                if not flying:
                    return
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    what, candidate = flying.pop(future)
                    yield what, _result(candidate, future.result)
        except BrokenExecutor as error:
            raise ToolError(
                f"the executor's workers ended: {error}",
                fix="leave the executor, or give it fewer workers; what was finished is recorded",
            ) from error
        finally:
            for future in flying:
                future.cancel()

    return run


def _result(candidate: Candidate, cycles: Callable[[], int]) -> Measured:
    try:
        return Measured(candidate, cycles())
    except TilewrightError as error:
        return Measured(candidate, None, str(error))


def _run(measure: Measure, program_text: str, machine: Machine) -> int:
    return measure.cycles(program_text, machine)
