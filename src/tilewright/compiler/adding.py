"""The program that adds up the partial results of the core groups behind their pieces.

In: an option whose pieces divide the sums. Out: the program of one group's share; its time is a
part of the operator's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.tune.choose import Option
from tilewright.tune.refills import simulated

SUMS = "sums"
"""Prefix of the causes and tensors of adding up."""


def adding_program(option: Option, machine: Machine) -> Program | None:
    """The program that adds up the results of the option's pieces; None if they are not partial."""
    return None if option.adding is None else option.adding.best.candidate.program(machine)


def simulated_run(programs: Sequence[Program], machine: Machine, trace_limit: int = 0) -> KernelRun:
    """The simulated run of a piece, and of the program that adds up behind it."""
    first, *others = programs
    runs = (simulate(other, machine) for other in others)
    return _behind(simulate(first, machine, trace_limit=trace_limit), runs)


def simulated_option(option: Option, machine: Machine) -> KernelRun:
    """`simulated_run` of the programs of an option, kept as the search keeps its runs."""
    adding = () if option.adding is None else (option.adding.best.candidate,)
    times = (simulated(own, machine) for own in (option.candidate, *adding))
    first, *others = (KernelRun(**vars(time)) for time in times)
    return _behind(first, others)


def _behind(run: KernelRun, others: Iterable[KernelRun]) -> KernelRun:
    for other in others:
        run = run.then(other, SUMS)
    return run
