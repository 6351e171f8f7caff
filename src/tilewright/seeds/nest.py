"""Schedule seeds as values: one tensorised loop nest over named axes (swATOP 4.2).

A `Nest` says WHAT is computed: which axes there are, which primitive stands innermost, and which
element of each tensor an iteration touches, as index expressions over the axes. How the axes are
split, ordered, laid out and staged is the schedule's business. A seed is one nest or several that
run one after the other over shared tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.common.dtypes import DType
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import Expr, IntLike, Var, expr, free_vars
from tilewright.common.expr_parser import from_ast
from tilewright.common.syntax import expression_tree
from tilewright.ir.nodes import TensorKind, check_name
from tilewright.ir.primitive import Attribute, Primitive
from tilewright.ir.primitives import Repack, make_primitive
from tilewright.ops.numerics import Numerics


@dataclass(frozen=True)
class Axis:
    """One iteration axis. `inner` axes are never looped over: the primitive takes them whole."""

    name: str
    extent: Expr
    inner: bool = False

    def __post_init__(self) -> None:
        check_name("axis", self.name)

    @property
    def var(self) -> Var:
        """The axis inside an index expression."""
        return Var(self.name)


def axis(name: str, extent: IntLike, *, inner: bool = False) -> Axis:
    """Make an axis; `extent` may name operator parameters."""
    return Axis(name, expr(extent), inner)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of the seed: named dimensions with extents, in logical order (a layout reorders
    them).

    It holds elements of the operand with that number, or of the result. So many indices at the
    beginning and at the end of a dimension hold `zeros` in every run.
    """

    name: str
    kind: TensorKind
    dims: tuple[tuple[str, Expr], ...]
    storage: str = ""
    operand: int | None = None
    zeros: tuple[tuple[str, int, int], ...] = ()

    def __post_init__(self) -> None:
        check_name("tensor", self.name)
        for name, _ in self.dims:
            check_name("dimension", name)

    def element_type(self, numerics: Numerics) -> DType:
        """Its element type. Raises ScheduleError for an input of mixed types without an operand, or
        with one of which no type is known.
        """
        if numerics.is_float and not numerics.is_mixed:
            return numerics.sums
        if self.operand is not None:
            # Types that are all the same are named for two operands, however many there are.
            if self.operand >= len(numerics.operands) and len({*numerics.operands}) == 1:
                return numerics.operands[0]
            if self.operand < len(numerics.operands):
                return numerics.operands[self.operand]
            raise ScheduleError(
                f"tensor {self.name!r} is operand {self.operand}, types are named for "
                f"{len(numerics.operands)}",
                fix="name one for each operand, in order",
            )
        if self.kind in ("input", "constant"):
            raise ScheduleError(
                f"tensor {self.name!r} does not say which operand's element type it has",
                fix=f"tensor({self.name!r}, {self.kind!r}, operand=0, ...)",
            )
        return numerics.result

    def on(self, places: str) -> Use:
        """The element at these places, an expression over axes for each dimension in order.

        >>> str(tensor("x", "input", "rows=n + 2, cols=8").on("row + tap, col").indices[0])
        'row + tap'
        """
        found = tuple(map(from_ast, _call(f"on({places})").args))
        if len(found) != len(self.dims):
            raise ScheduleError(
                f"tensor {self.name!r} has {len(self.dims)} dimensions, {places!r} {len(found)}"
            )
        return Use(self, found)


def _call(text: str) -> ast.Call:
    """A call as a syntax tree, of which nothing is executed."""
    try:
        tree = expression_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if not isinstance(tree, ast.Call):
        raise ScheduleError(f"{text[:60]!r} cannot be read")
    return tree


def tensor(
    name: str,
    kind: TensorKind,
    text: str = "",
    *,
    storage: str = "",
    operand: int | None = None,
    **dims: IntLike,
) -> TensorSpec:
    """Declare a tensor by its dimensions, a text over parameters naming them; see `TensorSpec`."""
    named = tuple((str(k.arg), from_ast(k.value)) for k in _call(f"dims({text})").keywords)
    every = (*named, *((d, expr(e)) for d, e in dims.items()))
    return TensorSpec(name, kind, every, storage, operand)


@dataclass(frozen=True)
class Use:
    """A tensor with one index expression (over axis names) per dimension.

    Of a result that is `exact` nothing is written beyond the places that the axes reach, whatever
    their last tiles are rounded up to; of others nothing beyond the tensor.
    """

    tensor: TensorSpec
    indices: tuple[Expr, ...]
    exact: bool = False

    def axes(self) -> frozenset[str]:
        """Names of the axes (and parameters) that the indices mention."""
        return frozenset().union(*(free_vars(i) for i in self.indices))


@dataclass(frozen=True)
class Nest:
    """One tensorised loop nest.

    `roles` maps an axis to the letter of the primitive's dimension it feeds (m, n, k for gemm).
    Axes without a role are loops. `output` is written (accumulated for gemm) from `inputs`, and
    made anew in every one of its `turns`, loops that it does not depend on. What a transform makes
    `before` it, the result that one takes `after` it and one that is pooled stay in the scratchpad.
    Raises ScheduleError where these are not what the primitive takes.
    """

    name: str
    primitive: Primitive
    axes: tuple[Axis, ...]
    roles: tuple[tuple[str, str], ...]
    output: Use
    inputs: tuple[Use, ...]
    epilogue: TileEpilogue | None = None
    turns: tuple[str, ...] = ()
    before: Transform | None = None
    after: Transform | None = None
    pooling: Pooling | None = None

    def __post_init__(self) -> None:
        check_name("nest", self.name)
        primitive = self.primitive
        if isinstance(primitive, Repack):
            raise self._refusal("repack changes the shape of a tile and computes nothing")
        if len(self.uses) != len(primitive.arguments) and not primitive.broadcasts:
            takes = f"{primitive.name} takes {len(primitive.arguments)} operands"
            raise self._refusal(f"{takes}, found {len(self.uses)}")
        for name, letter in self.roles:
            if name not in (a.name for a in self.axes):
                raise self._refusal(f"{letter} is given to {name!r}, which is not among the axes")
        letters = {letter for _, letter in self.roles}
        missing = [x for x in primitive.axes if x not in letters]
        if missing:
            raise self._refusal(f"no axis feeds {', '.join(missing)} of {primitive.name}")

    def _refusal(self, why: str, fix: str = "") -> ScheduleError:
        return ScheduleError(f"nest {self.name!r}: {why}", fix=fix)

    @property
    def uses(self) -> tuple[Use, ...]:
        """Output first, then the inputs: the order of the call's operands."""
        return (self.output, *self.inputs)

    @property
    def finished(self) -> Use:
        """The tensor before pooling: the output, or the result of the transform behind it."""
        return self.after.output if self.after else self.output

    @property
    def result(self) -> Use:
        """The tensor that the nest writes: the pooled windows if it pools, else `finished`."""
        return self.pooling.output if self.pooling else self.finished

    @property
    def every_use(self) -> tuple[Use, ...]:
        """`uses`, the epilogue's operands, and the tensors of transforms and pooling."""
        others = self.epilogue.operands if self.epilogue else ()
        others += (self.before.source,) if self.before else ()
        others += (self.after.output,) if self.after else ()
        others += (self.pooling.output,) if self.pooling else ()
        return (*self.uses, *(use for use in others if use != self.output))

    @property
    def kept(self) -> tuple[TensorSpec, ...]:
        """The tensors that only the scratchpad holds, tile by tile."""
        made: tuple[TensorSpec, ...] = (self.before.output.tensor,) if self.before else ()
        made += (self.after.source.tensor,) if self.after else ()
        return (*made, self.finished.tensor) if self.pooling else made

    def axis(self, name: str) -> Axis:
        """The axis of that name; ScheduleError lists the known ones."""
        for candidate in self.axes:
            if candidate.name == name:
                return candidate
        known = ", ".join(a.name for a in self.axes)
        raise ScheduleError(f"nest {self.name!r} has no axis {name!r}", fix=f"its axes are {known}")

    def reductions(self) -> frozenset[str]:
        """Axes that the output does not depend on, except `turns`, which make it anew."""
        kept = self.output.axes().union(self.turns)
        return frozenset(a.name for a in self.axes if a.name not in kept)


@dataclass(frozen=True)
class TileEpilogue:
    """A primitive on the finished output tile and further operands, the output's own use among
    them where the primitive replaces what it writes.
    """

    primitive: Primitive
    operands: tuple[Use, ...] = ()


@dataclass(frozen=True)
class Transform:
    """A primitive that makes a tile of one tensor of a tile of another, in the scratchpad; `roles`
    maps axes to the letters of its dimensions.
    """

    primitive: Primitive
    roles: tuple[tuple[str, str], ...]
    output: Use
    source: Use


@dataclass(frozen=True)
class Pooling:
    """A primitive that makes each element of a smaller tile of those of one window of the finished
    tile, in the scratchpad: its operands are the elements at each place in the `window`, rows
    first. `source` is the first place, the window's extents go by the names of dimensions.
    """

    primitive: Primitive
    output: Use
    source: Use
    window: tuple[tuple[str, int], ...]


def nest(
    name: str,
    primitive: str,
    axes: str | tuple[Axis, ...],
    roles: Mapping[str, str | Axis | tuple[Axis, ...]],
    output: Use,
    *inputs: Use,
    inner: str = "",
    extents: Mapping[str, IntLike] | None = None,
    epilogue: TileEpilogue | None = None,
    turns: tuple[str, ...] = (),
    before: Transform | None = None,
    after: Transform | None = None,
    **attributes: Attribute,
) -> Nest:
    """Build a nest around the primitive of that name with these attributes; `roles` maps each
    letter of the primitive to its axis, or to its axes.

    Axes may be given by their names: they count through a dimension that they are alone in, or have
    `extents`; the primitive takes `inner` ones whole.
    """
    if isinstance(axes, str):
        uses = (output, *inputs, *((before.source,) if before else ()))
        axes = _counted(axes.split(), uses, inner.split(), extents or {})
    letters = tuple((own, letter) for letter, named in roles.items() for own in _names(named))
    try:
        made = make_primitive(primitive, attributes)
    except ProgramError as error:
        raise ScheduleError(f"nest {name!r}: {error.message}", fix=error.fix) from error
    return Nest(name, made, axes, letters, output, inputs, epilogue, turns, before, after)


def _names(axes: str | Axis | tuple[Axis, ...]) -> list[str]:
    if isinstance(axes, str):
        return axes.split()
    return [a.name for a in (axes if isinstance(axes, tuple) else (axes,))]


def _counted(
    names: Sequence[str], uses: Sequence[Use], inner: Sequence[str], extents: Mapping[str, IntLike]
) -> tuple[Axis, ...]:
    """Axes by their names, with the extents of the dimensions that they count through."""
    found = {
        index.name: extent
        for use in reversed(uses)
        for index, (_, extent) in zip(use.indices, use.tensor.dims, strict=True)
        if isinstance(index, Var)
    }
    every = {**found, **extents}
    missing = [name for name in names if name not in every]
    if missing:
        raise ScheduleError(f"no tensor has a dimension that {missing[0]!r} counts through")
    return tuple(axis(name, every[name], inner=name in inner) for name in names)
