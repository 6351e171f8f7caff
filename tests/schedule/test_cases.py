"""Seeds with a schedule and the programs that they lower to: `cases/*.txt` hold both.

A file starts with comments that say what to see. Among them `# operator KIND name=value ...` is
what is computed, and `# nest ALGORITHM/NAME` the loop nest. Then the schedule, one step a line, and
after the line `# after` the program: with a comment `# parametric` as lowering makes it, else under
the operator's extents and the schedule's factors on 2 x 2 cores; with `# partial` it is lowered for
one core whose blocks need not be full. Run under these, it computes what the nest without any step
computes on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.lowered import alone, logical, run_alone
from tilewright import ops
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify
from tilewright.ir.visit import instantiate
from tilewright.ops import Op
from tilewright.schedule.decisions import Rules
from tilewright.schedule.lower import lower
from tilewright.seeds.nest import Nest
from tilewright.seeds.space import parameters, seeds_for
from tilewright.seeds.steps import parse_schedule

MESH = (2, 2)
ONE_CORE = {"mesh_rows": 1, "mesh_columns": 1}
FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
MAKERS = {"conv2d": ops.conv2d, "gemm": ops.gemm}


@dataclass(frozen=True)
class LowerCase:
    """One file: the nest of an operator, its schedule and the program it becomes."""

    op: Op
    nest: Nest
    schedule: str
    parametric: bool
    rules: Rules
    after: str

    @property
    def program(self) -> Program:
        """The nest under the schedule, as the text shows it."""
        program = lower(self.nest, parse_schedule(self.schedule).steps, "f64", self.rules)
        return program if self.parametric else instantiate(program, self.values)

    @property
    def mesh(self) -> tuple[int, int]:
        """The cores it runs on."""
        return (1, 1) if self.rules.partial_blocks else MESH

    @property
    def values(self) -> dict[str, int]:
        """Values of the scheduled program's parameters."""
        mesh = {"mesh_rows": self.mesh[0], "mesh_columns": self.mesh[1]}
        return {**parameters(self.op), **dict(parse_schedule(self.schedule).factors), **mesh}


def read(path: Path) -> LowerCase:
    before, _, after = path.read_text(encoding="utf-8").partition("# after\n")
    comments = [line.split()[1:] for line in before.splitlines() if line.startswith("# ")]
    directives = {words[0]: words[1:] for words in comments}
    kind, *extents = directives["operator"]
    op = MAKERS[kind](**{k: value(v) for k, v in (word.split("=") for word in extents)})
    algorithm, _, name = directives["nest"][0].partition("/")
    (seed,) = seeds_for(op, algorithm)
    nest = next(space.nest for space in seed.spaces if space.nest.name == name)
    steps = [line for line in before.splitlines() if line and not line.startswith("#")]
    rules = Rules(partial_blocks="partial" in directives)
    return LowerCase(op, nest, "\n".join(steps), "parametric" in directives, rules, after)


def value(text: str) -> Any:
    return float(text) if "." in text else int(text)


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> LowerCase:
    return read(request.param)


def test_text(case: LowerCase) -> None:
    assert print_program(case.program) == case.after
    assert parse(case.after) == case.program


def test_the_schedule_prints_as_it_was_read(case: LowerCase) -> None:
    assert str(parse_schedule(case.schedule)) == case.schedule


def test_meaning(case: LowerCase) -> None:
    """Steps change how a nest computes, never what: up to the last bit, on small integers."""
    seed = alone(lower(case.nest, (), "f64"), {**parameters(case.op), **ONE_CORE})
    inputs, dims = logical(seed), {t.name: t.dims for t in seed.tensors}
    expected = run_alone(seed, inputs, dims, (1, 1))
    assert np.abs(expected).max() > 0
    if case.schedule:
        scheduled = alone(case.program, case.values)
        verify(scheduled, "seed")
        found = run_alone(scheduled, inputs, dims, case.mesh)
        np.testing.assert_array_equal(found, expected)
