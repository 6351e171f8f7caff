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
from tilewright.ir.matrix import matrix_form
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.visit import walk
from tilewright.schedule.lower import Plan, lower, plan
from tilewright.seeds.space import Seed, Space
from tilewright.seeds.steps import Layout, Step

Stager = Callable[[Program, dict[str, str]], Program]
_GEMM_ROLES = (("m", "n"), ("m", "k"), ("k", "n"))


@dataclass(frozen=True, eq=False)
class Structure:
    """One set of discrete choices for one nest, with its parametric program."""

    space: Space
    steps: tuple[Step, ...]
    plan: Plan
    staged: Program
    layouts: frozenset[Layout]


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
        check_structure(p, staged)
    except (ScheduleError, ProgramError):
        return None
    chosen = frozenset(s for s in steps if isinstance(s, Layout))
    return Structure(space, steps, p, staged, chosen)


def _repeats(structure: Structure, found: list[Structure]) -> bool:
    """Whether another combination came out as the same program (a stage that changes nothing)."""
    return any(
        structure.staged.body == f.staged.body and structure.layouts == f.layouts for f in found
    )


def check_structure(p: Plan, staged: Program) -> None:
    """Raise where the primitive cannot take the staged views."""
    if p.nest.primitive != "gemm":
        return
    call = next(s for s in walk(staged.body) if isinstance(s, Call) and s.primitive == "gemm")
    forms = [
        matrix_form(view, rows, columns)
        for view, (rows, columns) in zip(call.operands, _GEMM_ROLES, strict=True)
        if isinstance(view, View)
    ]
    contiguous = "n" if forms[0].order == "row" else "m"
    if p.vector != contiguous:
        raise ScheduleError(
            f"vectorize({p.vector}): the result is contiguous along {contiguous}",
            fix=f"vectorize({contiguous}) or another layout of the result",
        )
