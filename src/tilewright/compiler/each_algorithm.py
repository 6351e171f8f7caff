"""Checking a network's code by one layer for each algorithm that applies to it.

In: the kernels of a network. Out: what their code gave. An algorithm runs on the layer that is
least work to run on the host; where it won there, as the very code that was generated, otherwise
with no more images than are work for about half a second. Where all core groups together have no
more to do, the code that starts them and arranges their operands runs too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TypeAlias

from tilewright.codegen.artifact import EMITS
from tilewright.common.errors import ScheduleError
from tilewright.common.progress import Progress
from tilewright.compiler.adding import adding_program, simulated_run
from tilewright.compiler.kernel import Kernel
from tilewright.ops import Conv2d, Op
from tilewright.report.view import AlgorithmCheck, CheckResult
from tilewright.tune.choose import Option
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


def algorithms_checked(
    kernels: Mapping[Op, Kernel], progress: Progress
) -> tuple[dict[Op, Kernel], tuple[AlgorithmCheck, ...]]:
    """Run the best schedule of each algorithm on the smallest layer that it applies to.

    Gives the kernels with what their own code gave, and what the code of each algorithm gave.
    """
    smallest = list(_smallest_by_algorithm(kernels).values())
    result = dict(kernels)
    checks: list[AlgorithmCheck] = []
    for (kernel, _), case in zip(smallest, _all_checked(smallest, progress), strict=True):
        op, name, option = case.op, case.name, case.option
        if option is kernel.option:
            result[op] = case
        images = op.batch if isinstance(op, Conv2d) and op != kernel.op else None
        shape = option.partition.piece.describe()
        checks.append(AlgorithmCheck(option.algorithm, name, shape, case.checked, images))
    return result, tuple(checks)


def each_checked(kernels: Mapping[Op, Kernel], progress: Progress) -> dict[Op, Kernel]:
    """The kernels with what their code gave."""
    works = [(kernel, kernel.option) for kernel in kernels.values()]
    return dict(zip(kernels, _all_checked(works, progress), strict=True))


def _all_checked(works: Sequence[Work], progress: Progress) -> list[Kernel]:
    """What ran of each, two at a time: code runs in a process of its own.

    The largest begin, so that none of them is left over for the end.
    """
    progress("check", 0, len(works))
    with ThreadPoolExecutor(_CHECKS_AT_A_TIME) as threads:
        order = sorted(works, key=lambda work: -_host_work(work[1].partition.piece))
        running = {work: threads.submit(_checked, *work) for work in order}
        for done, _ in enumerate(as_completed(running.values()), 1):
            progress("check", done, len(works))
    return [running[work].result() for work in works]


def with_option(kernel: Kernel, option: Option) -> Kernel:
    """The kernel as it would be had `option` won."""
    program = option.candidate.program(kernel.machine)
    code = EMITS.required(kernel.machine).emit(program, kernel.machine)
    adding = adding_program(option, kernel.machine)
    other = replace(kernel, option=option, program=program, artifact=code, adding=adding)
    if kernel.simulated is None:
        return replace(other, measured=None)
    return replace(other, simulated=simulated_run(other.programs, kernel.machine))


def _smallest_by_algorithm(kernels: Mapping[Op, Kernel]) -> dict[str, Work]:
    """For each algorithm the layer that is least work to run on the host, and its best option."""
    found: dict[str, Work] = {}
    for kernel in sorted(kernels.values(), key=lambda kernel: _host_work(kernel.op)):
        for option in kernel.choice.options:
            found.setdefault(option.algorithm, (kernel, option))
    return found


def _checked(kernel: Kernel, option: Option) -> Kernel:
    """What ran of a layer and an option, checked: the kernel itself where the option won."""
    won = option is kernel.option
    case = kernel if won else with_option(*_with_fewer_images(kernel, option))
    return replace(case, checked=_ran(case))


def _ran(case: Kernel) -> CheckResult:
    """What the code of all core groups gave where that is little work, else that of one."""
    little = _host_work(case.op) <= _ENOUGH_OPERATIONS
    return case.check_groups() if case.is_driven and little else case.check()


def _with_fewer_images(kernel: Kernel, option: Option) -> Work:
    """The layer and the option with so few images that they are enough work, but no more; with all
    of them where the schedule is none for fewer.
    """
    text = schedule_text(option.candidate)
    while _host_work(option.partition.piece) > _ENOUGH_OPERATIONS:
        op = kernel.op
        if not isinstance(op, Conv2d) or op.batch % 2:
            break
        op = replace(op, batch=op.batch // 2)
        try:
            choice = replay(op, kernel.machine, text, option.partition.kind)
        except ScheduleError:
            break
        kernel, option = replace(kernel, op=op, choice=choice), choice.best
    return kernel, option


def _host_work(op: Op) -> int:
    """Operations, and elements that are made, moved and compared, in operations' worth."""
    shapes = (*op.input_shapes, op.out_shape)
    return op.flops + _OPERATIONS_PER_ELEMENT * sum(math.prod(s) for s in shapes)
