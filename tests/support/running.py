"""Results of a candidate: its program simulated, or its generated code run on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from support.candidates import Case
from tilewright.common.dtypes import dtype
from tilewright.common.errors import SimulationError
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.cost.estimate import estimate
from tilewright.ir.interpret import interpret
from tilewright.ops import Gemm, Op
from tilewright.passes.lowering import lowering_of
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated_many

Array: TypeAlias = npt.NDArray[Any]
Operands: TypeAlias = tuple[Array, ...]


def simulated(case: Case, operands: Operands) -> Array:
    """The operator's result by a simulation of the candidate's program, which interprets it.

    Programs whose operands are used where they lie are interpreted, not simulated.
    """
    candidate = case.candidate
    program = candidate.program(case.machine)
    inputs = program_inputs(candidate.op, candidate.seed, program, operands)
    if lowering_of(case.machine).in_place:
        mesh = (case.machine.mesh.rows, case.machine.mesh.columns)
        outputs = interpret(program, inputs, mesh)
    else:
        run = simulate(program, case.machine, inputs)
        assert run.outputs is not None
        outputs = dict(run.outputs)
    return operator_result(candidate.op, candidate.seed, program, outputs)


def emulated(cases: Sequence[Case], operands: Sequence[Operands]) -> list[Array]:
    """The operators' results by the candidates' generated code; all of it is built together."""
    programs = [c.candidate.program(c.machine) for c in cases]
    runs = [
        (
            CODE.emit(p, c.machine),
            program_inputs(c.candidate.op, c.candidate.seed, p, o),
        )
        for c, p, o in zip(cases, programs, operands, strict=True)
    ]
    results = []
    for c, p, outputs in zip(cases, programs, run_emulated_many(runs), strict=True):
        if isinstance(outputs, SimulationError):
            raise AssertionError(f"{outputs}\n{c}")
        results.append(operator_result(c.candidate.op, c.candidate.seed, p, outputs))
    return results


def estimated(case: Case) -> float:
    """Cycles of all nests together by the model."""
    values = case.candidate.values
    parts = ((n.structure.staged, {**values, **n.factors}) for n in case.candidate.nests)
    return sum(estimate(p, case.machine, v).cycles.item() for p, v in parts)


def estimate_ratio(case: Case) -> float:
    """Estimated over simulated cycles."""
    warm = simulate(case.candidate.program(case.machine), case.machine, refills=False)
    return estimated(case) / warm.cycles


def error_in_ulps(op: Op, operands: Operands, found: Array, *, per_element: bool) -> float:
    """The largest error, in round-off units of the sum of the magnitudes of an element's own terms,
    or of the largest such sum: Winograd's transforms mix the elements of a tile.
    """
    positive = replace(op, alpha=abs(op.alpha), beta=abs(op.beta)) if isinstance(op, Gemm) else op
    exact = replace(op, dtype="f64").reference(*operands)
    magnitude = replace(positive, dtype="f64").reference(*(np.abs(x) for x in operands))
    if not per_element:
        magnitude = np.full_like(magnitude, magnitude.max())
    error = np.abs(found - exact)
    assert not np.any(error[magnitude == 0])
    unit = np.finfo(dtype(op.dtype).numpy).eps / 2
    return float(np.max(error / np.where(magnitude == 0, 1, magnitude)) / unit)
