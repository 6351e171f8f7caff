"""Every pass as texts: `cases/<pass>/*.ir` hold a program before and after it.

A file starts with comments that say what to see. Among them `# run name=value ...` gives the
parameters under which both programs are run, on 2 x 2 cores: they compute the same. `# stages
tensor=loop ...` is an argument of `infer_dma`; with `in_place` for a loop, cores address main
memory. The line `# after` separates the programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support.explicit_programs import integer_inputs
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import Stage, verify
from tilewright.ir.visit import instantiate
from tilewright.passes.base import Pass
from tilewright.passes.double_buffer import DoubleBuffer
from tilewright.passes.first_product import FirstProduct
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.pipeline import DivideThreads
from tilewright.passes.simplify import Simplify

MESH = (2, 2)
FOLDER = Path(__file__).parent / "cases"
FILES = sorted(FOLDER.glob("*/*.ir"))

PASSES: dict[str, tuple[Callable[[Mapping[str, str]], Pass], Stage, Stage]] = {
    "infer_dma": (InferDma, "seed", "staged"),
    "infer_dma_early": (lambda stages: InferDma(stages, early=True), "seed", "staged"),
    "handle_boundary": (lambda _: HandleBoundary(), "staged", "staged"),
    "first_product": (lambda _: FirstProduct(), "staged", "staged"),
    "simplify": (lambda _: Simplify(MESH), "staged", "staged"),
    "double_buffer": (lambda _: DoubleBuffer(), "staged", "explicit"),
    "late_stores": (lambda _: DoubleBuffer(late=True), "staged", "explicit"),
    "divide_threads": (lambda _: DivideThreads(frozenset({"block"}), 4), "staged", "staged"),
}
"""For each pass its function, the stage of its input and of its output."""


@dataclass(frozen=True)
class PassCase:
    """One file: both texts, and the values of its directives."""

    before: str
    after: str
    run: Mapping[str, str]
    stages: Mapping[str, str]


def read(path: Path) -> PassCase:
    before, _, after = path.read_text(encoding="utf-8").partition("# after\n")
    header = [line[2:] for line in before.splitlines() if line.startswith("# ")]
    return PassCase(before, after, _directive("run", header), _directive("stages", header))


def _directive(name: str, header: list[str]) -> dict[str, str]:
    words = [w for line in header if line.split()[0] == name for w in line.split()[1:]]
    return dict(w.split("=") for w in words if "=" in w)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_text(path: Path) -> None:
    case = read(path)
    change, stage_before, stage_after = PASSES[path.parent.name]
    before = parse(case.before)
    in_place = "in_place" in case.stages.values()
    verify(before, stage_before, in_place=in_place and stage_before != "seed")
    after = change(case.stages).apply(before)
    assert print_program(after) == case.after
    verify(after, stage_after, in_place=in_place)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_meaning(path: Path) -> None:
    """Both texts compute the same, up to the last bit."""
    case = read(path)
    values = {name: int(value) for name, value in case.run.items()}
    mesh = dict(zip(("mesh_rows", "mesh_columns"), MESH, strict=True))
    before, after = (
        instantiate(parse(text), {**values, **mesh}) for text in (case.before, case.after)
    )
    inputs = integer_inputs(before)
    expected, found = (interpret(p, inputs, MESH) for p in (before, after))
    assert expected.keys() == found.keys()
    for name in expected:
        assert not np.isnan(expected[name]).any()
        np.testing.assert_array_equal(found[name], expected[name])


def test_every_pass_has_cases() -> None:
    assert {path.parent.name for path in FILES} == set(PASSES)
