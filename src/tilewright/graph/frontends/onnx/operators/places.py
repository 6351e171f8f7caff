"""ONNX's operators on indices: gather, scatter, triangles, one-hot, top k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.common.dtypes import F64, I32, dtype
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer, converting
from tilewright.graph.frontends.onnx.model import Constant
from tilewright.graph.frontends.onnx.operators.moves import looked_up, table
from tilewright.ops import Slice
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import access
from tilewright.ops.notation import einsum
from tilewright.ops.op import Shape

_COMPLEX = 2
_MOST_ROOTS = 1 << 25
_INDICES = ("i32", "i64")


def _indices(at: Importer, size: int) -> str:
    """Indices counted from the front. Raises GraphError for known ones out of range."""
    name = at.operand(1, _INDICES)
    if name not in at.constants:
        kind = at.builder.element_type(name)
        return at.each(f"x0 + {size} if x0 < 0 else x0", name, suffix="_places1", computed=kind)
    numbers = at.constants[name]
    front = _from_front(at, numbers, size)
    return name if front is numbers else at.held("places", front)


def _from_front(at: Importer, numbers: Constant, size: int) -> Constant:
    """Known indices counted from the front. Raises GraphError for one out of range."""
    _require_inside(at, numbers, size)
    return np.where(numbers < 0, numbers + size, numbers) if (numbers < 0).any() else numbers


def _require_inside(at: Importer, numbers: Constant, size: int) -> None:
    outside = numbers[(numbers < -size) | (numbers >= size)]
    if outside.size:
        raise at.wrong(f"the index {outside.flat[0]} is outside -{size}..{size - 1}")


def _gather(at: Importer) -> None:
    """Gather: slices along an axis; known indices at one distance need no look-up."""
    shape, axis = at.shape(0), at.axis()
    if (cut := _cut_of(at, shape, axis)) is None:
        x, index = at.operand(0), _indices(at, shape[axis])
        at.emit(looked_up(at, shape, axis, x, index), x, index)
        return
    gathered = (*shape[:axis], *at.constant(1).shape, *shape[axis + 1 :])
    if gathered == cut.out_shape:
        at.emit(cut, at.operand(0))
    else:
        at.reshape(at.step(cut, at.operand(0), suffix="_cut"), gathered)


def _cut_of(at: Importer, shape: Shape, axis: int) -> Slice | None:
    """The slice at the indices, in one row; None unless they are known and rise evenly."""
    numbers = at.constants.get(at.node.input(1))
    if numbers is None or not numbers.size:
        return None
    flat = _from_front(at, numbers, shape[axis]).reshape(-1)
    steps = np.unique(np.diff(flat)) if flat.size > 1 else np.ones(1, flat.dtype)
    if steps.size > 1 or steps[0] < 1:
        return None

    def along(number: int, others: Shape) -> Shape:
        return (*others[:axis], number, *others[axis + 1 :])

    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    start, step = along(int(flat[0]), zeros), along(int(steps[0]), ones)
    return Slice(shape, start, along(flat.size, shape), step, at.dtype)


def _elements(at: Importer) -> tuple[int, str]:
    """The axis, and the tensor of indices along it, of the data's rank."""
    axis = at.axis()
    index = _indices(at, at.shape(0)[axis])
    own, shape = at.builder.shape(index), at.shape(0)
    if len(own) != len(shape) or any(n > shape[d] for d, n in enumerate(own) if d != axis):
        raise at.wrong(f"indices of {own} do not fit a tensor of {shape}")
    return axis, index


def _named_along(at: Importer, axis: int) -> Access:
    """The access with indices from operand 1 along `axis`, and from the axes elsewhere."""
    shape = at.shape(0)
    return table(shape, [None if d == axis else d for d in range(len(shape))])


def _gather_elements(at: Importer) -> None:
    """GatherElements: for each index, one element along the axis."""
    axis, index = _elements(at)
    names, extents = (at.operand(0), index), at.builder.shape(index)
    at.emit(at.define(extents, (_named_along(at, axis), straight(extents)), *names), *names)


def _parts_of(at: Importer, batch: int) -> tuple[Shape, tuple[str, ...]]:
    """The extents and tensors of index components, which the last axis of the indices holds."""
    index, shape = at.operand(1, _INDICES), at.shape(0)
    own, kind = at.builder.shape(index), at.builder.element_type(index)
    if not own or not 0 <= batch < len(own) or batch + own[-1] > len(shape):
        raise at.wrong(f"indices of {own} do not fit a tensor of {shape}")
    outer, names = own[:-1], []
    for k, size in enumerate(shape[batch : batch + own[-1]]):
        if index in at.constants:
            _require_inside(at, at.constants[index][..., k], size)
        cut = Slice(own, (*(0,) * len(outer), k), (*outer, 1), (1,) * len(own), kind)
        part = at.step(cut, index, suffix=f"_part{k}")
        body = f"x0 + {size} if x0 < 0 else x0"
        front = at.each(body, part, suffix=f"_front{k}", computed=kind)
        names.append(at.reshaped(front, outer))
    return outer, tuple(names)


def _named_first(shape: Shape, outer: int, batch: int, count: int) -> Access:
    """The access with indices from operands 1, 2, ... along `count` dimensions after the batch."""
    behind = range(outer, outer + len(shape) - batch - count)
    return table(shape, [*range(batch), *(None,) * count, *behind])


def _gather_nd(at: Importer) -> None:
    """GatherND: slices at the index tuples on the last axis of the indices, batch by batch."""
    x, shape = at.operand(0), at.shape(0)
    batch = at.node.integer("batch_dims") if at.node.flag("batch_dims") else 0
    outer, names = _parts_of(at, batch)
    source = _named_first(shape, len(outer), batch, len(names))
    extents = (*outer, *shape[batch + len(names) :])
    indices = (straight(outer, tuple(range(len(outer)))),) * len(names)
    at.emit(at.define(extents, (source, *indices), x, *names), x, *names)


def _scatter_elements(at: Importer) -> None:
    """ScatterElements: updates at indices along an axis."""
    axis, index = _elements(at)
    extents = at.builder.shape(index)
    places = (straight(extents), straight(extents))
    _scattered(at, _named_along(at, axis), extents, places, (index,))


def _scatter_nd(at: Importer) -> None:
    """ScatterND: slices of updates at the index tuples on the last axis of the indices."""
    shape, (outer, names) = at.shape(0), _parts_of(at, 0)
    result = _named_first(shape, len(outer), 0, len(names))
    extents = (*outer, *shape[len(names) :])
    index = straight(outer, tuple(range(len(outer))))
    _scattered(at, result, extents, (straight(extents), *(index,) * len(names)), names)


def _scattered(
    at: Importer, result: Access, extents: Shape, places: Sequence[Access], indices: Sequence[str]
) -> None:
    """The data plus the scattered sums, or the sums wherever an update hits."""
    data, updates = at.operand(0), at.operand(2)
    if at.shape(2) != extents:
        raise at.wrong(f"updates of {at.shape(2)}, expected {extents}")
    total = at.define(extents, places, updates, *indices, result=result, gather="sum")
    made = at.step(total, updates, *indices, suffix="_added")
    if at.node.attributes.get("reduction") == "add":
        at.map("x0 + x1", data, made)
        return
    ones = at.each("0 * x0 + 1", updates, suffix="_ones")
    at.map("x1 if x2 > 0 else x0", data, made, at.step(total, ones, *indices, suffix="_hits"))


def _one_hot(at: Importer) -> None:
    """OneHot: one of two values, by comparing each index with each position."""
    depth, kind = at.constant(1).reshape(-1)[0], at.element_type(at.node.input(2))
    if not 1 <= depth < np.inf or at.shape(2, (kind,)) != (2,):
        raise at.wrong(f"depth {depth} and {at.shape(2, (kind,))} values, expected two of them")
    size = int(depth)
    index, shape = at.operand(0, EVERY_TYPE), at.shape(0, EVERY_TYPE)
    axis = at.axis(rank=len(shape) + 1)
    values = at.operand(2, (kind,))
    extents = (*shape[:axis], size, *shape[axis:])
    others = tuple(d for d in range(len(extents)) if d != axis)
    on, off = (access((2,), ((), place)) for place in (1, 0))
    floats = {"f32", "f64"} & {kind, at.builder.element_type(index)}
    names = index, _places(at, size), values, values
    op = at.define(
        extents, (straight(shape, others), straight((size,), (axis,)), on, off), *names,
        body=f"x2 if x0 == x1 or x0 + {size} == x1 else x3",
        computed="f64" if floats else "i64", to=kind,
    )  # fmt: skip
    at.emit(op, *names)


def _places(at: Importer, size: int) -> str:
    """The indices 0, 1, ... as a constant."""
    return at.held("places", at.numbered(size).astype(np.int32))


def _compress(at: Importer) -> None:
    """Compress: the slices, or elements of the flattened tensor, where a known condition holds."""
    line = "axis" not in at.node.attributes
    x = at.reshaped(at.operand(0), (int(np.prod(at.shape(0))),)) if line else at.operand(0)
    shape, axis = at.builder.shape(x), 0 if line else at.axis()
    places = np.flatnonzero(at.constant(1))
    if not places.size or places[-1] >= shape[axis]:
        raise at.wrong(f"takes no element, or others than the {shape[axis]} of its axis")
    index = at.held("places", places)
    at.emit(looked_up(at, shape, axis, x, index), x, index)


def _top(at: Importer) -> None:
    """TopK by rank: an element's rank is the number of elements of its row that precede it."""
    x, shape, axis = at.operand(0), at.shape(0), at.axis()
    k, rank, size = at.scalar(1) or at.node.integer("k"), len(shape), shape[axis]
    if not 0 < k <= size:
        raise at.wrong(f"k = {k} of {size} elements")
    places, beside = _places(at, size), straight((size,), (rank,))
    own, along = straight(shape), straight((size,), (axis,))
    other = straight(shape, tuple(rank if d == axis else d for d in range(rank)))
    sign = ">" if at.node.attributes.get("largest", 1) else "<"
    counted, every = at.dtype if at.is_float else F64.name, straight((*shape, size))
    compared = at.dtype if at.is_float or dtype(at.dtype).size_bytes > I32.size_bytes else I32.name
    names = (x, x, places, places)
    before = at.define(every.shape, (own, other, along, beside), *names,
                       body=f"1 if x1 {sign} x0 or (x1 == x0 and x3 < x2) else 0",
                       computed=compared)  # fmt: skip
    each = at.step(before, *names, suffix="_before")
    if counted != compared:
        each = at.step(converting(every.shape, compared, counted), each)
    total = Definition(every.shape, own, (every,), gather="sum", dtype=counted)
    wanted = tuple(k if d == axis else n for d, n in enumerate(shape))
    ranked = (at.step(total, each, suffix="_ranks"), _places(at, k), places)
    hit = at.define(
        (*wanted, size), (other, straight((k,), (axis,)), beside), *ranked, gather="max",
        result=straight(wanted), body="x2 if x0 == x1 else -1", computed=counted,
    )  # fmt: skip
    index = at.step(hit, *ranked, suffix="_place")
    op = converting(wanted, counted, "i64")
    places_at = (*at.node.outputs, "")[1] or at.builder.fresh("places")
    at.give(places_at, op, index, suffix="_index")
    if at.node.outputs[0]:
        source = _named_along(at, axis)
        at.emit(at.define(wanted, (source, straight(wanted)), x, places_at), x, places_at)


def _triangle(at: Importer) -> None:
    """Trilu: the elements above or below a diagonal, all others zero."""
    shape, rank = at.shape(0), len(at.shape(0))
    if rank < 2 or shape[-2] * shape[-1] > 1 << 28:
        raise at.wrong(f"takes matrices of at most {1 << 28} elements, found {shape}")
    kept = np.triu if at.node.flag("upper") else np.tril
    k = max(-(1 << 31), min(at.scalar(1), 1 << 31))
    names = at.operand(0), at.held("kept", kept(np.ones(shape[-2:], np.bool_), k))
    places = (straight(shape), straight(shape[-2:], (rank - 2, rank - 1)))
    at.emit(at.define(shape, places, *names, body="x0 if x1 else 0"), *names)


def _fourier(at: Importer) -> None:
    """DFT: a product with roots of unity; the last axis holds real and imaginary parts."""
    shape, later = at.shape(0), at.node.version >= 20
    axis = at.axis(at.scalar(2, -2) if later else None)
    size, parts = shape[axis], shape[-1]
    length, half = at.scalar(1, size), at.node.flag("onesided")
    if parts > _COMPLEX or axis == len(shape) - 1 or length < 1:
        raise at.wrong("takes signals of real or complex numbers")
    count = length // 2 + 1 if half else length
    if count * size > _MOST_ROOTS:
        raise at.wrong(f"takes {count} x {size} roots of unity, at most {_MOST_ROOTS}")
    turns = np.outer(np.arange(count), np.arange(min(size, length)))
    roots = np.exp(-2j * np.pi * turns / length)
    roots = np.pad(roots, ((0, 0), (0, size - roots.shape[1])))
    real = np.stack([roots.real, roots.imag], -1)
    weights = np.stack([real, np.stack([-roots.imag, roots.real], -1)], -2)[:, :, :parts]
    letters = "abcdefgh"[: len(shape) - 1]
    equation = f"{letters}x,k{letters[axis]}xy->{letters.replace(letters[axis], 'k')}y"
    op = einsum(equation, [shape, weights.shape], dtype=at.dtype)
    at.emit(op, at.operand(0), at.held("roots", weights))


READ = (
    Operator("Compress", _compress, "any", known="condition"),
    Operator("DFT", _fourier, known="dft_length axis", only={"inverse": (0,)}),
    Operator("Gather", _gather, "any"),
    Operator("GatherElements", _gather_elements, "any"),
    Operator("GatherND", _gather_nd, "any"),
    Operator("OneHot", _one_hot, "any", known="depth"),
    Operator("ScatterElements", _scatter_elements, "number", only={"reduction": ("none", "add")}),
    Operator("ScatterND", _scatter_nd, "number", only={"reduction": ("none", "add")}),
    Operator("TopK", _top, "number", known="K", many=True),
    Operator("Trilu", _triangle, "any", known="k"),
)
