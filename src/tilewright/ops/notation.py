"""Definitions as text: `y[n,o] += x[n,i] * w[o,i]`, with extents of axes and shapes of tensors.

In: a statement, and sizes by name. Out: a `Definition`. The syntax is Python's, but no text is ever
executed: an index is a sum of multiples of axes, a body an expression over elements (`ir.scalar`).
Errors name the offending character. Einstein summations are accepted in the notation of NumPy and
ONNX, `bhqd,bhkd->bhqk`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.common.errors import ProgramError, ShapeError, TilewrightError
from tilewright.common.syntax import expression_tree
from tilewright.ir.scalar import parse_scalar
from tilewright.ops.access import Access
from tilewright.ops.box import Box
from tilewright.ops.definition import SIGNS, Definition, Gather, factors_of
from tilewright.ops.definitions import Assembly, are_apart, assembled
from tilewright.ops.gradient import is_written_once, scattered
from tilewright.ops.op import CONTRACTIONS, Maker, Shape, show_shape

Size = int | Shape
"""The extent of an axis, or the shape of a tensor."""
Fill = float | Mapping[str, float] | None
"""The value beyond the border of every operand, or of some operands by name; None for no border."""

_LONGEST = 1 << 14
_MOST = 1 << 31
_GATHERS: dict[str, Gather | None] = {sign: gather for gather, sign in SIGNS.items()}
_ASSIGNMENT = re.compile(r"(?<![=<>!+*])\s(?P<sign>\+=|\*=|max=|min=|any=|=)(?!=)")
_WITHOUT_INDICES = re.compile(r"(?<=[\w\]])\[(\s*)\]")
"""`a[]`, the element of a scalar, which Python cannot parse; `a()` is as long and can be parsed."""
_INDICES = "i64"
"""The default type of operands that hold indices."""


@dataclass(frozen=True)
class _Element:
    """An element of a tensor by affine indices: for each dimension, terms by axis and an offset, or
    in `read_from` the number of the read that holds the index.
    """

    tensor: str
    places: tuple[tuple[tuple[tuple[str, int], ...], int], ...]
    column: int
    read_from: tuple[int | None, ...] = ()


@dataclass
class Statement:
    """A parsed statement: the result, the elements that are read, and the body over them."""

    text: str
    result: _Element
    gather: Gather | None
    reads: list[_Element] = field(default_factory=list)
    body: str = ""

    @property
    def elements(self) -> tuple[_Element, ...]:
        """The result, then the operands' elements."""
        return (self.result, *self.reads)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes in order of appearance, the result's first."""
        named = (a for e in self.elements for terms, _ in e.places for a, _ in terms)
        return tuple(dict.fromkeys(named))

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the tensors, the result's first."""
        return tuple(element.tensor for element in self.elements)

    @property
    def is_product(self) -> bool:
        """True if it sums products of two elements, with one axis per dimension of the result."""
        factors = factors_of(parse_scalar(self.body)) or []
        plain = all(len(terms) < 2 for terms, _ in self.result.places)
        return plain and self.gather == "sum" and sorted(factors) == [0, 1]

    def column_of(self, axis: str, element: _Element) -> int:
        """Column where an element first names an axis."""
        named = re.compile(rf"(?<![\w]){re.escape(axis)}(?![\w])")
        inside = self.text.index("[", element.column)
        found = named.search(self.text, inside)
        return found.start() if found else element.column

    def refused(self, message: str, column: int, fix: str = "") -> ShapeError:
        """An error at `column`, counted from 0; the message shows it counted from 1."""
        shown = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return ShapeError(f"{shown!r}, character {column + 1}: {message}", fix=fix)


def operator_of(
    text: str, *, dtype: str = "f64", fill: Fill = None, **sizes: Size
) -> Definition | Assembly:
    """The operator that a statement defines; `sizes` are extents of axes and shapes of tensors.

    `=` writes each element once; `+=`, `*=`, `max=` and `min=` gather over the axes that the result
    lacks. A sum in which several steps write the same element, `y[2*r+u] += x[r] * w[u]`, is solved
    for the element; with a fill for the result, writes beyond its border are dropped. Raises
    ShapeError, naming the character, for text that is no statement, for missing or contradictory
    sizes, and for indices outside a tensor without a `fill`.

    >>> operator_of("y[n,o] += x[n,i] * w[o,i]", n=8, o=4, i=16).input_shapes
    ((8, 16), (4, 16))
    >>> operator_of("y[r] max= x[2*r+t-1]", r=4, t=3, x=(8,), fill=0).out_shape
    (4,)
    """
    return defined(parse_statement(text), sizes, dtype=dtype, fill=fill)


def parse_statement(text: str) -> Statement:
    """Read a statement. Raises ShapeError that names the offending character."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise ShapeError(f"a statement of {len(text):,} characters, at most {_LONGEST:,} are read")
    found = _ASSIGNMENT.search(f"{text} ")
    if found is None:
        raise ShapeError(
            f"{text[:60]!r} is no statement", fix="write RESULT[axes] += BODY, or =, *=, max=, min="
        )
    sign = found.start("sign")
    empty = Statement(text, _Element("", (), 0), _GATHERS[found.group("sign")])
    left = _parsed(empty, 0, sign)
    if not isinstance(left, ast.Subscript):
        raise empty.refused("the result is no element, as y[i]", 0)
    reader = _Reader(empty, 0)
    empty.result = reader.element(left)
    _require_apart(empty)
    start = found.end("sign")
    body = _parsed(empty, start, len(text))
    empty.body = ast.unparse(_Reader(empty, _column(empty, start)).visit(body))
    try:
        parse_scalar(empty.body)
    except ProgramError as error:
        raise empty.refused(error.message, _column(empty, start), error.fix) from None
    return empty


def _column(statement: Statement, start: int) -> int:
    """Column of the first non-blank character from `start` on."""
    return len(statement.text) - len(statement.text[start:].lstrip())


def _parsed(statement: Statement, start: int, end: int) -> ast.expr:
    text = statement.text[start:end]
    try:
        if not text.isascii():
            wide = next(i for i, c in enumerate(text.lstrip()) if not c.isascii())
            raise SyntaxError("", ("", 1, wide + 1, ""))
        tree = expression_tree(_WITHOUT_INDICES.sub(r"(\1)", text))
    except SyntaxError as error:
        at = _column(statement, start) + max(0, (error.offset or 1) - 1)
        raise statement.refused("no expression can be read here", at) from None
    except (ValueError, RecursionError, MemoryError):
        raise statement.refused("the expression is too deep to read", start) from None
    tree = _Scalars(statement.text[_column(statement, start) :]).visit(tree)
    assert isinstance(tree, ast.expr)
    return tree


class _Scalars(ast.NodeTransformer):
    """Replaces the calls that stand for `a[]` by `a[()]`."""

    def __init__(self, text: str) -> None:
        self.text = text

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self.text[(node.end_col_offset or 0) - 1] != "]":
            return self.generic_visit(node)
        none = ast.Tuple([], ast.Load())
        return ast.copy_location(ast.Subscript(self.visit(node.func), none, ast.Load()), node)


class _Reader(ast.NodeTransformer):
    """Replaces the elements that a body reads by x0, x1, ..., and collects them."""

    def __init__(self, statement: Statement, column: int) -> None:
        self.statement, self.column = statement, column

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return ast.Name(f"x{self._element_number(node)}", ast.Load())

    def _element_number(self, node: ast.Subscript) -> int:
        """The number of an element among the reads; a new one is appended."""
        found, reads = self.element(node), self.statement.reads
        for number, known in enumerate(reads):
            if replace(known, column=found.column) == found:
                return number
        reads.append(found)
        return len(reads) - 1

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "inf":
            return node
        raise self.refused(f"{node.id!r} is no element", node, f"write {node.id}[...]")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Visit only the arguments: the function's name is no element; `ir.scalar` checks it."""
        node.args = [self.visit(argument) for argument in node.args]
        return node

    def element(self, node: ast.Subscript) -> _Element:
        """The tensor and the indices of a subscript."""
        if not isinstance(node.value, ast.Name):
            raise self.refused("a tensor is called by a name", node)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        own = [self._element_number(i) if isinstance(i, ast.Subscript) else None for i in inner]
        if any(self.statement.reads[k].read_from for k in own if k is not None):
            raise self.refused("an index is read at places that axes give", node)
        places = tuple(
            ((), 0) if isinstance(index, ast.Subscript) else self._place(index) for index in inner
        )
        read_from = tuple(own) if any(k is not None for k in own) else ()
        return _Element(node.value.id, places, self.column + node.col_offset, read_from)

    def _place(self, node: ast.expr) -> tuple[tuple[tuple[str, int], ...], int]:
        terms: dict[str, int] = {}
        offset = self._add(node, 1, terms)
        return tuple((axis, step) for axis, step in terms.items() if step), offset

    def _add(self, node: ast.expr, factor: int, terms: dict[str, int]) -> int:
        """Add `factor` times an index to `terms`; returns its constant part."""
        if abs(factor) >= _MOST:
            raise self.refused(f"a step of {factor}, at most {_MOST - 1:,}", node)
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return factor * number
            case ast.Name(id=name):
                terms[name] = terms.get(name, 0) + factor
                return 0
            case ast.UnaryOp(ast.USub(), inner):
                return self._add(inner, -factor, terms)
            case ast.BinOp(left, ast.Add(), right):
                return self._add(left, factor, terms) + self._add(right, factor, terms)
            case ast.BinOp(left, ast.Sub(), right):
                return self._add(left, factor, terms) + self._add(right, -factor, terms)
            case ast.BinOp(ast.Constant(value=int(number)), ast.Mult(), inner):
                return self._add(inner, factor * number, terms)
            case ast.BinOp(inner, ast.Mult(), ast.Constant(value=int(number))):
                return self._add(inner, factor * number, terms)
            case _:
                raise self.refused(
                    "an index is a sum of multiples of axes",
                    node,
                    "write it as 2*r + u - 1; solve a quotient for the other index",
                )

    def refused(self, message: str, node: ast.expr, fix: str = "") -> ShapeError:
        """An error about the first character of a node."""
        return self.statement.refused(message, self.column + node.col_offset, fix)


def _require_apart(statement: Statement) -> None:
    """Require that the result names each axis at most once."""
    seen: set[str] = set()
    for terms, _ in statement.result.places:
        for axis, _ in terms:
            if axis in seen:
                raise statement.refused(f"the result names axis {axis!r} twice", 0)
            seen.add(axis)


def defined(
    statement: Statement, sizes: Mapping[str, Size], *, dtype: str = "f64", fill: Fill = None
) -> Definition | Assembly:
    """The operator of a parsed statement with these sizes; raises as `operator_of` does."""
    shapes = {name: size for name, size in sizes.items() if isinstance(size, tuple)}
    extents = _extents(statement, sizes, shapes)
    axes = statement.axes
    numbers = {axis: number for number, axis in enumerate(axes)}
    whole = Box.whole(tuple(extents[axis] for axis in axes))
    made: list[Access] = []
    turned = {a for place, _ in statement.result.places for a, step in place if step < 0}
    for element in (_turned(e, turned, extents) for e in statement.elements):
        terms = tuple(tuple((numbers[a], s) for a, s in place) for place, _ in element.places)
        offsets = tuple(offset for _, offset in element.places)
        beyond = fill.get(element.tensor) if isinstance(fill, Mapping) else fill
        beyond = None if element.read_from else beyond
        if not made and statement.gather != "sum":  # the result comes first
            beyond = None
        if element.read_from and element.tensor not in shapes:
            raise statement.refused(
                f"{element.tensor} is looked up and has no shape",
                element.column,
                f"give its shape, {element.tensor}=...",
            )
        access = Access((1,) * len(terms), terms, offsets, beyond)
        shape = shapes.get(element.tensor) or _reached(statement, access, element, whole)
        beyond = _where_needed(access, shape, whole)
        access = Access(shape, terms, offsets, beyond, element.read_from)
        _require_inside(statement, element, access, whole)
        made.append(access)
    try:
        dtype = _types(statement, dtype)
        scatters = bool(made[0].read_from)
        if statement.gather == "sum" and not scatters and not is_written_once(made[0], whole.shape):
            return _scattered(statement, whole.shape, made, dtype)
        return Definition(
            whole.shape, made[0], tuple(made[1:]), statement.body, statement.gather, "x0", dtype,
            axes, statement.tensors,
        )  # fmt: skip
    except TilewrightError as error:
        raise ShapeError(f"{statement.text[:60]!r}: {error.message}", fix=error.fix) from None


def _types(statement: Statement, dtype: str) -> str:
    """The text of the element types, with integers for operands that hold indices."""
    indices = {k for e in statement.elements for k in e.read_from if k is not None}
    if ":" in dtype or not indices:
        return dtype
    kinds = (_INDICES if i in indices else dtype for i in range(len(statement.reads)))
    return f"{','.join(kinds)}:{dtype}"


def _scattered(
    statement: Statement, extents: Shape, accesses: Sequence[Access], dtype: str
) -> Definition | Assembly:
    """The sums, solved for the elements of the result that several steps write."""
    y, *operands = accesses
    found = scattered(extents, replace(y, fill=None), operands, statement.body, dtype)
    parts = [replace(p, axes=statement.axes, tensors=statement.tensors) for p in found]
    if not parts:
        raise ShapeError("every step writes beyond the result")
    if not are_apart(parts):
        raise ShapeError(
            f"steps of {statement.body!r} share places of the result and no factor bounds them",
            fix="write the body as a statement of its own, and sum its elements",
        )
    return assembled(parts, [range(len(operands))] * len(parts), dtype)


def _turned(element: _Element, axes: set[str], extents: Mapping[str, int]) -> _Element:
    """The element with `axes` reversed, so that they count from their last step."""
    places = []
    for terms, offset in element.places:
        first = offset + sum(step * (extents[a] - 1) for a, step in terms if a in axes)
        places.append((tuple((a, -step if a in axes else step) for a, step in terms), first))
    return replace(element, places=tuple(places))


def _extents(
    statement: Statement, sizes: Mapping[str, Size], shapes: Mapping[str, Shape]
) -> dict[str, int]:
    """Extent of each axis: given, or inferred from a dimension whose index is the axis alone."""
    found = _extents_given(statement, sizes)
    by: dict[str, str] = {}
    for element in statement.elements:
        shape = shapes.get(element.tensor)
        if shape is None:
            continue
        if len(shape) != len(element.places):
            raise statement.refused(
                f"{element.tensor} has {len(shape)} dimensions, {show_shape(shape)}, and "
                f"{len(element.places)} indices",
                element.column,
            )
        for (terms, offset), extent in zip(element.places, shape, strict=True):
            axis = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 and not offset else ""
            if not axis or axis in sizes:  # a given extent may cover part of a tensor
                continue
            if found.setdefault(axis, extent) != extent:
                raise statement.refused(
                    f"axis {axis!r} has {extent} steps in {element.tensor} and {found[axis]} by "
                    f"{by[axis]}",
                    element.column,
                )
            by.setdefault(axis, f"{element.tensor}={show_shape(shape)}")
    for element in statement.elements:
        for axis in (a for terms, _ in element.places for a, _ in terms):
            if axis not in found:
                column = statement.column_of(axis, element)
                raise statement.refused(f"axis {axis!r} has no extent", column, f"give {axis}=...")
    return found


def _extents_given(statement: Statement, sizes: Mapping[str, Size]) -> dict[str, int]:
    """The extents among the sizes; raises ShapeError for unknown names and invalid numbers."""
    tensors = {e.tensor for e in statement.elements}
    for name, size in sizes.items():
        if name not in tensors and name not in statement.axes:
            known = ", ".join((*statement.axes, *sorted(tensors)))
            raise ShapeError(
                f"{statement.text[:60]!r} has no {name!r}", fix=f"it has the names {known}"
            )
        _require_size(name, size)
        if (name in tensors) != isinstance(size, tuple):
            kind = "the shape of a tensor" if name in tensors else "the extent of an axis"
            raise ShapeError(f"{name!r} is {kind}, found {size}")
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


def _require_size(name: str, size: Size) -> None:
    extents = size if isinstance(size, tuple) else (size,)
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int) or not 0 < extent < _MOST:
            raise ShapeError(f"{name} must be from 1 to {_MOST - 1:,}, found {extent!r}")


def _reached(statement: Statement, access: Access, element: _Element, axes: Box) -> Shape:
    """Inferred shape of a tensor: up to the largest index that any element of it reaches."""
    if access.fill is not None and any(len(t) > 1 or o for t, o in element.places):
        raise statement.refused(
            f"{element.tensor} is filled beyond a border that is not known",
            element.column,
            f"give its shape, {element.tensor}=...",
        )
    ends = [access.span(d, axes)[1] for d in range(len(access.shape))]
    for other in statement.elements:
        if other.tensor == element.tensor and len(other.places) == len(ends):
            numbers = {axis: number for number, axis in enumerate(statement.axes)}
            terms = tuple(tuple((numbers[a], s) for a, s in place) for place, _ in other.places)
            own = Access(access.shape, terms, tuple(o for _, o in other.places))
            ends = [max(end, own.span(d, axes)[1]) for d, end in enumerate(ends)]
    return tuple(max(1, end) for end in ends)


def _where_needed(access: Access, shape: Shape, axes: Box) -> float | None:
    """The fill, if any index lies beyond the border."""
    return None if replace(access, shape=shape).is_inside(axes.shape) else access.fill


def _require_inside(statement: Statement, element: _Element, access: Access, axes: Box) -> None:
    if access.fill is not None:
        return
    for d, extent in enumerate(access.shape):
        first, end = access.span(d, axes)
        if first < 0 or end > extent:
            raise statement.refused(
                f"index {d + 1} of {element.tensor} runs from {first} to {end - 1}, outside "
                f"0..{extent - 1}",
                element.column,
                f"give fill=... for what lies beyond the border, or another {element.tensor}=...",
            )


CONTRACTIONS["contraction"] = Maker(Definition, operator_of)


Letters = tuple[str, ...]
"""The axis of each dimension; axes of an ellipsis begin with an underscore."""


def einsum(equation: str, shapes: Sequence[Shape], *, dtype: str = "f64") -> Definition:
    """The definition of an Einstein summation over tensors of these `shapes`.

    Without an arrow, the result has the letters that occur once, in alphabetical order; an ellipsis
    stands for the remaining leading dimensions, broadcast. Raises ShapeError naming the term.

    >>> einsum("ij,jk", [(2, 3), (3, 4)]).describe()
    'y[i,k] += x0[i,j] * x1[j,k]; i=2, k=4, j=3'
    """
    text = "".join(equation.split())
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(f"{text!r} has {len(terms)} terms, {len(shapes)} tensors are given")
    pairs = list(zip(terms, shapes, strict=True))
    most = max((len(s) - len(t.replace(".", "")) for t, s in pairs if "." in t), default=0)
    ellipsis = tuple(f"_{d}" for d in range(most))
    places = [_letters(text, term, ellipsis, len(shape)) for term, shape in pairs]
    extents = _extents_of_letters(text, terms, places, shapes)
    letters = [axis for own in places for axis in own]
    once = sorted({a for a in letters if letters.count(a) == 1 and a not in ellipsis})
    result = _letters(text, output, ellipsis) if arrow else (*ellipsis, *once)
    if not set(result) <= set(extents) or len(set(result)) < len(result):
        raise ShapeError(f"{text!r}: the result {output!r} takes each of the terms' letters once")
    axes = (*result, *(axis for axis in extents if axis not in result))
    y = _access_of_letters(result, tuple(extents[a] for a in result), axes)
    operands = tuple(
        _access_of_letters(own, s, axes) for own, s in zip(places, shapes, strict=True)
    )
    gather: Gather | None = "sum" if len(axes) > len(result) else None
    body = " * ".join(f"x{i}" for i in range(len(operands)))
    every = tuple(extents[axis] for axis in axes)
    names = tuple(axis.replace("_", "batch") for axis in axes)
    return Definition(every, y, operands, body, gather, "x0", dtype, names)


def _letters(text: str, term: str, ellipsis: Letters, dimensions: int | None = None) -> Letters:
    """The axes of a term; a tensor of fewer dimensions uses the last axes of the ellipsis."""
    before, dots, behind = term.partition("...")
    if not re.fullmatch("[A-Za-z]*", before + behind):
        raise ShapeError(f"{text!r}: {term!r} is no term, letters and one ellipsis at most")
    left = 0
    if dots:
        left = len(ellipsis) if dimensions is None else dimensions - len(before + behind)
    found = (*before, *ellipsis[len(ellipsis) - max(0, left) :], *behind)
    if dimensions is not None and len(found) != dimensions:
        raise ShapeError(f"{text!r}: {term!r} does not name {dimensions} dimensions")
    return found


def _extents_of_letters(
    text: str, terms: Sequence[str], places: Sequence[Letters], shapes: Sequence[Shape]
) -> Mapping[str, int]:
    """The extent of each axis; dimensions of one element broadcast."""
    found: dict[str, int] = {}
    for term, own, shape in zip(terms, places, shapes, strict=True):
        for axis, extent in zip(own, shape, strict=True):
            before = found.get(axis, 1)
            if 1 not in (before, extent) and before != extent:
                raise ShapeError(
                    f"{text!r}: {axis!r} has {extent} steps in {term!r} and {before} before"
                )
            found[axis] = max(before, extent)
    return found


def _access_of_letters(own: Letters, shape: Shape, axes: Letters) -> Access:
    """Access with one axis per dimension, but none for dimensions of one element."""
    pairs = zip(own, shape, strict=True)
    terms = tuple(((axes.index(a), 1),) if n > 1 else () for a, n in pairs)
    return Access(shape, terms, (0,) * len(shape))
