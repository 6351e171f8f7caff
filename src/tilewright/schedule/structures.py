"""The discrete part of a space: every legal combination of steps, lowered once.

In: a seed. Out: per nest, its legal structures: step lists with their parametric staged programs. A
combination is
illegal, and left out, where a staged view is no matrix, where the vectorised dimension is not the
contiguous one of
the result, or where a tile has no fixed union to be staged. Results are kept: layers of a network
share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import Const, Expr, coefficient, free_vars, substitute
from tilewright.ir.matrix import Matrix, matrix_form
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.visit import walk
from tilewright.schedule.lower import Plan, lower, plan
from tilewright.seeds.space import Seed, Space
from tilewright.seeds.steps import Layout, Step

Stager = Callable[[Program, dict[str, str]], Program]
_GEMM_ROLES = (("m", "n"), ("m", "k"), ("k", "n"))


@dataclass(frozen=True, eq=False)
class Structure:
    """One set of discrete choices for one nest, with its parametric program.

    `aligned`: element counts that must be whole vectors, so that vector accesses are aligned.
    """

    space: Space
    steps: tuple[Step, ...]
    plan: Plan
    staged: Program
    layouts: frozenset[Layout]
    aligned: tuple[Expr, ...] = ()


def structures(seed: Seed, space: Space, dtype: str, stager: Stager) -> tuple[Structure, ...]:
    """Legal structures of one nest under every layout of the tensors it uses.

    `stager` turns a seed-stage program into a staged one (the passes, handed in).
    """
    return _structures(space, _own_layouts(seed, space), dtype, stager)


def _own_layouts(seed: Seed, space: Space) -> tuple[tuple[Layout, ...], ...]:
    """The distinct layouts of the tensors of one nest, in the order the seed lists them."""
    used = {u.tensor.name for u in space.nest.uses}
    if space.nest.epilogue and space.nest.epilogue.addend:
        used.add(space.nest.epilogue.addend.tensor.name)
    kept = (tuple(x for x in chosen if x.tensor in used) for chosen in seed.layout_combinations())
    return tuple(dict.fromkeys(kept))


@cache
def _structures(
    space: Space, layouts: tuple[tuple[Layout, ...], ...], dtype: str, stager: Stager
) -> tuple[Structure, ...]:
    found: list[Structure] = []
    for chosen in layouts:
        for steps in space.combinations():
            structure = build(space, (*chosen, *steps), dtype, stager)
            if structure is not None and not _repeats(structure, found):
                found.append(structure)
    return tuple(found)


def build(space: Space, steps: tuple[Step, ...], dtype: str, stager: Stager) -> Structure | None:
    """Lower one combination; None where it is illegal."""
    p = plan(space.nest, steps)
    try:
        staged = stager(lower(space.nest, steps, dtype), dict(p.stages))
        aligned = check_structure(p, staged)
    except (ScheduleError, ProgramError):
        return None
    chosen = frozenset(s for s in steps if isinstance(s, Layout))
    return Structure(space, steps, p, staged, chosen, aligned)


def _repeats(structure: Structure, found: list[Structure]) -> bool:
    """Whether another combination came out as the same program (a stage that changes nothing)."""
    return any(
        structure.staged.body == f.staged.body and structure.layouts == f.layouts for f in found
    )


def check_structure(p: Plan, staged: Program) -> tuple[Expr, ...]:
    """Raise where the primitive cannot take the staged views; say what must be whole vectors."""
    if p.nest.primitive != "gemm":
        return ()
    call = next(s for s in walk(staged.body) if isinstance(s, Call) and s.primitive == "gemm")
    views = [view for view in call.operands if isinstance(view, View)]
    forms = [matrix_form(view, *roles) for view, roles in zip(views, _GEMM_ROLES, strict=True)]
    contiguous = "n" if forms[0].order == "row" else "m"
    if p.vector != contiguous:
        raise ScheduleError(
            f"vectorize({p.vector}): the result is contiguous along {contiguous}",
            fix=f"vectorize({contiguous}) or another layout of the result",
        )
    operand = 1 if p.vector == "m" else 2
    return _whole_vectors(views[operand], forms[operand])


def _whole_vectors(view: View, form: Matrix) -> tuple[Expr, ...]:
    """Leading dimension and offsets of the operand that is accessed by vectors."""
    moving = sorted(frozenset().union(*(free_vars(r.start) for r in view.ranges)))
    offsets = [coefficient(form.offset_elements, v) for v in moving]
    start = substitute(form.offset_elements, dict.fromkeys(moving, Const(0)))
    counts = (form.leading_dimension, start, *offsets)
    return tuple(e for e in dict.fromkeys(counts) if e != Const(0))
