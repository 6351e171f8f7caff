"""The compiler: operators in, kernels out. One straight function is the pipeline.

choose (partition, algorithm and schedule, by the model) -> confirm (by a measure, if asked) ->
instantiate -> emit -> simulate, or measure where the machine is this computer -> check (if asked).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tilewright.codegen.artifact import EMITS
from tilewright.common.errors import BusyError, GraphError, ScheduleError
from tilewright.compiler.adding import adding_program, simulated_run
from tilewright.compiler.each_algorithm import Checks
from tilewright.compiler.kernel import Kernel, Kernels
from tilewright.compiler.settings import Layer, Settings
from tilewright.compiler.toolchain import Toolchain
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.tune.choose import Choice, choose, confirm_choice
from tilewright.tune.measure import SimulatedMeasure
from tilewright.tune.native import NativeMeasure, measured_seconds
from tilewright.tune.replay import replay

_LOG = logging.getLogger(__name__)


def compile_layers(
    name: str, layers: Sequence[Layer], machine: Machine, settings: Settings
) -> Kernels:
    """The pipeline, for all layers together; equal layers are compiled once."""
    if not layers:
        raise GraphError(f"{name} has no convolution or matrix product to compile")
    watch = _Watch()
    EMITS.required(machine, "compile a network as a whole" if Toolchain(machine).divides else "")
    machine = machine.of_one_program
    chain = Toolchain(machine)
    firsts = {op: layer for layer, op in reversed(layers)}
    ops = list(dict.fromkeys(op for _, op in layers))

    with Checks(machine, settings.check, settings.progress) as running:
        choices = _chosen(ops, firsts, machine, settings, strict=len(layers) == 1)
        watch.lap("choose")
        choices = _confirmed(choices, chain, settings)
        watch.lap("confirm")
        running.choose(choices)
        kernels = _generated(choices, firsts, chain, settings, watch, running)
        kernels, found = running.finished(kernels)
    checks = found if settings.check == "each algorithm" else ()
    watch.lap("check")
    tuning = watch.seconds["choose"] + watch.seconds["confirm"]
    by_layer = {layer: kernels[op] for layer, op in layers}
    batch = max((conv.batch for op in ops if (conv := op.convolution)), default=None)
    return Kernels(name, machine, batch, ops[0].dtype, by_layer, tuning, watch.seconds, checks)


def _chosen(
    ops: Sequence[Op],
    names: Mapping[Op, str],
    machine: Machine,
    settings: Settings,
    *,
    strict: bool,
) -> list[Choice]:
    """The search's choice for each operator, or the one schedule that is given."""
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
    chain: Toolchain,
    settings: Settings,
    watch: _Watch,
    checks: Checks,
) -> dict[Op, Kernel]:
    """The kernels with their times, all by the same clock: where the computer is too busy to
    measure one of them, all have the model's time. Their checks begin at once, but not beside a
    measure.
    """
    machine, native = chain.machine, chain.executes_here
    emits = EMITS.required(machine)
    kernels: dict[Op, Kernel] = {}
    for choice in choices:
        settings.progress("generate", len(kernels), len(choices))
        op, option = choice.op, choice.best
        _LOG.info("%s: %s by %s", names[op], op.describe(), option.algorithm)
        program = option.candidate.program(machine)
        watch.lap("instantiate")
        code = emits.emit(program, machine)
        watch.lap("emit")
        adding = adding_program(option, machine)
        kernels[op] = Kernel(names[op], op, machine, choice, option, program, code, adding=adding)
        try:
            kernels[op] = _timed(kernels[op], chain, settings)
        except BusyError as error:
            _LOG.warning("times are the model's, not measured: %s", error.message)
            settings = replace(settings, measure=False)
            kernels = {known: replace(k, measured=None) for known, k in kernels.items()}
        watch.lap("measure" if native else "simulate")
        if not native:
            checks.begin([kernels[op]])
    if native:
        checks.begin(kernels.values())
    settings.progress("generate", len(choices), len(choices))
    return kernels


def _timed(kernel: Kernel, chain: Toolchain, settings: Settings) -> Kernel:
    """The kernel with its time: simulated, or measured where the machine is this computer."""
    if not chain.executes_here:
        return replace(kernel, simulated=simulated_run(kernel.programs, kernel.machine))
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


def _confirmed(choices: list[Choice], chain: Toolchain, settings: Settings) -> list[Choice]:
    """The choices with their best candidates measured, if that is asked for. The progress counts
    simulated candidates, one operator's may take minutes; this computer measures an operator's at
    the same time.
    """
    if settings.top < 1:
        return choices
    native = chain.executes_here
    counts = [1 if native else len(choice.options[: settings.top]) for choice in choices]
    confirmed = []
    for index, (choice, count) in enumerate(zip(choices, counts, strict=True)):
        before, every = sum(counts[:index]), sum(counts)
        settings.progress("confirm", before, every)
        found = confirm_choice(
            choice,
            settings.top,
            chain.machine,
            NativeMeasure() if native else SimulatedMeasure(),
            records=settings.records,
            executor=settings.executor,
            advance=partial(_share, settings, before, count, every),
        )
        confirmed.append(found)
    settings.progress("confirm", sum(counts), sum(counts))
    return confirmed


def _share(settings: Settings, before: int, count: int, every: int, done: int, total: int) -> None:
    """One operator's part of the progress: equal candidates are measured once."""
    settings.progress("confirm", before + count * done // total, every)
