"""Mappings and reductions of tensors as they lie, drawn and run."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilewright.machine import Machine
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory
from tilewright.ops.op import Op
from tilewright.seeds.space import interface, seeds_for
from tilewright.tune.candidate import Candidate
from tilewright.tune.search import rank

Draw = st.DrawFn


def _access(draw: Draw, axes: list[tuple[int, int]], *, bordered: bool) -> Access:
    """The axes (number, extent) in any order, steps and borders between them."""
    order = draw(st.permutations(axes))
    steps = [draw(st.sampled_from((1, 1, 1, 2))) for _ in order]
    before = [draw(st.integers(0, 2)) if bordered else 0 for _ in order]
    after = [draw(st.integers(0, 2)) if bordered else 0 for _ in order]
    shape = tuple(
        b + (n - 1) * s + 1 + a for (_, n), s, b, a in zip(order, steps, before, after, strict=True)
    )
    terms = tuple(((axis, s),) for (axis, _), s in zip(order, steps, strict=True))
    return Access(shape, terms, tuple(before))


@st.composite
def mappings(draw: Draw) -> InMemory:
    """Up to three operands, broadcast along some axes, in any layout, with borders and steps."""
    extents = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axes = list(enumerate(extents))
    operands = []
    for _ in range(draw(st.integers(0, 3))):
        kept = draw(st.lists(st.sampled_from(axes), unique=True))
        operands.append(_access(draw, sorted(kept), bordered=draw(st.booleans())))
    terms = [f"{draw(st.integers(1, 3))} * x{i}" for i in range(len(operands))]
    expression = " + ".join([*terms, "1"])
    result = _access(draw, axes, bordered=draw(st.booleans()))
    kind = draw(st.sampled_from(("f64", "f32")))
    return InMemory(extents, result, tuple(operands), f"abs({expression})", dtype=kind)


@st.composite
def reductions(draw: Draw, *, beyond: bool = False) -> InMemory:
    """Windows over one axis, and further axes that are gathered whole; some windows may reach
    `beyond` the operand.
    """
    kept = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=2)))
    tap, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    whole = draw(st.lists(st.integers(1, 6), max_size=1))
    extents = (*kept, tap, *whole)
    terms: list[tuple[tuple[int, int], ...]] = [((0, stride), (len(kept), 1))]
    terms += [((i, 1),) for i in range(1, len(kept))]
    terms += [((len(kept) + 1, 1),) for _ in whole]
    shape = ((kept[0] - 1) * stride + tap, *kept[1:], *whole)
    order = draw(st.permutations(range(len(terms))))
    function = draw(st.sampled_from(("sum", "max")))
    expression = draw(st.sampled_from(("x0", "x0 * x0")))
    reach = [draw(st.integers(0, tap - 1)) if beyond and axis == 0 else 0 for axis in order]
    fill = (0.0 if function == "sum" else -inf) if any(reach) else None
    if fill and expression != "x0":
        expression = "x0"
    operand = Access(
        tuple(max(1, shape[i] - 2 * r) for i, r in zip(order, reach, strict=True)),
        tuple(terms[i] for i in order),
        tuple(-r for r in reach),
        fill,
    )
    result = _access(draw, list(enumerate(kept)), bordered=draw(st.booleans()))
    finish = draw(st.sampled_from(("x0", "x0 / 4")))
    return InMemory(extents, result, (operand,), expression, function, finish)


def candidate_of(op: Op, machine: Machine) -> Candidate:
    """The best candidate of the operator's only seed."""
    (seed,) = seeds_for(op)
    (ranking,) = rank([(op, seed)], machine)
    return ranking.best[0]


def inputs_of(op: Op, rng: np.random.Generator) -> list[Any]:
    """Small integers for every operand, as the operator takes them."""
    return [rng.integers(-4, 5, shape).astype(float) for shape in op.input_shapes]


def as_stored(op: Op, given: list[Any], candidate: Candidate) -> dict[str, Any]:
    """The operands as the program takes them."""
    arranged = interface(op.kind).arrange(op, tuple(given))
    arranged = tuple(x.reshape(x.shape or (1,)) for x in arranged)
    return dict(zip(candidate.seed.operands, arranged, strict=True))
