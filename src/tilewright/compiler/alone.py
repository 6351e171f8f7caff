"""Kernels compiled alone: an operator, or each convolution and matrix product of a network.

In: a workload. Out: its `Kernels`, and the operations of `Compiled` on them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias

from msgspec import structs

from tilewright.codegen.artifact import EMITS, READIES, Array, Arrays
from tilewright.common.errors import BusyError, GraphError, ScheduleError
from tilewright.common.progress import Progress, silent
from tilewright.compiler.checking import judge as judged_by_reference
from tilewright.compiler.checking import random_operands, relative_error
from tilewright.compiler.compiled import Compiled, Explaining, Outputs, Simulating
from tilewright.compiler.explanation import routines_of
from tilewright.compiler.kernel import Kernel, Kernels, adding_program, simulated_option
from tilewright.compiler.settings import Argument, Check, Layer, Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.machine import Machine
from tilewright.network.plans import Other
from tilewright.ops import Conv2d, Op
from tilewright.ops.op import in_own_type
from tilewright.report.view import (
    AlgorithmCheck,
    CheckResult,
    Explanation,
    NetworkResult,
    RunResult,
)
from tilewright.simulate.kernel.level import KernelRun
from tilewright.tune.choose import Choice, Option, choose, confirm_choice, option_like, replay
from tilewright.tune.measure import SimulatedMeasure
from tilewright.tune.native import NativeMeasure, measured_seconds
from tilewright.tune.search import Counts

_LOG = logging.getLogger(__name__)

Work: TypeAlias = tuple[Kernel, Option]
"""A layer, and the option whose code runs."""

_OPERATIONS_PER_ELEMENT = 500
"""Emulation multiplies at some 30 Gflop/s; data is made and compared at 60 M elements/s."""
_ENOUGH_OPERATIONS = 5_000_000_000
"""Operations that take about a quarter of a second."""
_FEWEST_ROWS = 4
"""Fewest rows of an image: both borders and the rows between, for windows of up to three rows."""
_CHECKS_AT_A_TIME = 2
"""A check holds a whole layer's tensors in memory, so few run at once."""


Wanted: TypeAlias = Mapping[str, tuple[Op, Option]]
"""The options whose code is to run, and their layers' operators."""


def wanted_checks(choices: Sequence[Choice], which: Check) -> Wanted:
    """The operators and options to run: none, the winner of each layer, or, for each algorithm, its
    best option on the layer that costs least to run on the host.
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
    """Checks that run in the background, two at a time. A check starts once the kernel of its layer
    is there. The runtime that all checks need is built before.

    Where the option won on its layer, the generated code itself runs; otherwise a version with just
    enough images, and then rows of them, for a quarter of a second. If all core groups together are
    no more work than that, the code that starts them and arranges their operands runs too.
    """

    def __init__(self, machine: Machine, settings: Settings) -> None:
        self._which, self._writes = settings.check, settings.writes
        self._wanted: Wanted = {}
        self._progress = settings.progress
        self._threads = ThreadPoolExecutor(_CHECKS_AT_A_TIME)
        self._running: dict[str, Future[Kernel]] = {}
        self._machine = machine
        self._ready: Future[None] | None = None

    def choose(self, choices: Sequence[Choice]) -> None:
        """Choose the checks to run. Starts the first thread: no process may be forked after it."""
        self._wanted = wanted_checks(choices, self._which)
        family = READIES.of(self._machine) if self._wanted else None
        if family is not None:
            self._ready = self._threads.submit(family.make_ready, self._machine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self, kernels: Iterable[Kernel]) -> None:
        """Start the wanted checks of these layers, the largest first, so none is left for last."""
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
        """The kernels with the results of their own code, and the result of each option's code."""
        total = len(self._running)
        if total:
            self._progress("check", 0, total)
            for kernel in kernels.values():  # its figures, for which the caller keeps these runs
                _ = kernel.fitted_milliseconds
        if total and self._writes:
            Kernel.arrange([*kernels.values()], self._machine)
            for kernel in kernels.values():
                _ = kernel.driven, kernel.priced_routines
        for done, _ in enumerate(as_completed(self._running.values()), 1):
            self._progress("check", done, total)
        result = dict(kernels)
        checks: list[AlgorithmCheck] = []
        for name, (op, option) in self._wanted.items():
            case = self._running[name].result()
            if option is kernels[op].option:
                result[op] = kernels[op].with_check(case.checked)
            images, rows = _less_of(case.op, op)
            shape = case.option.partition.piece.describe()
            checks.append(
                AlgorithmCheck(option.algorithm, case.name, shape, case.checked, images, rows)
            )
        return result, tuple(checks)


def with_option(kernel: Kernel, option: Option) -> Kernel:
    """The kernel as it would be had `option` won."""
    program = option.candidate.program(kernel.machine)
    code = EMITS.required(kernel.machine).emit(program, kernel.machine)
    adding = adding_program(option, kernel.machine)
    other = replace(kernel, option=option, program=program, artifact=code, adding=adding)
    if kernel.simulated is None:
        return replace(other, measured=None)
    return replace(other, simulated=simulated_option(option, kernel.machine))


def _checked(kernel: Kernel, option: Option) -> Kernel:
    """The kernel that ran and was checked for a layer and an option: `kernel` if the option won."""
    case = kernel
    if option is not kernel.option:  # its time is not needed
        case = with_option(*_with_less_work(replace(kernel, simulated=None), option))
    return replace(case, checked=_ran(case))


def _ran(case: Kernel) -> CheckResult:
    """The check of all core groups' code if that is little work, else of one group's."""
    little = _host_work(case.op) <= _ENOUGH_OPERATIONS
    return case.check_groups() if case.is_driven and little else case.check()


def _with_less_work(kernel: Kernel, option: Option) -> Work:
    """The layer and the option with images, then rows, halved until just enough work is left, but
    no further than the algorithm applies.
    """
    return _shrunk(*_shrunk(kernel, option, _half_the_images), _half_the_rows)


def _less_of(case: Op, op: Op) -> tuple[int | None, int | None]:
    """The images and rows of a layer that were checked, each None where all were."""
    run, whole = case.convolution, op.convolution
    if run is None or whole is None:
        return None, None
    rows = run.height if run.height != whole.height else None
    return run.batch if run.batch != whole.batch else None, rows


def _half_the_images(op: Conv2d) -> Conv2d | None:
    return None if op.batch % 2 else replace(op, batch=op.batch // 2)


def _half_the_rows(op: Conv2d) -> Conv2d | None:
    rows, reach = -(-op.height // 2), op.dilation[0] * (op.kernel[0] - 1) + 1
    return None if rows < max(_FEWEST_ROWS, reach + 1) else replace(op, height=rows)


def _shrunk(kernel: Kernel, option: Option, half: Callable[[Conv2d], Conv2d | None]) -> Work:
    """The layer and the option at the smallest size they apply to, but with enough work."""
    whole, part, sizes = kernel.op.convolution, option.partition.piece.convolution, list[Conv2d]()
    while whole and part and _host_work(part) > _ENOUGH_OPERATIONS:
        whole, part = half(whole), half(part)
        if whole and part:
            sizes.append(whole)
    for smaller in reversed(sizes):
        with suppress(ScheduleError):
            like = option_like(option, smaller, kernel.machine)
            choice = Choice(smaller, (like,), Counts(1, 1, 1, 1))
            return replace(kernel, op=smaller, choice=choice), like
    return kernel, option


def _host_work(op: Op) -> int:
    """Operations of a check, with its elements' generation and comparison as operations."""
    shapes = (*op.input_shapes, op.out_shape)
    return op.flops + _OPERATIONS_PER_ELEMENT * sum(math.prod(s) for s in shapes)


def compile_layers(
    name: str, layers: Sequence[Layer], machine: Machine, settings: Settings
) -> Kernels:
    """Choose partition, algorithm and schedule by the model, confirm by measuring if requested,
    instantiate, emit, simulate (or measure, where the machine is this computer) and check: for all
    layers together, and once for equal ones. Raises GraphError if there is no layer.
    """
    if not layers:
        raise GraphError(f"{name} has no convolution or matrix product to compile")
    watch = _Watch()
    EMITS.required(machine, "compile a network as a whole" if Toolchain(machine).divides else "")
    machine = machine.of_one_program
    chain = Toolchain(machine)
    firsts = {op: layer for layer, op in reversed(layers)}
    ops = list(dict.fromkeys(op for _, op in layers))

    with Checks(machine, settings) as running:
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
    """The search's choice for each operator, or the choice of a given schedule."""
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
        max_roundings=settings.max_roundings,
        strict=strict,
        keep=max(settings.keep, settings.top),
        names=[names[op] for op in ops] if len(ops) > 1 else (),
        beside=True,
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
    """The kernels with their times, all by one clock: if the computer is too busy to measure one of
    them, all get the model's time. Checks start at once, but never during a measurement.
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
        return replace(kernel, simulated=simulated_option(kernel.option, kernel.machine))
    if not settings.measure:
        return kernel
    return replace(kernel, measured=measured_seconds(kernel.artifact, kernel.machine))


class _Watch:
    """Seconds of each stage, summed over the layers."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


def _confirmed(choices: list[Choice], chain: Toolchain, settings: Settings) -> list[Choice]:
    """The choices with their best candidates measured, if requested. Progress counts simulated
    candidates, since those of one operator may take minutes; this computer measures an operator's
    candidates together.
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
    """Report one operator's part of the progress; of `total`, equal candidates count once."""
    settings.progress("confirm", before + count * done // total, every)


class CompiledAlone(Compiled[Kernels]):
    """Kernels compiled alone."""

    @staticmethod
    def planned(workload: Workload, chain: Toolchain, settings: Settings) -> Kernels:
        return compile_layers(workload.name, workload.layers, chain.machine, settings)

    @property
    def title(self) -> str:
        """The chosen algorithm with its time, or the number of layers and their total time."""
        if self.workload.is_operator:
            return repr(self.plan.only).removeprefix("<Kernel ").removesuffix(">")
        layers, found = len(self.plan.kernels), self.plan.result()
        return (
            f"{self.name}: {layers} layers alone on {self.machine.name}, "
            f"{found.total_milliseconds:.3f} ms {found.timed_by}"
        )

    @property
    def arguments(self) -> tuple[Argument, ...]:
        kernel = self.plan.only
        op, names = kernel.op, kernel.option.candidate.seed.operands
        return tuple(zip(names, op.input_shapes, op.numerics.operands, strict=True))

    def run(self, *inputs: Array, weights: Arrays | None = None, **named: Array) -> Outputs:
        names = (name for name, _, _ in self.arguments)
        return self.plan.only.run(**dict(zip(names, inputs, strict=False)), **named)

    def figures(self, progress: Progress = silent) -> NetworkResult:
        return self.plan.result()

    def check(self, progress: Progress = silent) -> CheckResult:
        found = {kernel.check() for kernel in set(self.plan.kernels.values())}
        return "exact" if found == {"exact"} else "within bound"

    def judged(self, *, check: bool, measure: bool, progress: Progress = silent) -> NetworkResult:
        return self.figures()

    def measure(
        self,
        inputs: Arrays | None = None,
        *,
        compare: Other | None = None,
        progress: Progress = silent,
    ) -> tuple[RunResult, Outputs]:
        """Run the operator on these operands, or on random ones, and compare with its reference."""
        kernel = self.plan.only
        names = kernel.option.candidate.seed.operands
        if inputs is None:
            operands = random_operands(kernel.op, "floats", 0)
        else:
            operands = tuple(in_own_type(kernel.op, [inputs[name] for name in names]))
        outputs = kernel.run(**dict(zip(names, operands, strict=True)))
        (result,) = outputs.values()
        check = judged_by_reference(kernel.op, operands, result, kernel.option.algorithm)
        error = relative_error(kernel.op, operands, result)
        return RunResult(kernel.result, self.machine.name, check, error=error), outputs

    def _simulated(self, asked: Simulating, progress: Progress) -> KernelRun:
        return self.plan.only.simulate(trace_limit=asked.trace_limit, **asked.operands)

    def _explained(self, asked: Explaining, progress: Progress) -> Explanation:
        kernel = self.plan.kernel(asked.part or self.plan.slowest)
        found = kernel.explanation(what_if=asked.changes, progress=progress)
        if asked.routines:
            progress("routines", 0, 1)
            simulated = routines_of(kernel.program, kernel.machine, simulated=True)
            found = structs.replace(found, routines=simulated)
        return structs.replace(found, roofline=kernel.roofline() if asked.levels else None)

    def _write(
        self, directory: Path, weights: Arrays | None, found: NetworkResult, progress: Progress
    ) -> NetworkResult:
        """Write the files of an operator; of a network, one folder per distinct layer and a file
        that names them. The result has the folders, and the seconds that writing took.
        """
        started = time.perf_counter()
        if self.workload.is_operator:
            self.plan.only.write(directory)
            places = dict.fromkeys((layer.name for layer in found.layers), directory)
        else:
            self.plan.write(directory, progress)
            places = {name: directory / own for name, own in self.plan.folders.items()}
        layers = (structs.replace(x, artifact=str(places[x.name])) for x in found.layers)
        timings = {**found.timings, "write": time.perf_counter() - started}
        return structs.replace(found, layers=tuple(layers), timings=timings)


WAY = CompiledAlone
