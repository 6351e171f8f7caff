"""The discrete part of a space: every legal combination of steps, lowered once.

In: a seed. Out: per nest, its legal structures: step lists with their parametric staged programs. A
combination is illegal, and left out, where a staged view is no matrix, where the vectorised
dimension is not the contiguous one of the result, or where the tiles of inner loops have no union
of fixed extent to stage. Results are cached, since layers of a network share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from tilewright.common.digest import digest
from tilewright.common.errors import ProgramError, ScheduleError, TilewrightError
from tilewright.common.expr import Const, Expr, coefficient, free_vars, substitute
from tilewright.ir.matrix import Matrix, as_view
from tilewright.ir.nodes import For, Program, Tile, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import calls_of, simplify_body, walk
from tilewright.passes.base import run
from tilewright.passes.lowering import MapAccumulations, Staging
from tilewright.schedule.decisions import STRICT, Decisions, Rules, decisions
from tilewright.schedule.lower import lower, tile
from tilewright.seeds.space import Seed, Space
from tilewright.seeds.steps import Layout, Stage, Step, Vectorize


@dataclass(frozen=True, eq=False)
class Structure:
    """One set of discrete choices for one nest, lowered by `program` to a parametric program on
    first use. If `unmarked` is given, the two programs differ only in which tensors are shared, so
    its checks hold here, too. `changes` describe alterations of the program after lowering.
    """

    space: Space
    steps: tuple[Step, ...]
    rules: Rules
    program: Callable[[], Program]
    unmarked: Structure | None = None
    changes: tuple[str, ...] = ()

    @cached_property
    def decisions(self) -> Decisions:
        """The steps by what they decide."""
        return decisions(self.space.nest, self.steps, self.rules)

    @cached_property
    def staged(self) -> Program:
        """The parametric program of the staged stage."""
        return self.program()

    @cached_property
    def key(self) -> str:
        """Digest of everything that determines the program, for a given machine and dtype."""
        return digest(repr((self.space, self.steps, self.changes)))

    @cached_property
    def alike(self) -> str:
        """Digest that is equal for structures that differ only in the position of transfers among
        loops of one iteration, such as those over the taps of a 1 x 1 kernel: their candidates are
        equal programs. Empty without such loops.
        """
        if self.unmarked is not None:
            return self.unmarked.alike and digest(self.unmarked.alike, *self.changes)
        loops = (s for s in walk(self.staged.body) if isinstance(s, For))
        if all(f.extent != Const(1) for f in loops):
            return ""
        steps = [s for s in self.steps if not isinstance(s, Stage)]
        return digest(repr((steps, replace(self.staged, body=simplify_body(self.staged.body)))))

    @cached_property
    def tiling(self) -> Hashable:
        """Everything that determines the tiles of an operator, besides nest and buffers. Structures
        that differ only in the order of loops have equal tiles.
        """
        p = self.decisions
        loops = frozenset((f.var, f.extent) for f in walk(self.staged.body) if isinstance(f, For))
        own = (p.splits, p.roles, p.spreads, p.walks)
        tables = tuple(tuple(sorted(table.items())) for table in own)
        names = (frozenset(p.wholes), frozenset(p.pads), frozenset(p.skews), p.vector)
        return tables, names, self.along_terms, frozenset(self.aligned), loops, self.space.limits

    @cached_property
    def layouts(self) -> frozenset[Layout]:
        """The storage orders of the tensors."""
        return frozenset(s for s in self.steps if isinstance(s, Layout))

    @cached_property
    def aligned(self) -> tuple[Expr, ...]:
        """Element counts that must be multiples of a vector, so that vector accesses are aligned.
        Raises ScheduleError or ProgramError where the primitive does not accept the staged views.
        """
        if self.unmarked is not None:
            return self.unmarked.aligned
        return check_structure(self.decisions, self.staged)

    @property
    def along_terms(self) -> bool:
        """True if a product reads vectors along k from main memory."""
        for call, product in calls_of(self.staged.body, MatrixProduct):
            factor = call.operands[product.loaded]
            if isinstance(factor, Tile) and factor.roles.rstrip(".").endswith("k"):
                return self.decisions.rules.along_terms
        return False


def structures(
    seed: Seed, space: Space, dtype: str, staging: Staging, rules: Rules = STRICT
) -> tuple[Structure, ...]:
    """Legal structures of one nest under every layout of the tensors it uses.

    `staging` returns the passes from the seed stage to the staged stage.
    """
    return _structures(space, own_layouts(seed, space), dtype, staging, rules)


def own_layouts(seed: Seed, space: Space) -> tuple[tuple[Layout, ...], ...]:
    """The distinct layouts of the tensors of one nest, in the order the seed lists them."""
    used = {u.tensor.name for u in space.nest.every_use}
    kept = (tuple(x for x in chosen if x.tensor in used) for chosen in seed.layout_combinations())
    return tuple(dict.fromkeys(kept))


@cache
def _structures(
    space: Space,
    layouts: tuple[tuple[Layout, ...], ...],
    dtype: str,
    staging: Staging,
    rules: Rules,
) -> tuple[Structure, ...]:
    found: list[Structure] = []
    refused: list[TilewrightError] = []
    legal_ones: set[tuple[Step, ...]] = set()
    for steps in _combinations(space, layouts, rules):
        scalar = tuple(s for s in steps if not isinstance(s, Vectorize))
        if scalar in legal_ones:
            continue  # legal with another vector: only one dimension is contiguous
        made = _attempt(space, steps, dtype, staging, rules)
        if not isinstance(made, Structure):
            refused.append(made)
            continue
        legal_ones.add(scalar)
        if not _repeats(made, found):
            found.append(made)
    if not found:
        raise _none_is_legal(space.nest.name, refused)
    return tuple(found)


def combinations(seed: Seed, space: Space, rules: Rules) -> tuple[tuple[Step, ...], ...]:
    """Every step list of one nest, legal or not."""
    return _combinations(space, own_layouts(seed, space), rules)


@cache
def _combinations(
    space: Space, layouts: tuple[tuple[Layout, ...], ...], rules: Rules
) -> tuple[tuple[Step, ...], ...]:
    every = tuple(space.combinations(in_place=rules.in_place))
    return tuple((*chosen, *steps) for chosen in layouts for steps in every)


class _OtherVector(ScheduleError):
    """Vectors along a dimension of the result that is not contiguous. A poor explanation to users,
    since another schedule vectorises the other dimension.
    """


def _none_is_legal(nest: str, refused: Sequence[TilewrightError]) -> ScheduleError:
    if not refused:
        return ScheduleError(
            f"nest {nest!r} has no schedule", fix="give each choice an alternative"
        )
    first = next((e for e in refused if not isinstance(e, _OtherVector)), refused[0])
    return ScheduleError(
        f"none of the {len(refused)} schedules of nest {nest!r} is legal; the first: "
        f"{first.message}",
        fix=first.fix,
    )


def build(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules = STRICT
) -> Structure | None:
    """Lower one combination; None if it is illegal. Raises ScheduleError as `decisions` does."""
    made = _attempt(space, steps, dtype, staging, rules)
    return made if isinstance(made, Structure) else None


def _attempt(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules
) -> Structure | TilewrightError:
    """The structure, or the error that makes the combination illegal."""
    decisions(space.nest, steps, rules)
    try:
        return legal(space, steps, dtype, staging, rules)
    except (ScheduleError, ProgramError) as error:
        return error


def legal(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules = STRICT
) -> Structure:
    """Lower one combination; raises ScheduleError or ProgramError if it is illegal."""
    _check_decisions(decisions(space.nest, steps, rules))  # rules half out before lowering
    made = structure(space, steps, dtype, staging, rules)
    _ = made.aligned  # raises if the primitive does not accept the views
    return made


def structure(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules
) -> Structure:
    """A combination, not lowered yet and possibly illegal. Spaces that differ only in their choices
    share one object.
    """
    return _structure(replace(space, choices=()), steps, dtype, staging, rules)


@cache
def _structure(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules
) -> Structure:
    return Structure(space, steps, rules, partial(_lowered, space, steps, dtype, staging, rules))


def _lowered(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules
) -> Program:
    stages = decisions(space.nest, steps, rules).stages
    passes = (*staging(stages), MapAccumulations())
    return run(passes, lower(space.nest, steps, dtype, rules))


def _repeats(structure: Structure, found: list[Structure]) -> bool:
    """True if an earlier combination has the same program: some steps change nothing."""
    return any(
        structure.staged.body == f.staged.body and structure.layouts == f.layouts for f in found
    )


def check_structure(p: Decisions, staged: Program) -> tuple[Expr, ...]:
    """Check that the primitive accepts the staged views; returns the element counts that must be
    multiples of a vector. Raises ScheduleError or ProgramError.
    """
    if not isinstance(p.nest.primitive, MatrixProduct):
        return ()
    call, product = next(calls_of(staged.body, MatrixProduct))
    views = [as_view(operand, staged) for operand in call.operands]
    forms = product.matrices(call.operands, staged, runs=p.rules.in_place)
    _check_vector(p, "n" if forms[0].order == "row" else "m")
    operand = 1 if p.vector == "m" else 2
    loaded = "column" if p.vector == "m" else "row"
    strided = isinstance(call.operands[operand], Tile) and forms[operand].order != loaded
    if strided and not p.rules.along_terms:
        raise ScheduleError(
            f"{views[operand].buffer!r} is used in place and not contiguous along {p.vector}",
            fix="another layout of it, or a copy that packs it",
        )
    return _whole_vectors(views[operand], forms[operand])


def _check_decisions(p: Decisions) -> None:
    """Raise ScheduleError for steps that are illegal whatever the lowered program."""
    if not p.splits:
        raise ScheduleError(
            f"nest {p.nest.name!r} splits no axis, so that a core holds whole tensors",
            fix="split the axes inside the primitive",
        )
    if not isinstance(p.nest.primitive, MatrixProduct):
        return
    spread = {p.roles[axis] for axis in p.spreads}
    needed = "" if p.rules.partial_blocks else "mnk"
    for letter in (letter for letter in needed if letter not in spread):
        raise ScheduleError(f"the whole mesh computes a matrix product, but no {letter} is spread")
    _check_vector(p, _contiguous(p))


def _check_vector(p: Decisions, contiguous: str) -> None:
    """Raise ScheduleError unless the product is vectorised along the `contiguous` dimension of its
    result; "" if that is unknown.
    """
    if contiguous and p.vector != contiguous:
        chosen = f"vectorize({p.vector})" if p.vector else "no vectorize"
        raise _OtherVector(
            f"{chosen}: the result is contiguous along {contiguous}",
            fix=f"vectorize({contiguous}) or another layout of the result",
        )


def _contiguous(p: Decisions) -> str:
    """The dimension along which a product's result is contiguous; "" where m or n has extent 1,
    since either may be vectorised then.
    """
    result = tile(p, p.nest.output, 0)
    pairs = zip(result.roles, result.ranges, strict=True)
    wide = "".join(role for role, r in pairs if r.extent != Const(1))
    return wide.rstrip(".")[-1:] if {"m", "n"} <= {*wide} else ""


def _whole_vectors(view: View, form: Matrix) -> tuple[Expr, ...]:
    """Leading dimension and offsets of the operand that is accessed by vectors."""
    moving = sorted(frozenset().union(*(free_vars(r.start) for r in view.ranges)))
    offsets = [coefficient(form.offset_elements, v) for v in moving]
    start = substitute(form.offset_elements, dict.fromkeys(moving, Const(0)))
    counts = (form.leading_dimension, start, *offsets)
    return tuple(e for e in dict.fromkeys(counts) if e != Const(0))
