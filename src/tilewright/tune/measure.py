"""Measuring candidates beyond the model: a few to confirm it, or all of a space as a black box.

In: ranked candidates and a `Measure` (the simulator; later, a run on the host). Out: the candidates
in the order of what was measured. Work goes through any `concurrent.futures.Executor`, as program
text, so that processes and remote workers share nothing but tilewright itself; finished results
go to the records at once. swATOP 4.6 (model) and 5.3 (black-box tuner) are the two ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol

from tilewright.common.errors import TilewrightError
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.seeds.space import Seed
from tilewright.simulate.kernel_level import simulate
from tilewright.tune.records import Records, Subject, subject
from tilewright.tune.search import Candidate, rank

_IN_FLIGHT = 32
"""Programs handed to an executor at a time; more would only hold memory."""

EVERYTHING = 2**62
"""More candidates than any space holds."""

Advance = Callable[[int, int], None]
"""Called with (candidates measured so far, candidates in all)."""


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


def all_candidates(op: Op, seed: Seed, machine: Machine) -> list[Candidate]:
    """Every candidate that fits, best by the model first."""
    (ranking,) = rank([(op, seed)], machine, keep=EVERYTHING)
    distinct = {schedule_text(c): c for c in reversed(ranking.best)}
    return list(reversed(distinct.values()))


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

    What `records` holds is not measured again; what is new is committed as soon as it is known.
    Without `executor` the work is done in this process.
    """
    found: dict[int, Measured] = {}
    open_cases: list[tuple[int, Subject]] = []
    for i, candidate in enumerate(candidates):
        what = subject(candidate.op, machine, schedule_text(candidate), measure.kind)
        known = None if records is None else records.get(what)
        if known is None:
            open_cases.append((i, what))
        else:
            found[i] = Measured(candidate, known)
    done = _in_process if executor is None else _through(executor)
    tasks = ((i, candidates[i], machine, measure) for i, _ in open_cases)
    subjects = dict(open_cases)
    for i, result in done(tasks):
        found[i] = result
        if records is not None and result.cycles is not None:
            records.put(subjects[i], result.cycles)
        if advance:
            advance(len(found), len(candidates))
    return sorted((found[i] for i in sorted(found)), key=_order)


def confirm(
    candidates: Sequence[Candidate],
    top: int,
    machine: Machine,
    measure: Measure,
    *,
    records: Records | None = None,
    executor: Executor | None = None,
    advance: Advance | None = None,
) -> list[Measured]:
    """Measure the `top` first candidates and put them in the order of the measure."""
    first = candidates[:top]
    return measure_all(first, machine, measure, records=records, executor=executor, advance=advance)


_Task = tuple[int, Candidate, Machine, Measure]


def _order(measured: Measured) -> float:
    return float("inf") if measured.cycles is None else measured.cycles


def _in_process(tasks: Iterable[_Task]) -> Iterator[tuple[int, Measured]]:
    for i, candidate, machine, measure in tasks:
        text = print_program(candidate.program(machine))
        yield i, _result(candidate, partial(_run, measure, text, machine))


def _through(executor: Executor) -> Callable[[Iterable[_Task]], Iterator[tuple[int, Measured]]]:
    """Keep a window of tasks in flight, and yield each as it is done."""

    def run(tasks: Iterable[_Task]) -> Iterator[tuple[int, Measured]]:
        source = iter(tasks)
        flying: dict[Future[int], tuple[int, Candidate]] = {}
        try:
            while True:
                for i, candidate, machine, measure in islice(source, _IN_FLIGHT - len(flying)):
                    text = print_program(candidate.program(machine))
                    flying[executor.submit(_run, measure, text, machine)] = (i, candidate)
                if not flying:
                    return
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    i, candidate = flying.pop(future)
                    yield i, _result(candidate, future.result)
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
