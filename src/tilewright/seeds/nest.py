"""Schedule seeds as values: one tensorised loop nest over named axes (swATOP 4.2).

A `Nest` states what is computed: the axes, the innermost primitive, and the element of each tensor
that an iteration touches, as index expressions over the axes. The schedule decides how the axes are
split, ordered, laid out and staged. A seed is one nest, or several that run in order on shared
tensors.
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
    """One iteration axis. `inner` axes are never loops: the primitive takes them whole."""

    name: str
    extent: Expr
    inner: bool = False

    def __post_init__(self) -> None:
        check_name("axis", self.name)

    @property
    def var(self) -> Var:
        """The axis as a variable of index expressions."""
        return Var(self.name)


def axis(name: str, extent: IntLike, *, inner: bool = False) -> Axis:
    """Make an axis; `extent` may name operator parameters."""
    return Axis(name, expr(extent), inner)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of the seed: named dimensions with extents, in logical order (a layout reorders
    them).

    It holds elements of operand number `operand`, or of the result where that is None. `zeros`
    lists, per dimension, how many leading and trailing indices hold zeros in every run.
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
        """The tensor's element type. Raises ScheduleError where types are mixed and an input names
        no operand, or an operand whose type is unknown.
        """
        if numerics.is_float and not numerics.is_mixed:
            return numerics.sums
        if self.operand is not None:
            # Identical types are listed for two operands only, however many there are.
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
        """The element at these indices: one expression over axes per dimension, in order.

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
    """Parse a call to a syntax tree; nothing is evaluated."""
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
    """Declare a tensor by the text of its dimensions, expressions over parameters."""
    named = tuple((str(k.arg), from_ast(k.value)) for k in _call(f"dims({text})").keywords)
    every = (*named, *((d, expr(e)) for d, e in dims.items()))
    return TensorSpec(name, kind, every, storage, operand)


@dataclass(frozen=True)
class Use:
    """A tensor with one index expression (over axis names) per dimension.

    A write to an `exact` result never goes beyond the indices that the axes reach, however far
    their last tiles are rounded up; other writes only stay within the tensor.
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

    `roles` maps an axis to the letter of the primitive's dimension that it feeds (m, n, k for
    gemm); axes without a role are loops. `output` is written (accumulated for gemm) from `inputs`,
    and computed anew in every iteration of its `turns`, loops that it does not depend on. The
    output of the transform `before`, the source of the one `after`, and a result that is pooled
    exist only in the scratchpad. Raises ScheduleError where axes or operands do not match the
    primitive.
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
        """Output, then inputs: the operand order of the call."""
        return (self.output, *self.inputs)

    @property
    def finished(self) -> Use:
        """The tensor before pooling: the output, or the result of the transform `after` it."""
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
        """The tensors that exist only in the scratchpad, tile by tile."""
        made: tuple[TensorSpec, ...] = (self.before.output.tensor,) if self.before else ()
        made += (self.after.source.tensor,) if self.after else ()
        return (*made, self.finished.tensor) if self.pooling else made

    def axis(self, name: str) -> Axis:
        """The axis of that name. Raises ScheduleError, which lists the known ones."""
        for candidate in self.axes:
            if candidate.name == name:
                return candidate
        known = ", ".join(a.name for a in self.axes)
        raise ScheduleError(f"nest {self.name!r} has no axis {name!r}", fix=f"its axes are {known}")

    def reductions(self) -> frozenset[str]:
        """Axes that the output does not depend on, except `turns`."""
        kept = self.output.axes().union(self.turns)
        return frozenset(a.name for a in self.axes if a.name not in kept)


@dataclass(frozen=True)
class TileEpilogue:
    """A primitive applied to the finished output tile and further operands. The operands include
    the output's own use where the primitive overwrites it.
    """

    primitive: Primitive
    operands: tuple[Use, ...] = ()


@dataclass(frozen=True)
class Transform:
    """A primitive that turns a tile of `source` into a tile of `output`, in the scratchpad; `roles`
    maps axes to the letters of its dimensions.
    """

    primitive: Primitive
    roles: tuple[tuple[str, str], ...]
    output: Use
    source: Use


@dataclass(frozen=True)
class Pooling:
    """A primitive that reduces each window of the finished tile to one element, in the scratchpad.
    Its operands are the elements at each place in the `window`, row by row. `source` is the use of
    the first place; `window` gives the extents by dimension name.
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
    letter of the primitive to its axis or axes.

    Axes given by name take their extent from the dimension that they alone index, or from
    `extents`. The primitive takes `inner` ones whole.
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
    """Axes by name, with the extents of the dimensions that they index alone."""
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
