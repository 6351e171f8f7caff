"""Kernels that tilewright compiles for this computer, chosen by the model alone."""

from __future__ import annotations

from dataclasses import dataclass

from host.contest import Array, Prepared, Workload
from tilewright import compile
from tilewright.common.version import tool_version
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.machine import Machine, find_machine
from tilewright.targets.host.code import CODE

NAME = "tilewright"


def find_compiled(threads: int, machine: str) -> Compiled:
    """Our contender, compiled for the machine of this name or file."""
    return Compiled(find_machine(machine, {"threads.count": threads}))


@dataclass(frozen=True)
class Compiled:
    """Kernels that the model chooses: the best of all algorithms, and the best direct one."""

    machine: Machine
    version: str = tool_version()
    name: str = NAME

    def prepare(self, workload: Workload) -> list[Prepared]:
        """The model's pick; if that is a Winograd algorithm, also the direct pick."""
        first = self._prepared(workload, None)
        if first.algorithm.startswith("winograd"):
            return [first, self._prepared(workload, "direct")]
        return [first]

    def _prepared(self, workload: Workload, algorithm: str | None) -> Prepared:
        op = workload.op
        kernel = compile(op, self.machine, algorithm=algorithm, measure=False).plan.only
        candidate = kernel.option.candidate
        program = kernel.program
        inputs = program_inputs(op, candidate.seed, program, workload.inputs)
        bound = CODE.load(kernel.artifact, self.machine).bind(inputs)

        def result() -> Array:
            return operator_result(op, candidate.seed, program, bound.outputs())

        return Prepared(bound.repeat, result, kernel.result.algorithm, bound)
