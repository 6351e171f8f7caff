"""The kernels of a network's products: a candidate for each operator in, code for each use out.

The operators behind a product decide the epilogue of its kernel, so one candidate may become
several kernels; each is generated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from tilewright.codegen.artifact import Artifact
from tilewright.cost.causes import model_causes
from tilewright.graph.names import safe_name
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.network.form import Form
from tilewright.network.forms import Forms
from tilewright.ops import Op
from tilewright.passes.split_ahead import split_ahead
from tilewright.targets.host.code import CODE
from tilewright.targets.host.kernel_epilogue import PLAIN, KernelEpilogue, can_fuse, fusing_pays
from tilewright.tune.candidate import Candidate


@dataclass(frozen=True)
class ProductKernel:
    """The code chosen for a product, and the forms of its tensors by name."""

    artifact: Artifact
    algorithm: str
    estimate_seconds: float
    causes: Mapping[str, int]
    operands: tuple[str, ...]
    result: str
    forms: Mapping[str, Form]


class Kernels:
    """Generates kernels when they are first asked for, named after the layer that asks."""

    def __init__(
        self,
        network: str,
        candidates: Mapping[Op, Candidate],
        machine: Machine,
        forms: Forms,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._network, self._candidates, self._machine = network, candidates, machine
        self._progress = progress
        self._forms = {op: forms.of(candidate) for op, candidate in candidates.items()}
        self._taken = {network, f"{network}_run", f"{network}_profile"}
        self._programs: dict[Op, Program] = {}
        self._found: dict[tuple[Op, KernelEpilogue], ProductKernel] = {}

    @property
    def artifacts(self) -> list[Artifact]:
        """The code of all kernels that were asked for."""
        return [kernel.artifact for kernel in self._found.values()]

    def operand_forms(self, op: Op) -> list[Form]:
        """The forms of an operator's operands, in order."""
        return [self._forms[op][name] for name in self._candidates[op].seed.operands]

    def result_form(self, op: Op) -> Form:
        """The form of an operator's plain result."""
        return self._forms[op][self._candidates[op].seed.result]

    def fuses(self, op: Op, epilogue: KernelEpilogue) -> bool:
        """Whether the operator's kernel can take the epilogue, and gains by it."""
        program = self._program(op)
        return can_fuse(program, epilogue) and fusing_pays(program, epilogue)

    def of(self, op: Op, layer: str, epilogue: KernelEpilogue = PLAIN) -> ProductKernel:
        """The kernel of an operator with the epilogue."""
        if (op, epilogue) not in self._found:
            candidate = self._candidates[op]
            name = safe_name(f"{self._network}_{layer}", self._taken)
            self._taken.add(name)
            self._found[op, epilogue] = ProductKernel(
                CODE.emit(replace(self._program(op), name=name), self._machine, epilogue),
                candidate.seed.name,
                candidate.cycles / self._machine.clock_hz,
                self._causes(op),
                candidate.seed.operands,
                candidate.seed.result,
                self._forms[op],
            )
            self._progress(len(self._found))
        return self._found[op, epilogue]

    def _causes(self, op: Op) -> dict[str, int]:
        """Cycles of the estimate by kind of cause, none of a candidate that was not priced."""
        cycles, found = self._candidates[op].cycles, dict[str, int]()
        if not isfinite(cycles):
            return found
        _, program = split_ahead(self._program(op))
        for (kind, _), part in model_causes(program, self._machine, cycles):
            found[kind] = found.get(kind, 0) + part
        return found

    def _program(self, op: Op) -> Program:
        if op not in self._programs:
            self._programs[op] = self._candidates[op].program(self._machine)
        return self._programs[op]
