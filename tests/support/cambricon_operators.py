"""Operators compiled for a Cambricon, and numbers for them."""

from typing import Any

import numpy as np

from tilewright.machine import load_machine
from tilewright.ops import Op
from tilewright.schedule.structures import Structure
from tilewright.seeds.space import seeds_for
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose
from tilewright.tune.search import _Case, _price

MACHINE = load_machine("dla-al")
KINDS = MACHINE.core.elements or ""
"""Its element types, as operators name them."""


def compiled(op: Op, algorithm: str | None = None, structure: Structure | None = None) -> Any:
    """The best candidate of an operator, or that of one structure; None where none fits."""
    if structure is None:
        (choice,) = choose([op], MACHINE, algorithm=algorithm)
        return choice.best.candidate
    (seed,) = seeds_for(op, algorithm, whole=True)
    ((priced,),) = _price([structure], [_Case(op, {})], MACHINE, seed, 1)
    best = priced.top(1)
    return Candidate(op, seed, (best[0],), {}) if best else None


def operands(op: Op, number: int) -> tuple[np.ndarray, ...]:
    """Random numbers of 16 bits, small enough that most sums do not saturate."""
    draw = np.random.default_rng(number).integers
    return tuple(draw(-300, 301, shape).astype(np.int16) for shape in op.input_shapes)
