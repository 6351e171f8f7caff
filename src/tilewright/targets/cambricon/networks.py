"""Whole networks on a Cambricon: one plan, and one program of DLA-AL that runs all its stages.

Networks are in fixed point. Each value of the plan is data of the program under its own name, and
each stage is the code of its program on these data, after a comment that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, product, takewhile
from math import prod

import numpy as np

from tilewright.asm import Object
from tilewright.codegen.artifact import Array, Artifact, TensorInfo
from tilewright.codegen.c.names import buffer_infos
from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError, ProgramError
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network
from tilewright.graph.names import fresh, quoted, safe_name
from tilewright.graph.rewriting import simplified
from tilewright.ir.nodes import TensorKind
from tilewright.machine import Machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import constants
from tilewright.network.plan import Plan, Role
from tilewright.network.planned import Compute, Outputs, PlannedNetwork
from tilewright.network.planning.bordered import rows_written
from tilewright.network.planning.epilogues import Epilogue
from tilewright.network.planning.form import Form
from tilewright.network.planning.memory import PlannedMemory
from tilewright.network.planning.planner import Planner
from tilewright.network.plans import Search
from tilewright.network.requirements import require_lowered
from tilewright.ops import Conv2d, Op
from tilewright.ops.definitions import definitions_in
from tilewright.simulate.window.run import WindowRun
from tilewright.targets.cambricon.code import check_type, declared, image_of
from tilewright.targets.cambricon.emit.program import emit_body
from tilewright.targets.cambricon.host_windows import HostWindows, with_windows
from tilewright.targets.cambricon.instructions import instruction_cycles
from tilewright.targets.cambricon.rewrites import (
    with_band_products,
    with_outer_products,
    with_phases,
    with_planes,
    with_rows_first,
    with_separate_pools,
    with_vectors_first,
    with_whole_images,
)
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR
from tilewright.targets.cambricon.runtime import Device
from tilewright.targets.cambricon.simulated import subjects_of
from tilewright.targets.cambricon.vector_steps import (
    raw_number,
    require_steps,
    vector_steps_of,
    with_constants,
)

_KINDS: dict[Role, TensorKind] = {
    "input": "input",
    "constant": "constant",
    "state": "updated",
    "output": "output",
    "scratch": "scratch",
}


_RUN = 2560
"""Elements moved in the overhead of one run."""


class _Planner(Planner):
    """Plans for units that take vectors of any extent, and a matrix unit that transposes images."""

    arranges = gathers_channels = True
    fills = False  # each value has memory of its own, which the host has cleared

    def pools(self, conv: Conv2d) -> bool:
        """True if windows may be gathered: taps side by side."""
        return conv.kernel[1] > 1

    def rows_written(self, memory: PlannedMemory) -> Mapping[int, int]:
        """Rows written by the host: those of first layers, whose pixels lie side by side."""
        return rows_written(memory, self._machine)

    def against_the_grain(self, held: Form, wanted: Form) -> float:
        """Shorter runs cost more, since each is a transfer. Without runs, swapping neighbouring
        dimensions is cheap on the matrix unit; any other order moves elements one by one.
        """
        before, after = (_axes(f) for f in (held, wanted))
        if before == after:
            return 1.0
        if (run := _run(held, wanted)) > 1:
            return 1.0 + _RUN / run
        cuts = product(range(len(after)), repeat=2)
        turned = any(after[:i] + after[j:] + after[i:j] == before for i, j in cuts)
        return 8.0 if turned else 64.0

    def reading_as_held(self, held: Form, made: Form) -> float:
        """Shorter runs cost more: the operands of a map move by transfers only."""
        return 1.0 if _axes(held) == _axes(made) else 1.0 + _RUN / _run(held, made)

    def arithmetic_cycles(self, op: Op, epilogue: Epilogue, form: Form | None = None) -> float:
        """Cycles of its vector instructions, each on all elements."""
        del form
        elements, windows = prod(op.out_shape), epilogue.windows
        taps = prod(windows.extents) if windows else 1
        expression, numbers = with_constants(epilogue.expression, 1 + len(epilogue.operands))
        operands = 1 + len(epilogue.operands) + len(numbers)
        made = [step.mnemonic for step in vector_steps_of(expression, operands, 0).steps]
        each = (*made, *["vgtm"] * (taps - 1))
        own = (instruction_cycles(self._machine, m, size=elements // taps) for m in each)
        return float(sum(own))


def _axes(form: Form) -> list[int]:
    """Dimensions with more than one index, outermost first."""
    return [d.axis for d in form.dims if d.extent > 1]


def _run(held: Form, wanted: Form) -> int:
    """Elements that lie side by side in both forms."""
    inner = (d for d in reversed(wanted.dims) if d.extent > 1)
    pairs = zip(reversed(_axes(held)), inner, strict=False)
    return prod(d.extent for axis, d in takewhile(lambda p: p[0] == p[1].axis, pairs))


@dataclass(frozen=True)
class CambriconNetworks:
    """Plans networks in fixed point and their DLA-AL; the host lays out some inputs by windows."""

    def compile(
        self, network: Network, machine: Machine, search: Search, *, progress: Progress
    ) -> PlannedNetwork:
        """Choose the schedules and layouts of a network.

        Raises GraphError for operators without a meaning in fixed point, CapacityError if nothing
        fits.
        """
        self.require(network, machine)
        own, windows = with_windows(network, machine)
        elements = machine.core.elements or ""
        own = with_phases(own, machine)
        own = with_outer_products(with_band_products(own, elements), elements)
        own = with_planes(with_whole_images(own, elements))
        own = with_vectors_first(with_separate_pools(own))
        own = simplified(with_rows_first(own))
        plan = build_plan(own, machine, search, planner=_Planner(machine), progress=progress)
        return PlannedNetwork(network, plan, dict(own.values), self, partial(_arranged, windows))

    def require(self, network: Network, machine: Machine) -> None:
        """Raise GraphError for floats, or for operators without a lowering."""
        for tensor in network.tensors.values():
            if dtype(tensor.dtype).kind != "fixed":
                raise GraphError(
                    f"{machine.name} computes in fixed point, {quoted(tensor.name)} of "
                    f"{network.name} is of {tensor.dtype}",
                    fix=f"--dtype {machine.core.elements}",
                )
        for node in network.nodes:
            for own in definitions_in(node.op):
                try:
                    if own.kind != "contraction":
                        require_steps(own.body)
                        require_steps(own.finish)
                except ProgramError as error:
                    raise GraphError(f"node {node.name}: {error.message}", fix=error.fix) from error
        require_lowered(network, machine)

    def assembled(
        self, plan: Plan, images: tuple[slice, ...], weights: Mapping[str, Array]
    ) -> tuple[Artifact, Iterator[Array]]:
        """The program, and its constants in order."""
        return dla_source(plan), chain.from_iterable(parts for _, parts in constants(plan, weights))

    def computed(
        self, plan: Plan, images: tuple[slice, ...], weights: Mapping[str, Array]
    ) -> Compute:
        """A function that runs the program on the simulated device."""
        program = _program(plan)

        def compute(inputs: Mapping[str, Array]) -> Outputs:
            return program.run(inputs, weights)[0]

        return compute


@lru_cache(maxsize=2)
def _program(plan: Plan) -> DeviceNetwork:
    """The program of a plan, assembled once for all runs of a session."""
    return DeviceNetwork(plan)


def _arranged(windows: Sequence[HostWindows], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs with images laid out as the plan wants them."""
    found = dict(inputs)
    for own in windows:
        found |= own.arranged(inputs[own.tensor]) if own.tensor in inputs else {}
    return found


def dla_source(plan: Plan) -> Artifact:
    """The DLA-AL of all stages of a plan: one source file.

    Raises ProgramError for calls without instructions, CapacityError if a scratchpad is too small.
    """
    machine, name = plan.machine, safe_name(plan.name)
    tensors = _tensors(plan)
    capacity = {space: machine.space(space).capacity_bytes for space in (VECTOR, MATRIX)}
    lines = [f"; {plan.name} for {machine.name}", ".code"]
    for number, stage in enumerate(plan.stages):
        program = plan.program(stage)
        buffer_infos(program, capacity)
        symbols = {name: tensors[value].identifier for name, value in stage.arguments}
        lines.append(f"  ; stage {stage.name}: {stage.label}")
        lines += emit_body(program, symbols, f".S{number}_")
    for read_only, section in ((True, ".static_ro"), (False, ".static_rw")):
        own = [t for t in tensors if t.is_given == read_only]
        lines += [section, *map(declared, own)] if own else []
    return Artifact(
        name,
        machine.target,
        {f"{name}.dla": "\n".join(lines) + "\n"},
        tensors=tuple(tensors),
        scratchpad_bytes=sum(capacity.values()),
    )


def _tensors(plan: Plan) -> list[TensorInfo]:
    """The values of a plan as data of its program, each under a unique name."""
    found: list[TensorInfo] = []
    names: set[str] = set()
    for value in plan.values:
        identifier = fresh(safe_name(value.name), names)
        shape = (max(1, value.form.elements),)
        found.append(TensorInfo(value.name, identifier, value.dtype, _KINDS[value.role], shape))
        check_type(found[-1], plan.machine)
    return found


@dataclass(frozen=True, eq=False)
class DeviceNetwork:
    """The program of a plan on the simulated device."""

    plan: Plan

    @cached_property
    def artifact(self) -> Artifact:
        """The source."""
        return dla_source(self.plan)

    @cached_property
    def image(self) -> Object:
        """The linked program."""
        return image_of(self.artifact, self.plan.machine)

    def device(self) -> Device:
        """The device with the assembled program; nothing is uploaded."""
        return Device(self.image, self.plan.machine)

    def saturated(self, device: Device, run: WindowRun) -> dict[str, int]:
        """Number of saturated elements by stage, in program order."""
        (text,) = self.artifact.files.values()
        found: dict[str, int] = {}
        names = subjects_of(text, device.instructions, "; stage ")
        for number, count in sorted(run.saturated.items()):
            name = names[number].partition(":")[0]
            found[name] = found.get(name, 0) + count
        return found

    def timed(self) -> WindowRun:
        """The run of the program without values, for its cycles."""
        return self.device().launch(values=False)

    def run(
        self,
        inputs: Mapping[str, Array],
        weights: Mapping[str, Array],
        *,
        progress: Progress = silent,
    ) -> tuple[Outputs, WindowRun]:
        """The outputs by name, and the run. Raises GraphError for a missing tensor."""
        plan, tensors, device = self.plan, self.artifact.tensors, self.device()
        bits = dtype(plan.dtype).fraction_bits
        for value, tensor in zip(plan.values, tensors, strict=True):
            if value.ahead and value.filled:
                device.initialise(tensor.identifier, raw_number(value.filled, bits))
        for number, parts in constants(plan, weights):
            device.upload(tensors[number].identifier, np.concatenate([*parts]))
        for name, number in plan.inputs:
            if name not in inputs:
                raise GraphError(f"no numbers are given for {quoted(name)}")
            stored = plan.values[number].form.stored(inputs[name])  # reals are rounded there
            device.upload(tensors[number].identifier, stored)
        cycles = round(plan.estimate_cycles)
        run = device.launch(told=lambda now: progress("cycles", min(now, cycles), cycles))
        found = Outputs(
            (name, form.read(device.download(tensors[number].identifier).reshape(-1)))
            for name, number, form in plan.outputs
        )
        found.saturated = self.saturated(device, run)
        return found, run


NETWORKS = CambriconNetworks()
