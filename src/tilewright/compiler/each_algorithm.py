"""Checking a network's code by one layer for each algorithm that applies to it.

In: the kernels of a network. Out: what their code gave. An algorithm runs on the layer that is
least work to run on the host; where it won there, as the very code that was generated, otherwise
with no more images than are work for about half a second. Where all core groups together have no
more to do, the code that starts them and arranges their operands runs too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Self, TypeAlias

from tilewright.codegen.artifact import EMITS, READIES
from tilewright.common.errors import ScheduleError
from tilewright.common.progress import Progress
from tilewright.compiler.adding import adding_program, simulated_run
from tilewright.compiler.kernel import Kernel
from tilewright.compiler.settings import Check
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.report.view import AlgorithmCheck, CheckResult
from tilewright.tune.choose import Choice, Option, choose
from tilewright.tune.measure import schedule_text
from tilewright.tune.replay import replay

Work: TypeAlias = tuple[Kernel, Option]
"""A layer, and the option whose code runs."""

_OPERATIONS_PER_ELEMENT = 500
"""The emulation multiplies at some 30 Gflop/s; data is made and compared at 60 M elements/s."""
_ENOUGH_OPERATIONS = 10_000_000_000
"""Work for about half a second."""
_CHECKS_AT_A_TIME = 2
"""Whole layers' tensors are in memory while one is checked; more at a time would take too much."""


Wanted: TypeAlias = Mapping[str, tuple[Op, Option]]
"""The options whose code is to run, and their layers' operators."""


def wanted_checks(choices: Sequence[Choice], which: Check) -> Wanted:
    """The operators and options to run: none, the winner of each layer, or for each algorithm its
    best option on the layer that is least work to run on the host.
    """
    match which:
        case "none":
            return {}
        case "each layer":
            return {str(i): (choice.op, choice.best) for i, choice in enumerate(choices)}
        case "each algorithm":
            found: dict[str, tuple[Op, Option]] = {}
            for choice in sorted(choices, key=lambda choice: _host_work(choice.op)):
                for option in choice.options:
                    found.setdefault(option.algorithm, (choice.op, option))
            return found


class Checks:
    """Checks that run two at a time, in processes of their own, beside what else is done: each
    begins when the kernel of its layer is there, and what all of them need is made before.
    """

    def __init__(self, machine: Machine, which: Check, progress: Progress) -> None:
        self._which = which
        self._wanted: Wanted = {}
        self._progress = progress
        self._threads = ThreadPoolExecutor(_CHECKS_AT_A_TIME)
        self._running: dict[str, Future[Kernel]] = {}
        family = None if which == "none" else READIES.of(machine)
        self._ready = self._threads.submit(family.make_ready, machine) if family else None

    def choose(self, choices: Sequence[Choice]) -> None:
        """Say of what there will be kernels."""
        self._wanted = wanted_checks(choices, self._which)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self, kernels: Iterable[Kernel]) -> None:
        """Start the wanted checks of these layers, the largest first, so that none of them is left
        over for the end.
        """
        of_op = {kernel.op: kernel for kernel in kernels}
        own = [(name, *pair) for name, pair in self._wanted.items() if pair[0] in of_op]
        for name, op, option in sorted(own, key=lambda w: -_host_work(w[2].partition.piece)):
            self._running[name] = self._threads.submit(self._when_ready, of_op[op], option)

    def _when_ready(self, kernel: Kernel, option: Option) -> Kernel:
        if self._ready is not None:
            self._ready.result()
        return _checked(kernel, option)

    def finished(
        self, kernels: Mapping[Op, Kernel]
    ) -> tuple[dict[Op, Kernel], tuple[AlgorithmCheck, ...]]:
        """The kernels with what their own code gave, and what the code of each option gave."""
        total = len(self._running)
        if total:
            self._progress("check", 0, total)
        for done, _ in enumerate(as_completed(self._running.values()), 1):
            self._progress("check", done, total)
        result = dict(kernels)
        checks: list[AlgorithmCheck] = []
        for name, (op, option) in self._wanted.items():
            case = self._running[name].result()
            if option is kernels[op].option:
                result[op] = replace(kernels[op], checked=case.checked)
            conv = case.op.convolution
            images = conv.batch if conv is not None and conv != op else None
            shape = case.option.partition.piece.describe()
            checks.append(AlgorithmCheck(option.algorithm, case.name, shape, case.checked, images))
        return result, tuple(checks)


def with_option(kernel: Kernel, option: Option) -> Kernel:
    """The kernel as it would be had `option` won."""
    program = option.candidate.program(kernel.machine)
    code = EMITS.required(kernel.machine).emit(program, kernel.machine)
    adding = adding_program(option, kernel.machine)
    other = replace(kernel, option=option, program=program, artifact=code, adding=adding)
    if kernel.simulated is None:
        return replace(other, measured=None)
    return replace(other, simulated=simulated_run(other.programs, kernel.machine))


def _checked(kernel: Kernel, option: Option) -> Kernel:
    """The kernel that was run and checked for a layer and an option: `kernel` if the option won."""
    won = option is kernel.option
    case = kernel if won else with_option(*_with_fewer_images(kernel, option))
    return replace(case, checked=_ran(case))


def _ran(case: Kernel) -> CheckResult:
    """The check of all core groups' code if that is little work, else of one group's."""
    little = _host_work(case.op) <= _ENOUGH_OPERATIONS
    return case.check_groups() if case.is_driven and little else case.check()


def _with_fewer_images(kernel: Kernel, option: Option) -> Work:
    """The layer and the option with so few images that they are enough work, but no more; with as
    many as the algorithm needs.
    """
    while _host_work(option.partition.piece) > _ENOUGH_OPERATIONS:
        op = kernel.op.convolution
        if op is None or op.batch % 2:
            break
        op = replace(op, batch=op.batch // 2)
        try:
            choice = _choice_like(option, op, kernel.machine)
        except ScheduleError:
            break
        kernel, option = replace(kernel, op=op, choice=choice), choice.best
    return kernel, option


def _choice_like(option: Option, op: Op, machine: Machine) -> Choice:
    """The option's schedule for another operator; where it is none for that, the best one of its
    algorithm. Raises ScheduleError where the algorithm does not apply.
    """
    kind = option.partition.kind
    try:
        return replay(op, machine, schedule_text(option.candidate), kind)
    except ScheduleError:
        (choice,) = choose([op], machine, algorithm=option.algorithm, partition=kind)
        return choice


def _host_work(op: Op) -> int:
    """Operations, and elements that are made, moved and compared, in operations' worth."""
    shapes = (*op.input_shapes, op.out_shape)
    return op.flops + _OPERATIONS_PER_ELEMENT * sum(math.prod(s) for s in shapes)
