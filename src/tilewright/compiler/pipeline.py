"""The compiler: operators in, kernels out. One straight function is the pipeline.

choose (partition, algorithm and schedule, by the model) -> confirm (by a measure, if asked) ->
instantiate -> emit -> simulate, or measure where the machine is this computer -> check (if asked).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from tilewright.codegen.artifact import EMITS, LOADS
from tilewright.common.errors import BusyError, GraphError, ScheduleError
from tilewright.common.progress import Progress
from tilewright.compiler.kernel import CompiledNetwork, Kernel
from tilewright.compiler.settings import Layer, Settings
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Op
from tilewright.report.view import AlgorithmCheck, CheckResult
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.choose import Choice, Option, choose, confirm_choice
from tilewright.tune.measure import SimulatedMeasure
from tilewright.tune.native import NativeMeasure, measured_seconds
from tilewright.tune.replay import replay

_LOG = logging.getLogger(__name__)
_OPERATIONS_PER_ELEMENT = 500
"""The emulation multiplies at some 30 Gflop/s; data is made and compared at 60 M elements/s."""
_CHECKS_AT_A_TIME = 2
"""Whole layers' tensors are in memory while one is checked; more at a time would take too much."""


def compile_layers(
    name: str, layers: Sequence[Layer], machine: Machine, settings: Settings
) -> CompiledNetwork:
    """The pipeline, for all layers together; equal layers are compiled once."""
    if not layers:
        raise GraphError(f"{name} has no convolution or matrix product to compile")
    watch = _Watch()
    EMITS.required(machine)
    machine = machine.of_one_program
    firsts = {op: layer for layer, op in reversed(layers)}
    ops = list(dict.fromkeys(op for _, op in layers))

    choices = _chosen(ops, firsts, machine, settings, strict=len(layers) == 1)
    watch.lap("choose")
    choices = [_confirmed(c, i, len(ops), machine, settings) for i, c in enumerate(choices)]
    watch.lap("confirm")

    kernels = _generated(choices, firsts, machine, settings, watch)
    kernels, checks = _checked(kernels, settings)
    watch.lap("check")
    tuning = watch.seconds["choose"] + watch.seconds["confirm"]
    by_layer = {layer: kernels[op] for layer, op in layers}
    batch = max((op.batch for op in ops if isinstance(op, Conv2d)), default=None)
    return CompiledNetwork(
        name, machine, batch, ops[0].dtype, by_layer, tuning, watch.seconds, checks
    )


def _chosen(
    ops: Sequence[Op],
    names: Mapping[Op, str],
    machine: Machine,
    settings: Settings,
    *,
    strict: bool,
) -> list[Choice]:
    """What the search finds for all operators, or the one schedule that is given."""
    if settings.schedule is not None:
        if len(ops) > 1:
            raise ScheduleError(f"a schedule is one operator's, found {len(ops)} operators")
        return [replay(ops[0], machine, settings.schedule, settings.partition)]
    return choose(
        ops,
        machine,
        algorithm=settings.algorithm,
        partition=settings.partition,
        max_error=settings.max_error,
        strict=strict,
        keep=max(settings.keep, settings.top),
        names=[names[op] for op in ops] if len(ops) > 1 else (),
        steps=partial(settings.progress, "choose"),
    )


def _generated(
    choices: Sequence[Choice],
    names: Mapping[Op, str],
    machine: Machine,
    settings: Settings,
    watch: _Watch,
) -> dict[Op, Kernel]:
    """The kernels with their times, all by the same clock: where the computer is too busy to
    measure one of them, all have the model's time.
    """
    emits, native = EMITS.required(machine), LOADS.of(machine) is not None
    kernels: dict[Op, Kernel] = {}
    for choice in choices:
        settings.progress("generate", len(kernels), len(choices))
        op, option = choice.op, choice.best
        _LOG.info("%s: %s by %s", names[op], op.describe(), option.algorithm)
        program = option.candidate.program(machine)
        watch.lap("instantiate")
        code = emits.emit(program, machine)
        watch.lap("emit")
        kernels[op] = Kernel(names[op], op, machine, choice, option, program, code)
        try:
            kernels[op] = _timed(kernels[op], settings)
        except BusyError as error:
            _LOG.warning("times are the model's, not measured: %s", error.message)
            settings = replace(settings, measure=False)
            kernels = {known: replace(k, measured=None) for known, k in kernels.items()}
        watch.lap("measure" if native else "simulate")
    settings.progress("generate", len(choices), len(choices))
    return kernels


def _timed(kernel: Kernel, settings: Settings) -> Kernel:
    """The kernel with its time: simulated, or measured where the machine is this computer."""
    if LOADS.of(kernel.machine) is None:
        return replace(kernel, simulated=simulate(kernel.program, kernel.machine))
    if not settings.measure:
        return kernel
    return replace(kernel, measured=measured_seconds(kernel.artifact, kernel.machine))


class _Watch:
    """Seconds of each stage, added up over the layers."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


def _confirmed(
    choice: Choice, index: int, count: int, machine: Machine, settings: Settings
) -> Choice:
    """The choice with its best candidates measured, if that is asked for."""
    if settings.top < 1:
        return choice
    settings.progress("confirm", index, count)
    native = LOADS.of(machine) is not None
    confirmed = confirm_choice(
        choice,
        settings.top,
        machine,
        NativeMeasure() if native else SimulatedMeasure(),
        records=settings.records,
        executor=settings.executor,
    )
    settings.progress("confirm", index + 1, count)
    return confirmed


def _checked(
    kernels: dict[Op, Kernel], settings: Settings
) -> tuple[dict[Op, Kernel], tuple[AlgorithmCheck, ...]]:
    """Run the generated code of every kernel, or of one per algorithm."""
    match settings.check:
        case "none":
            return kernels, ()
        case "each layer":
            found = _check_results(list(kernels.values()), settings.progress)
            pairs = zip(kernels.items(), found, strict=True)
            return {op: replace(kernel, checked=result) for (op, kernel), result in pairs}, ()
        case "each algorithm":
            return _algorithms_checked(kernels, settings.progress)


def _algorithms_checked(
    kernels: dict[Op, Kernel], progress: Progress
) -> tuple[dict[Op, Kernel], tuple[AlgorithmCheck, ...]]:
    """Check the best schedule of each algorithm on the smallest layer that it applies to."""
    smallest = smallest_by_algorithm(kernels)
    cases = [
        kernel if option is kernel.option else with_option(kernel, option)
        for kernel, option in smallest.values()
    ]
    found = _check_results(cases, progress)
    result = dict(kernels)
    checks: list[AlgorithmCheck] = []
    for case, outcome in zip(cases, found, strict=True):
        if case is kernels[case.op]:
            result[case.op] = replace(case, checked=outcome)
        shape = case.option.partition.piece.describe()
        checks.append(AlgorithmCheck(case.option.algorithm, case.name, shape, outcome))
    return result, tuple(checks)


def _check_results(cases: Sequence[Kernel], progress: Progress) -> list[CheckResult]:
    """Run the code of some kernels, two at a time: each runs in a process of its own."""
    found: list[CheckResult] = []
    progress("check", 0, len(cases))
    with ThreadPoolExecutor(_CHECKS_AT_A_TIME) as threads:
        for result in threads.map(Kernel.check, cases):
            found.append(result)
            progress("check", len(found), len(cases))
    return found


def smallest_by_algorithm(kernels: dict[Op, Kernel]) -> dict[str, tuple[Kernel, Option]]:
    """For each algorithm the layer that is least work to run on the host, and its best option."""
    found: dict[str, tuple[Kernel, Option]] = {}
    for kernel in sorted(kernels.values(), key=_host_work):
        for option in kernel.choice.options:
            found.setdefault(option.algorithm, (kernel, option))
    return found


def _host_work(kernel: Kernel) -> int:
    """Operations, and elements that are made, moved and compared, in operations' worth."""
    shapes = (*kernel.op.input_shapes, kernel.op.out_shape)
    return kernel.op.flops + _OPERATIONS_PER_ELEMENT * sum(math.prod(s) for s in shapes)


def with_option(kernel: Kernel, option: Option) -> Kernel:
    """The kernel as it would be had `option` won."""
    program = option.candidate.program(kernel.machine)
    code = EMITS.required(kernel.machine).emit(program, kernel.machine)
    other = replace(kernel, option=option, program=program, artifact=code)
    if kernel.simulated is None:
        return replace(other, measured=None)
    return replace(other, simulated=simulate(program, kernel.machine))
