"""swDNN Fig. 6 and VI-B: the innermost loop of the matrix product, reordered by hand and by proof.

Both listings of the figure run instruction by instruction on one core, with their results checked;
beside them runs the left one's shortest software pipeline, found and proven by the modulo
scheduler. Communication is ideal, as in the figure: operands are always available.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.asm import assemble, link
from tilewright.common.errors import CheckFailed
from tilewright.isa import Instruction, SymbolReference, load_table
from tilewright.isa.software_pipeline import TripCount, pipeline_loop
from tilewright.papers.figures import level_line, lines
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import AssembledProgram, encode_program

TITLE = "instruction reordering of the innermost loop"
Version = Literal["original", "reordered", "optimal"]
_VERSIONS: tuple[Version, ...] = ("original", "reordered", "optimal")
_TABLE = "sw26010_cpe"
_STEPS = (2, 4, 8, 16, 24, 32, 40, 48)
"""Iterations: N_i / 8 for N_i up to 384, as in Figs. 7 and 9."""
_MULTIPLY_ADDS = 16
_SUMS = (*range(11, 19), *range(20, 28))
_BOUND, _COUNTER, _A, _B = "$19", "$28", "$5", "$6"


class _Timing(Struct, frozen=True):
    """Printed cycles of one version."""

    version: Version
    lead_in_cycles: int
    iteration_cycles: int
    last_cycles: int

    def cycles(self, iterations: int) -> int:
        """The whole loop."""
        return self.lead_in_cycles + (iterations - 1) * self.iteration_cycles + self.last_cycles


class LoopCase(Struct, frozen=True):
    """One version of the loop over a number of iterations."""

    version: Version
    iterations: int


class _Run(Struct, frozen=True):
    """Cycles of the whole loop, and True if no order takes fewer per iteration."""

    cycles: int
    proven_minimum: bool


def checked_run(case: LoopCase) -> _Run:
    """Run the loop on one core. Raises CheckFailed for a wrong sum."""
    program, proven = _program(case.version)
    n = case.iterations
    generator = np.random.default_rng(n)
    a, b = (generator.integers(-9, 9, (n, m)).astype(np.float64) for m in (16, 4))
    bound = n - 1 if case.version == "reordered" else n
    registers = {_A: 0, _B: a.nbytes, _COUNTER: 0, _BOUND: bound}
    memory = np.concatenate([a.ravel(), b.ravel()])
    run = simulate_core(program, registers=registers, local_memory=memory, trace=False)
    if not np.array_equal(run.registers[list(_SUMS)], (b.T @ a).reshape(16, 4)):
        raise CheckFailed(f"the {case.version} loop computes another product than A B")
    return _Run(run.cycles, proven)


def run(lab: Lab) -> Findings:
    """Each version over 2 to 48 iterations."""
    steps = lab.some(_STEPS, 3)
    cases = [LoopCase(version, n) for version in _VERSIONS for n in steps]
    runs = dict(zip(cases, lab.map(checked_run, cases), strict=True))
    table = lab.published("swdnn", "figure6", _Timing)
    printed = {timing.version: timing for timing in table.rows}
    rows = [r for version in _VERSIONS for r in _rows(version, printed.get(version), steps, runs)]
    return Findings(
        rows=tuple(rows),
        summary={
            f"{version}, execution efficiency at {steps[-1]} iterations": round(
                _MULTIPLY_ADDS * steps[-1] / runs[LoopCase(version, steps[-1])].cycles, 4
            )
            for version in _VERSIONS
        },
        notes=(
            f"published: {table.source}; efficiencies by these cycles",
            "26 = 8 loads + 16 multiply-adds + compare + branch; the listing also has two pointer"
            " additions and a counter (29 instructions), which issue beside others",
            "with the multiply-adds column by column, as printed, 16 cycles per iteration are"
            " impossible: the loads of A and the branch need the same slots of P1; in another order"
            " they are possible with the same registers",
        ),
    )


def draw(result: Result) -> Figure:
    """Execution efficiency over the iterations."""
    steps = sorted({_iterations(row) for row in result.rows if row.unit == "%"})
    series: dict[str, list[float | None]] = {
        version: [
            next(r.ours for r in result.rows if r.name == _efficiency_name(version, n))
            for n in steps
        ]
        for version in _VERSIONS
    }
    figure = lines(
        steps,
        series,
        title=TITLE,
        x_label="iterations (N_i / 8)",
        y_label="efficiency, % (simulated)",
    )
    return level_line(figure, 61.5, "published, original: 61.5 %")


def _rows(
    version: Version, printed: _Timing | None, steps: list[int], runs: dict[LoopCase, _Run]
) -> list[Row]:
    found = [runs[LoopCase(version, n)].cycles for n in steps]
    each = (found[-1] - found[0]) / (steps[-1] - steps[0])
    proven = runs[LoopCase(version, steps[0])].proven_minimum
    note = "no order of these instructions takes fewer" if proven else ""
    one = None if printed is None else printed.iteration_cycles
    rows = [compare(f"{version}, an iteration", one, each, "simulated", note=note, unit="cycles")]
    for n, cycles in zip(steps, found, strict=True):
        whole = None if printed is None else printed.cycles(n)
        efficiency = None if whole is None else 100 * _MULTIPLY_ADDS * n / whole
        ours = 100 * _MULTIPLY_ADDS * n / cycles
        rows += [
            compare(f"{version}, {n} iterations", whole, cycles, "simulated", unit="cycles"),
            compare(_efficiency_name(version, n), efficiency, ours, "simulated", unit="%"),
        ]
    return rows


def _efficiency_name(version: Version, n: int) -> str:
    return f"{version}, efficiency of {n} iterations"


def _iterations(row: Row) -> int:
    return int(row.name.split()[-2])


@cache
def _program(version: Version) -> tuple[AssembledProgram, bool]:
    name = "original" if version == "optimal" else version
    listing = resources.files("tilewright.papers.swdnn") / "listings" / f"figure6_{name}.s"
    table = load_table(_TABLE)
    text = listing.read_text(encoding="utf-8")
    program = load_image(link([assemble(text, table)], table), table).program
    if version != "optimal":
        return program, False
    trips = TripCount(register=int(_BOUND[1:]), minimum=min(_STEPS))
    pipelined = pipeline_loop(_loop(program), trips, register_limit=table.register_count)
    return encode_program(list(pipelined.program), table), pipelined.schedule.proven_minimum


def _loop(program: AssembledProgram) -> list[Instruction]:
    """The instructions, with the last one branching to the first by label instead of distance."""
    *body, last = program.instructions
    label = SymbolReference(body[0].labels[0])
    operands = tuple(label if operand == last.target else operand for operand in last.operands)
    return [*body, replace(last, operands=operands)]
