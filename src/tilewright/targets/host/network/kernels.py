"""The kernels of a plan's products: a stage in, its code and the value of each argument out.

The operators after a product decide the epilogue of its kernel, so one candidate may become several
kernels. Each is generated once, and named after the first layer that uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from tilewright.codegen.artifact import Artifact, TensorInfo
from tilewright.common.progress import Progress, told
from tilewright.cost.totals import model_causes
from tilewright.graph.names import safe_name
from tilewright.machine import Machine
from tilewright.network.plan import Plan, Stage
from tilewright.passes.split_ahead import split_ahead
from tilewright.seeds.space import operand_name
from tilewright.targets.host.code import CODE
from tilewright.targets.host.emit.kernel_epilogue import KernelEpilogue
from tilewright.targets.host.network.planner import HostPlanner, epilogue_parts
from tilewright.tune.candidate import Candidate


@dataclass(frozen=True)
class ProductKernel:
    """The code of a product, and the cycles of its estimate by kind of cause."""

    artifact: Artifact
    causes: Mapping[str, int]

    @property
    def tensors(self) -> list[TensorInfo]:
        """Tensors that the kernel's function takes as arguments, in order, before its workspace."""
        return [t for t in self.artifact.tensors if t.kind != "scratch"]


class StageKernels:
    """Generates the kernels of a network's stages on first use."""

    def __init__(self, network: str, machine: Machine, rules: HostPlanner) -> None:
        self._network, self._machine, self._rules = network, machine, rules
        self._taken = {network, f"{network}_run", f"{network}_profile"}
        self._found: dict[tuple[Candidate, KernelEpilogue], ProductKernel] = {}

    @property
    def artifacts(self) -> list[Artifact]:
        """Code of all kernels generated so far."""
        return [kernel.artifact for kernel in self._found.values()]

    def of(self, stage: Stage) -> ProductKernel:
        """The kernel of a stage that is a product."""
        plain, epilogue, _ = epilogue_parts(stage.candidate)
        if (plain, epilogue) not in self._found:
            name = safe_name(f"{self._network}_{stage.nodes[0]}", self._taken)
            self._taken.add(name)
            program = replace(self._rules.program(plain), name=name)
            artifact = CODE.emit(program, self._machine, epilogue)
            self._found[plain, epilogue] = ProductKernel(artifact, self._causes(plain))
        return self._found[plain, epilogue]

    def _causes(self, candidate: Candidate) -> dict[str, int]:
        """Cycles of a priced candidate by kind of cause; empty if it has no finite price."""
        cycles, found = candidate.cycles, Counter[str]()
        if not isfinite(cycles):
            return {}
        _, program = split_ahead(self._rules.program(candidate))
        for (kind, _), part in model_causes(program, self._machine, cycles):
            found[kind] += part
        return dict(found)


def without_unread_borders(plan: Plan, kernels: StageKernels, progress: Progress) -> Plan:
    """The plan without stages that only fill borders which no stage reads."""
    read = {value for _, value, _ in plan.outputs}
    for stage in told(progress, "generate", plan.stages):
        if stage.work != "product":
            read |= {*stage.reads}
            continue
        kernel = kernels.of(stage)
        given = ((info, value) for info, value in arguments(stage, kernel) if info.is_given)
        read |= {value for info, value in given if info.name not in kernel.artifact.inside}
    kept, made = list[Stage](), set[int]()
    for stage in plan.stages:
        fills = stage.op.in_memory is not None and not stage.reads
        if not fills or stage.writes not in made or stage.writes in read:
            kept.append(stage)
        if not fills:
            made.add(stage.writes)
    return replace(plan, stages=tuple(kept))


def arguments(stage: Stage, kernel: ProductKernel) -> Iterator[tuple[TensorInfo, int]]:
    """(tensor, value of the plan) of each argument of a stage's kernel."""
    values = dict(stage.arguments)
    for name, operand in epilogue_parts(stage.candidate)[2].items():
        values[name] = values[operand_name(operand - 1)]
    for info in kernel.tensors:
        yield info, values[info.name]
