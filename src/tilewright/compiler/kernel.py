"""One operator compiled alone: its `Kernel`, and the `Kernels` of several.

A `Kernel` holds every stage's result (choice, program, simulated run, generated code) and the
operations on it: run, explain, check, write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec import structs

from tilewright.codegen.artifact import (
    LOADS,
    RUNS,
    Array,
    Arrays,
    Artifact,
    NativeKernel,
    RoutineCycles,
)
from tilewright.codegen.folder import new_folder
from tilewright.common.errors import GraphError, ShapeError, SimulationError
from tilewright.common.progress import Progress, silent, told
from tilewright.compiler.artifact import write_kernel, write_network
from tilewright.compiler.checking import (
    Data,
    check_code,
    judge,
    operator_result,
    program_inputs,
    random_operands,
)
from tilewright.compiler.explanation import (
    Account,
    arranging_copies,
    changes_that_help,
    every_call,
    explanation,
    layer_result,
    model_account,
    routines_of,
    simulated_account,
)
from tilewright.cost.prices import prices_of
from tilewright.cost.roofline import Roofline, roofline
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.machine.load import fitted_variant
from tilewright.network.groups import DRIVES, GroupWork, group_work
from tilewright.network.planning.arranging import arranged_by_cores
from tilewright.ops import Op
from tilewright.partition import Piece
from tilewright.report import view
from tilewright.report.explain import explain_text
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.tune.choose import Choice, Option
from tilewright.tune.refills import simulated

SUMS = "sums"
"""Prefix of the causes and tensors of adding up partial results."""


def adding_program(option: Option, machine: Machine) -> Program | None:
    """The program that adds up the results of the option's pieces; None if they are not partial."""
    return None if option.adding is None else option.adding.best.candidate.program(machine)


def simulated_run(programs: Sequence[Program], machine: Machine, trace_limit: int = 0) -> KernelRun:
    """The simulated run of a piece, followed by the program that adds up."""
    first, *others = programs
    runs = (simulate(other, machine) for other in others)
    return _behind(simulate(first, machine, trace_limit=trace_limit), runs)


def simulated_option(option: Option, machine: Machine) -> KernelRun:
    """`simulated_run` of an option's programs, cached with the search's runs."""
    adding = () if option.adding is None else (option.adding.best.candidate,)
    times = (simulated(own, machine) for own in (option.candidate, *adding))
    first, *others = (KernelRun(**vars(time)) for time in times)
    return _behind(first, others)


def _behind(run: KernelRun, others: Iterable[KernelRun]) -> KernelRun:
    for other in others:
        run = run.then(other, SUMS)
    return run


def operator_meaning(
    option: Option, programs: Sequence[Program], mesh: tuple[int, int], operands: tuple[Array, ...]
) -> Array:
    """The operator's result: each group's piece interpreted, then assembled or added up."""
    partition, seed, program = option.partition, option.candidate.seed, programs[0]
    stored = []
    for piece in partition.pieces:
        inputs = program_inputs(piece.op, seed, program, piece.take(operands))
        stored.append(interpret(program, inputs, mesh)[seed.result])
    if option.adding is not None:
        (share,) = option.adding.op.out_shape
        whole = _added(programs[1], stored, share, mesh)
        return operator_result(partition.piece, seed, program, {seed.result: whole})
    results = [
        operator_result(piece.op, seed, program, {seed.result: own})
        for piece, own in zip(partition.pieces, stored, strict=True)
    ]
    return partition.assemble(results)


def _added(program: Program, partial: Sequence[Array], share: int, mesh: tuple[int, int]) -> Array:
    """The sum of partial results in storage order; each group adds up its share of elements."""
    first, beyond = partial[0], share * len(partial) - partial[0].size
    flat = [np.pad(x.ravel(), (0, beyond)) for x in partial]
    sums = []
    for start in range(0, share * len(partial), share):
        inputs = {f"x{i}": x[start : start + share] for i, x in enumerate(flat)}
        sums.append(interpret(program, inputs, mesh)["y"])
    whole: Array = np.concatenate(sums)[: first.size].reshape(first.shape)
    return whole


Seconds: TypeAlias = float


@dataclass(frozen=True, eq=False, repr=False)
class Kernel:
    """One operator on one machine: the choice, its program, time and code.

    `option` says how the operator is divided over the core groups; program, time and code are those
    of one piece, which every group executes on its own part of the operands. Where pieces have
    partial results, each group runs `adding` after its piece. The kernel is `simulated`, or, where
    the machine is this computer, `measured` if requested.
    """

    name: str
    op: Op
    machine: Machine
    choice: Choice
    option: Option
    program: Program
    artifact: Artifact
    simulated: KernelRun | None = None
    measured: Seconds | None = None
    checked: view.CheckResult = "not run"
    adding: Program | None = None

    def __repr__(self) -> str:
        head = f"<Kernel {self.name}: {self.op.describe()} by {self.option.algorithm} on "
        if self.simulated is not None:
            return f"{head}{self.machine.name}, {self.cycles} cycles simulated>"
        if self.measured is not None:
            return f"{head}{self.machine.name}, {1e3 * self.measured:.3f} ms measured>"
        return f"{head}{self.machine.name}, {self.estimate_cycles} cycles by the model>"

    @property
    def estimate_cycles(self) -> int:
        """Cycles by the model."""
        return round(self.option.cycles)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of one group: its piece, and the one that adds up partial results."""
        return self.program, *(() if self.adding is None else (self.adding,))

    @property
    def account(self) -> Account:
        """Breakdown of the time, by the simulator or by the model."""
        if self.simulated is not None:
            return simulated_account(self.simulated)
        cycles = self.option.cycles
        return model_account(self.program, self.machine, cycles, self.measured)

    @property
    def cycles(self) -> int:
        """Cycles by the simulator, measured at the machine's clock, or by the model."""
        measured = self.account.measured_seconds
        return round(self.account.cycles if measured is None else measured * self.machine.clock_hz)

    @cached_property
    def fitted_milliseconds(self) -> float | None:
        """Simulated time of the same programs with constants fitted to measured kernels; None where
        the machine has no fitted description, or is one.
        """
        fitted = None if self.simulated is None else fitted_variant(self.machine)
        if fitted is None:
            return None
        return 1e3 * simulated_option(self.option, fitted).cycles / fitted.clock_hz

    @property
    def result(self) -> view.LayerResult:
        """The figures of the report."""
        layer = layer_result(self.name, self.choice, self.option, self.machine, self.account)
        return structs.replace(layer, check=self.checked)

    def run(self, **operands: Array) -> dict[str, Array]:
        """Run the code on this computer; returns {result tensor: array of the operator's shape}.

        Operands are passed by name. Raises ShapeError for wrong ones, ToolError where the machine
        is not this computer or there is no compiler.
        """
        instead = "kernel.simulate computes the result, kernel.check runs the code emulated"
        loads = LOADS.required(self.machine, instead)
        whole = self._operands(operands)
        code = loads.load(self.artifact, self.machine)
        results = [self._executed(piece, code, whole) for piece in self.option.partition.pieces]
        name = self.option.candidate.seed.result
        return {name: self.option.partition.assemble(results)}

    def simulate(self, *, trace_limit: int = 0, **operands: Array) -> KernelRun:
        """The simulated run; if every operand is passed by name, also the operator's result.

        `outputs` then holds the result in the operator's own shape under its tensor's name. With
        `trace_limit`, up to that many events are recorded. Raises ShapeError for wrong operands.
        """
        run = self.simulated
        if run is None:
            raise SimulationError(
                f"machine {self.machine.name!r} is this computer: it is measured, not simulated",
                fix="kernel.run computes the result",
            )
        if trace_limit:
            run = simulate(self.program, self.machine, trace_limit=trace_limit)
        if not operands:
            return run
        whole = self._operands(operands)
        name = self.option.candidate.seed.result
        mesh = (self.machine.mesh.rows, self.machine.mesh.columns)
        result = operator_meaning(self.option, self.programs, mesh, whole)
        return replace(run, outputs={name: result})

    def check(
        self, operands: Sequence[Array] | None = None, *, data: Data = "integers", seed: int = 0
    ) -> view.CheckResult:
        """Run the generated code of the first piece on the host and compare with the reference.

        `operands` are those of the piece; without them random ones are drawn from `seed`. Raises
        CheckFailed where an element is wrong.
        """
        piece = self.option.partition.piece
        given = operands if operands is not None else random_operands(piece, data, seed)
        chosen = self.option.candidate.seed
        return check_code(piece, chosen, self.program, self.artifact, self.machine, given)

    @property
    def is_driven(self) -> bool:
        """True if a driver starts the kernel on all of several core groups."""
        return DRIVES.of(self.machine) is not None and self.machine.groups.count > 1

    def with_check(self, found: view.CheckResult) -> Kernel:
        """A copy with the result of a check, and with the cached properties of this kernel."""
        checked = replace(self, checked=found)
        vars(checked).update({**vars(self), **vars(checked)})
        return checked

    @cached_property
    def driven(self) -> Artifact:
        """The code with its driver for all core groups, if the family has one."""
        if not self.is_driven:
            return self.artifact
        driver = DRIVES.required(self.machine)
        return driver.drive(self.artifact, self._group_work, self.machine)

    @cached_property
    def _group_work(self) -> GroupWork:
        (found,) = arranged_by_cores([self._unarranged], self.machine)
        return found

    @property
    def _unarranged(self) -> GroupWork:
        option = self.option
        adding = None if option.adding is None else option.adding.best.candidate
        return group_work(option.partition, option.candidate, adding)

    @staticmethod
    def arrange(kernels: Sequence[Kernel], machine: Machine) -> None:
        """Determine how the operands of these kernels are arranged, in one search."""
        asked = [k for k in kernels if k.is_driven and "_group_work" not in vars(k)]
        works = arranged_by_cores([kernel._unarranged for kernel in asked], machine)
        for kernel, work in zip(asked, works, strict=True):
            vars(kernel)["_group_work"] = work

    def check_groups(self) -> view.CheckResult:
        """Run the driver of all core groups on the host, on whole operands, and compare with the
        reference. Raises as `check` does.
        """
        given = random_operands(self.op, "integers", 0)
        chosen, runs = self.option.candidate.seed, RUNS.required(self.machine)
        inputs = dict(zip(chosen.operands, given, strict=True))
        outputs = runs.run(self.driven, self.machine, inputs)
        return judge(self.op, given, outputs[chosen.result], chosen.name)

    def explanation(self, *, what_if: bool = True, progress: Progress = silent) -> view.Explanation:
        """Breakdown of the time; with `what_if`, also the changes of the machine that would help.
        `progress` reports the changes simulated.
        """
        found = explanation(self.result, self.choice, self.option, self.machine, self.account)
        if self.is_driven:
            moved = arranging_copies(self._group_work, self.machine)
            found = structs.replace(found, arranged=moved)
        if not what_if or self.simulated is None:
            return found
        piece, algorithm = self.option.partition.piece, self.option.algorithm
        changes = changes_that_help(piece, algorithm, self.programs, self.machine, progress)
        return structs.replace(found, changes=changes)

    def roofline(self) -> Roofline:
        """Bandwidth required and available at each memory level (swDNN III-D)."""
        return roofline(every_call(self.program), self.machine, self.account.useful_flops)

    @cached_property
    def priced_routines(self) -> tuple[RoutineCycles, ...]:
        """The routines of the code with their prices, where the machine's family lists them.
        Written to folders, since simulating them (`routines_of`) takes seconds.
        """
        return routines_of(self.program, self.machine, simulated=False)

    def explain(self) -> str:
        """Breakdown of the time, bounds, helpful changes and rejected options, as text."""
        return explain_text(self.explanation())

    def write(self, directory: str | Path) -> Path:
        """Write code, program, schedule and results. The folder appears only when complete."""
        with new_folder(Path(directory)) as folder:
            self.write_into(folder)
        return Path(directory)

    def write_into(self, folder: Path) -> None:
        """Write all files into an existing folder."""
        explained = self.explanation(what_if=False)
        found = structs.replace(explained, routines=self.priced_routines)
        partition = self.option.partition
        write_kernel(folder, self.driven, self.programs, partition, self.machine, found)

    def _operands(self, given: Arrays) -> tuple[Array, ...]:
        names = self.option.candidate.seed.operands
        if set(given) != set(names):
            raise ShapeError(
                f"{self.op.kind} takes the operands {', '.join(names)}, found {', '.join(given)}"
            )
        for name, shape in zip(names, self.op.input_shapes, strict=True):
            if given[name].shape != shape:
                raise ShapeError(
                    f"operand {name!r} has shape {given[name].shape}, expected {shape}"
                )
        return tuple(given[name] for name in names)

    def _executed(self, piece: Piece, code: NativeKernel, operands: tuple[Array, ...]) -> Array:
        """The result of one piece, computed by its code."""
        seed = self.option.candidate.seed
        bound = code.bind(program_inputs(piece.op, seed, self.program, piece.take(operands)))
        bound.repeat(1)
        return operator_result(piece.op, seed, self.program, bound.outputs())


@dataclass(frozen=True, eq=False, repr=False)
class Kernels:
    """The kernels of an operator, or of a network's layers in order; equal layers share one."""

    name: str
    machine: Machine
    batch: int | None
    dtype: str
    kernels: Mapping[str, Kernel]
    tuning_seconds: Seconds
    timings: Mapping[str, Seconds] = field(default_factory=dict)
    checks: tuple[view.AlgorithmCheck, ...] = ()

    @property
    def folders(self) -> dict[str, str]:
        """The kernel folder of each layer; equal layers share the first one's."""
        return {name: kernel.name for name, kernel in self.kernels.items()}

    def result(self) -> view.NetworkResult:
        """The figures of the report."""
        layers = [structs.replace(k.result, name=name) for name, k in self.kernels.items()]
        fitted = [kernel.fitted_milliseconds for kernel in self.kernels.values()]
        searched = [kernel.choice.counts for kernel in set(self.kernels.values())]
        return view.NetworkResult(
            machine=self.machine.name,
            batch=self.batch,
            dtype=self.dtype,
            layers=tuple(layers),
            tuning_seconds=self.tuning_seconds,
            candidates_total=sum(counts.considered for counts in searched),
            candidates_fitting_total=sum(counts.fitting for counts in searched),
            candidates_priced_total=sum(counts.priced for counts in searched),
            total_milliseconds=sum(layer.milliseconds for layer in layers),
            checks=self.checks,
            timings=dict(self.timings),
            fitted_machine=self.machine.fitted,
            refill_note=prices_of(self.machine).refill_note(self.machine),
            fitted_milliseconds=None if None in fitted else sum(f for f in fitted if f is not None),
        )

    def kernel(self, layer: str) -> Kernel:
        """The kernel of one layer. Raises GraphError for an unknown name."""
        if layer not in self.kernels:
            known = ", ".join(self.kernels)
            raise GraphError(f"{self.name} has no layer {layer!r}", fix=f"its layers are {known}")
        return self.kernels[layer]

    @property
    def slowest(self) -> str:
        """The layer with the longest time."""
        return max(self.kernels, key=lambda name: self.kernels[name].result.milliseconds)

    @property
    def only(self) -> Kernel:
        """The kernel of a single operator. Raises GraphError where there are several layers."""
        if len(self.kernels) > 1:
            raise GraphError(
                f"{self.name} has {len(self.kernels)} layers, each compiled alone",
                fix="plan.kernel(LAYER) is that of one",
            )
        return next(iter(self.kernels.values()))

    def write(self, directory: str | Path, progress: Progress = silent) -> Path:
        """Write a folder per distinct layer, and the file that names them; `progress` reports the
        layers written.
        """
        distinct = tuple(dict.fromkeys(self.kernels.values()))
        found, folders = self.result(), self.folders
        layers = (structs.replace(x, artifact=folders[x.name]) for x in found.layers)
        with new_folder(Path(directory)) as folder:
            Kernel.arrange(distinct, self.machine)
            for kernel in told(progress, "write", distinct):
                (folder / kernel.name).mkdir()
                kernel.write_into(folder / kernel.name)
            write_network(
                folder, self.machine, folders, structs.replace(found, layers=tuple(layers))
            )
        return Path(directory)
