"""ONNX's operators on places: elements that others name, tiles, parts, triangles, one hot."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.common.dtypes import F64, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import (
    Importer,
    broadcast_shape,
    converting,
    types_text,
)
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Reshape, Slice
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.einsum import einsum
from tilewright.ops.op import Shape

_COMPLEX = 2
_INDICES = ("i32", "i64")
_ANY = Input("X", elements="any")


def _indices(importer: Importer, node: OnnxNode, number: int, size: int) -> str:
    """Places counted from the front; those known that lie outside are refused."""
    name = importer.operand(node, number, _INDICES)
    if name in importer.constants:
        numbers = importer.constants[name]
        if ((numbers < -size) | (numbers >= size)).any():
            raise GraphError(f"{node.title()}: an index is outside -{size}..{size - 1}")
        if (numbers >= 0).all():
            return name
        front = importer.new_constant(
            f"{name}/places", np.where(numbers < 0, numbers + size, numbers)
        )
        return importer.use(front, node.title(), _INDICES)
    kind = importer.builder.element_type(name)
    op = importer.mapped(f"x0 + {size} if x0 < 0 else x0", name, computed=kind)
    return importer.step(node, op, name, suffix=f"_places{number}")


def _named_along(shape: Shape, axis: int) -> Access:
    """Places that operand 1 names along an axis, and that the axes give along the others."""
    terms = tuple(() if d == axis else ((d, 1),) for d in range(len(shape)))
    read = tuple(1 if d == axis else None for d in range(len(shape)))
    return Access(shape, terms, (0,) * len(shape), None, read)


def _looked_up(
    importer: Importer, node: OnnxNode, table: Access, index: Access, extents: Shape,
    names: tuple[str, str],
) -> None:  # fmt: skip
    kinds = [importer.builder.element_type(name) for name in names]
    types = types_text(kinds, importer.dtype, importer.dtype)
    op = Definition(extents, straight(extents), (table, index), "x0", None, "x0", types)
    importer.emit(node, op, *names)


def _gather(importer: Importer, node: OnnxNode) -> None:
    """Slices along an axis."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    index = _indices(importer, node, 1, shape[axis])
    own = importer.builder.shape(index)
    extents = (*shape[:axis], *own, *shape[axis + 1 :])
    behind = len(own) - 1
    terms = tuple(
        () if d == axis else ((d if d < axis else d + behind, 1),) for d in range(len(shape))
    )
    read = tuple(1 if d == axis else None for d in range(len(shape)))
    table = Access(shape, terms, (0,) * len(shape), None, read)
    places = straight(own, tuple(range(axis, axis + len(own))))
    _looked_up(importer, node, table, places, extents, (x, index))


def _gather_elements(importer: Importer, node: OnnxNode) -> None:
    """An element of a line for each index."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    index = _indices(importer, node, 1, shape[axis])
    extents = importer.builder.shape(index)
    _looked_up(importer, node, _named_along(shape, axis), straight(extents), extents, (x, index))


def _one_hot(importer: Importer, node: OnnxNode) -> None:
    """One of two numbers, by comparing each index with each place."""
    depth = importer.constant(node, 1)
    size, kind = int(depth.reshape(-1)[0]), importer.element_type(node.input(2), node.title())
    name = node.input(0)
    own = importer.element_type(name, node.title())
    index, shape = importer.operand(node, 0, (own,)), importer.shape(node, 0, (own,))
    axis = importer.axis(node, node.integer("axis"), len(shape) + 1)
    places = _places(importer, node, size)
    values = importer.operand(node, 2, (kind,))
    extents = (*shape[:axis], size, *shape[axis:])
    others = tuple(d for d in range(len(extents)) if d != axis)
    accesses = (
        straight(shape, others), straight((size,), (axis,)),
        Access((2,), ((),), (1,)), Access((2,), ((),), (0,)),
    )  # fmt: skip
    floats = kind in ("f32", "f64") or own in ("f32", "f64")
    computed = "f64" if floats else "i64"
    types = types_text([own, "i32", kind, kind], computed, kind)
    body = f"x2 if x0 == x1 or x0 + {size} == x1 else x3"
    op = Definition(extents, straight(extents), accesses, body, None, "x0", types)
    importer.emit(node, op, index, places, values, values)


def _places(importer: Importer, node: OnnxNode, size: int) -> str:
    """The numbers 0, 1, ... as a constant."""
    name = f"places of {size}"
    importer.constants.setdefault(name, np.arange(size, dtype=np.int32))
    return importer.use(name, node.title(), ("i32",))


def _compress(importer: Importer, node: OnnxNode) -> None:
    """The slices, or the elements of the whole, where a known condition holds."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    places = np.flatnonzero(importer.constant(node, 1))
    if not places.size:
        raise GraphError(f"{node.title()}: takes no element")
    if "axis" not in node.attributes:
        count = prod(shape)
        op = Reshape(shape, (count,), importer.dtype)
        x, shape, axis = importer.step(node, op, x, suffix="_line"), (count,), 0
    else:
        axis = importer.axis(node, node.integer("axis"), len(shape))
    name = importer.new_constant(f"{node.output()}/places", places.astype(np.int64))
    index = importer.use(name, node.title(), _INDICES)
    extents = tuple(places.size if d == axis else n for d, n in enumerate(shape))
    table = _named_along(shape, axis)
    _looked_up(importer, node, table, straight((places.size,), (axis,)), extents, (x, index))


def _expand(importer: Importer, node: OnnxNode) -> None:
    """Broadcast to a shape, or by it."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    wanted = broadcast_shape((shape, importer.integers(node, 1)))
    own = (1,) * (len(wanted) - len(shape))
    terms = tuple(((len(own) + d, 1),) if n > 1 else () for d, n in enumerate(shape))
    source = Access(shape, terms, (0,) * len(shape))
    importer.emit(node, _moved(importer, wanted, source), x)


def _moved(importer: Importer, extents: Shape, source: Access) -> Definition:
    return Definition(extents, straight(extents), (source,), "x0", None, "x0", importer.dtype)


def _tile(importer: Importer, node: OnnxNode) -> None:
    """Copies side by side: an axis over the copies and one over the elements."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    if node.version < 6:
        raise GraphError(f"{node.title()}: is read from operator set 6 on")
    repeats = importer.integers(node, 1)
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise GraphError(f"{node.title()}: {repeats} repeats of {len(shape)} dimensions")
    extents = tuple(n for pair in zip(repeats, shape, strict=True) for n in pair)
    whole = tuple(r * n for r, n in zip(repeats, shape, strict=True))
    terms = tuple(((2 * d, n), (2 * d + 1, 1)) for d, n in enumerate(shape))
    result = Access(whole, terms, (0,) * len(shape))
    source = straight(shape, tuple(2 * d + 1 for d in range(len(shape))))
    op = Definition(extents, result, (source,), "x0", None, "x0", importer.dtype)
    importer.emit(node, op, x)


def _split(importer: Importer, node: OnnxNode) -> None:
    """Parts along an axis, each an output."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    parts = len(node.outputs)
    if node.has_input(1):
        sizes: Sequence[int] = importer.integers(node, 1)
    elif "split" in node.attributes:
        sizes = node.integers("split")
    else:
        each = -(-shape[axis] // parts)
        sizes = [min(each, shape[axis] - i * each) for i in range(parts)]
    if len(sizes) != parts or sum(sizes) != shape[axis] or min(sizes) < 0:
        raise GraphError(
            f"{node.title()}: parts of {tuple(sizes)} are not the {shape[axis]} elements of axis "
            f"{axis}"
        )
    at = 0
    for number, (size, output) in enumerate(zip(sizes, node.outputs, strict=True)):
        start = tuple(at if d == axis else 0 for d in range(len(shape)))
        counts = tuple(size if d == axis else n for d, n in enumerate(shape))
        if output and not size:
            kind = dtype(importer.dtype).numpy
            importer.constants[output] = np.zeros(counts, kind)
        elif output:
            op = Slice(shape, start, counts, (1,) * len(shape), importer.dtype)
            importer.give(output, node, op, x, suffix=f"_{number}")
        at += size


def _scatter_elements(importer: Importer, node: OnnxNode) -> None:
    """Updates at the places along an axis that indices name."""
    shape = importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    index = _indices(importer, node, 1, shape[axis])
    extents = importer.builder.shape(index)
    result = _named_along(shape, axis)
    _scattered(importer, node, result, extents, (straight(extents), straight(extents)), (index,))


def _scatter_nd(importer: Importer, node: OnnxNode) -> None:
    """Slices of updates at the places that the last axis of the indices names."""
    shape = importer.shape(node, 0)
    outer, names = _parts_of(importer, node, 0)
    count = len(names)
    extents = (*outer, *shape[count:])
    read = tuple(d + 1 if d < count else None for d in range(len(shape)))
    terms = tuple(
        () if k is not None else ((len(outer) + d - count, 1),) for d, k in enumerate(read)
    )
    result = Access(shape, terms, (0,) * len(shape), None, read)
    index = straight(outer, tuple(range(len(outer))))
    accesses = (straight(extents), *(index,) * count)
    _scattered(importer, node, result, extents, accesses, names)


def _scattered(
    importer: Importer, node: OnnxNode, result: Access, extents: Shape,
    accesses: tuple[Access, ...], indices: tuple[str, ...],
) -> None:  # fmt: skip
    """The data with what is added there, or that in its place where anything was."""
    adds = "reduction" in node.attributes and node.text("reduction") == "add"
    data, updates = importer.operand(node, 0), importer.operand(node, 2)
    kinds = [importer.builder.element_type(name) for name in indices]
    types = types_text([importer.dtype, *kinds], importer.dtype, importer.dtype)
    total = Definition(extents, result, accesses, "x0", "sum", "x0", types)
    made = importer.step(node, total, updates, *indices, suffix="_added")
    if adds:
        importer.emit(node, importer.mapped("x0 + x1", data, made), data, made)
        return
    ones = importer.step(node, importer.mapped("0 * x0 + 1", updates), updates, suffix="_ones")
    hits = importer.step(node, total, ones, *indices, suffix="_hits")
    op = importer.mapped("x1 if x2 > 0 else x0", data, made, hits)
    importer.emit(node, op, data, made, hits)


def _top(importer: Importer, node: OnnxNode) -> None:
    """The elements of the lowest ranks: how many are before each in its row is its rank."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    rank = len(shape)
    axis = importer.axis(node, node.integer("axis"), rank)
    k = node.integer("k") if "k" in node.attributes else int(importer.constant(node, 1).item())
    if not 0 < k <= shape[axis]:
        raise GraphError(f"{node.title()}: k = {k} of {shape[axis]} elements")
    largest = "largest" not in node.attributes or bool(node.integer("largest"))
    places = _places(importer, node, shape[axis])
    own, along = straight(shape), straight((shape[axis],), (axis,))
    other = straight(shape, tuple(rank if d == axis else d for d in range(rank)))
    beside = straight((shape[axis],), (rank,))
    sign, extents = (">" if largest else "<"), (*shape, shape[axis])
    body = f"1 if x1 {sign} x0 or (x1 == x0 and x3 < x2) else 0"
    counted = importer.dtype if importer.is_float else F64.name
    types = types_text([importer.dtype] * 2 + ["i32"] * 2, importer.dtype, importer.dtype)
    before = Definition(extents, straight(extents), (own, other, along, beside), body, dtype=types)
    each = importer.step(node, before, x, x, places, places, suffix="_before")
    if counted != importer.dtype:
        each = importer.step(node, converting(extents, importer.dtype, counted), each)
    total = Definition(extents, own, (straight(extents),), "x0", "sum", "x0", counted)
    ranks = importer.step(node, total, each, suffix="_ranks")
    wanted = tuple(k if d == axis else n for d, n in enumerate(shape))
    steps = (*wanted, shape[axis])
    types = types_text([counted, "i32", "i32"], counted, counted)
    hit = Definition(steps, straight(steps), (other, straight((k,), (axis,)),
                     beside), "x2 if x0 == x1 else -1", dtype=types)  # fmt: skip
    hits = importer.step(node, hit, ranks, _places(importer, node, k), places, suffix="_hits")
    one = straight(wanted, tuple(range(rank)))
    place = Definition(steps, one, (straight(steps),), "x0", "max", "x0", counted)
    index = importer.step(node, place, hits, suffix="_place")
    op = converting(wanted, counted, "i64")
    if len(node.outputs) > 1 and node.outputs[1]:
        importer.give(node.outputs[1], node, op, index, suffix="_index")
        index = node.outputs[1]
    else:
        index = importer.step(node, op, index, suffix="_index")
    if node.outputs[0]:
        table = _named_along(shape, axis)
        _looked_up(importer, node, table, straight(wanted), wanted, (x, index))


def _triangle(importer: Importer, node: OnnxNode) -> None:
    """Elements above or below a diagonal, the rest zero: rows and columns are compared."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    k = int(importer.constant(node, 1).reshape(-1)[0]) if node.has_input(1) else 0
    kept = np.triu if node.integer("upper") else np.tril
    mask = kept(np.ones(shape[-2:], np.bool_), max(-(1 << 31), min(k, 1 << 31)))
    name = importer.use(
        importer.new_constant(f"{node.output()}/kept", mask), node.title(), ("bool",)
    )
    rank = len(shape)
    places = (straight(shape), straight(shape[-2:], (rank - 2, rank - 1)))
    types = types_text([importer.dtype, "bool"], importer.dtype, importer.dtype)
    op = Definition(shape, straight(shape), places, "x0 if x1 else 0", None, "x0", types)
    importer.emit(node, op, x, name)


def _depth_to_space(importer: Importer, node: OnnxNode) -> None:
    """Channels of a block become pixels."""
    batch, channels, height, width = importer.images(node)
    block, x = node.integer("blocksize"), importer.operand(node, 0)
    deep = channels // block**2
    if block < 1 or deep * block**2 != channels:
        raise GraphError(f"{node.title()}: {channels} channels are no blocks of {block} x {block}")
    n, i, r, c, u, v = range(6)
    extents = (batch, deep, height, width, block, block)
    by_columns = "mode" not in node.attributes or node.text("mode") == "DCR"
    depth = ((u, block * deep), (v, deep), (i, 1)) if by_columns else (
        (i, block * block), (u, block), (v, 1))  # fmt: skip
    source = Access((batch, channels, height, width), (((n, 1),), depth, ((r, 1),), ((c, 1),)),
                    (0,) * 4)  # fmt: skip
    whole = (batch, deep, height * block, width * block)
    rows, columns = ((r, block), (u, 1)), ((c, block), (v, 1))
    result = Access(whole, (((n, 1),), ((i, 1),), rows, columns), (0,) * 4)
    importer.emit(node, Definition(extents, result, (source,), dtype=importer.dtype), x)


def _fourier(importer: Importer, node: OnnxNode) -> None:
    """A product with the roots of unity: real and imaginary parts lie along the last axis."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = node.integer("axis") if node.version < 20 else -2
    if node.version >= 20 and node.has_input(2):
        axis = int(importer.constant(node, 2).item())
    axis = importer.axis(node, axis, len(shape))
    size, parts = shape[axis], shape[-1]
    length = int(importer.constant(node, 1).item()) if node.has_input(1) else size
    half = bool(node.integer("onesided"))
    if parts > _COMPLEX or axis == len(shape) - 1:
        raise GraphError(f"{node.title()}: takes signals of real or complex numbers")
    count = length // 2 + 1 if half else length
    turns = np.outer(np.arange(count), np.arange(min(size, length)))
    roots = np.exp(-2j * np.pi * turns / length)
    roots = np.pad(roots, ((0, 0), (0, size - roots.shape[1])))
    real = np.stack([roots.real, roots.imag], -1)
    weights = np.stack([real, np.stack([-roots.imag, roots.real], -1)], -2)[:, :, :parts]
    kind = dtype(importer.file_dtype).numpy
    name = importer.new_constant(f"{node.output()}/roots", weights.astype(kind))
    letters = "abcdefgh"[: len(shape) - 1]
    result = letters.replace(letters[axis], "k")
    op = einsum(f"{letters}x,k{letters[axis]}xy->{result}y", [shape, weights.shape],
                dtype=importer.dtype)  # fmt: skip
    importer.emit(node, op, x, importer.use(name, node.title()))


def _parts_of(importer: Importer, node: OnnxNode, batch: int) -> tuple[Shape, tuple[str, ...]]:
    """(extents, tensors) of the places that the last axis of indices holds, from the front."""
    index, shape = importer.operand(node, 1, _INDICES), importer.shape(node, 0)
    own, kind = importer.builder.shape(index), importer.builder.element_type(index)
    count, outer = own[-1], own[:-1]
    names = []
    for k in range(count):
        cut = Slice(own, (*(0,) * len(outer), k), (*outer, 1), (1,) * len(own), kind)
        part = importer.step(node, cut, index, suffix=f"_part{k}")
        size = shape[batch + k]
        op = importer.mapped(f"x0 + {size} if x0 < 0 else x0", part, computed=kind)
        front = importer.step(node, op, part, suffix=f"_front{k}")
        names.append(_reshaped_like(importer, node, front, outer))
    return outer, tuple(names)


def _gather_nd(importer: Importer, node: OnnxNode) -> None:
    """Slices whose first places the last axis of the indices names, batch by batch."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    batch = node.integer("batch_dims") if "batch_dims" in node.attributes else 0
    outer, names = _parts_of(importer, node, batch)
    count = len(names)
    kind = importer.builder.element_type(names[0])
    extents = (*outer, *shape[batch + count :])
    read = tuple(d - batch + 1 if batch <= d < batch + count else None for d in range(len(shape)))
    terms = tuple(
        () if k is not None else ((d if d < batch else len(outer) + d - batch - count, 1),)
        for d, k in enumerate(read)
    )
    table = Access(shape, terms, (0,) * len(shape), None, read)
    indices = tuple(straight(outer, tuple(range(len(outer)))) for _ in names)
    types = types_text([importer.dtype, *[kind] * count], importer.dtype, importer.dtype)
    op = Definition(extents, straight(extents), (table, *indices), "x0", None, "x0", types)
    importer.emit(node, op, x, *names)


def _reshaped_like(importer: Importer, node: OnnxNode, x: str, shape: Shape) -> str:
    op = Reshape(importer.builder.shape(x), shape, importer.builder.element_type(x))
    return importer.step(node, op, x, suffix="_shaped")


def _constants(*names: str, since: int = 1, optional: bool = False) -> tuple[Input, ...]:
    return tuple(
        Input(name, "constant", "integer", optional=optional, since=since) for name in names
    )


_TYPES = (13, 21, 23, 24, 25)

PLACES = (
    Operator(
        "Compress",
        (9, 11, 28),
        (_ANY, Input("condition", "constant", "bool")),
        (Attribute("axis", "integer"),),
        _compress,
    ),
    Operator(
        "DFT",
        (17, 20),
        (
            Input("input"),
            *_constants("dft_length", optional=True),
            *_constants("axis", since=20, optional=True),
        ),
        (
            Attribute("axis", "integer", 1, until=19),
            Attribute("inverse", "integer", 0, (0,)),
            Attribute("onesided", "integer", 0, (0, 1)),
        ),
        _fourier,
    ),
    Operator(
        "DepthToSpace",
        (1, 11, 13, 28),
        (_ANY,),
        (
            Attribute("blocksize", "integer", required=True),
            Attribute("mode", "text", "DCR", ("DCR", "CRD"), since=11),
        ),
        _depth_to_space,
    ),
    Operator("Expand", (8, 13), (_ANY, *_constants("shape")), (), _expand),
    Operator(
        "Gather",
        (1, 11, 13),
        (_ANY, Input("indices", elements="integer")),
        (Attribute("axis", "integer", 0),),
        _gather,
    ),
    Operator(
        "GatherElements",
        (11, 13),
        (_ANY, Input("indices", elements="integer")),
        (Attribute("axis", "integer", 0),),
        _gather_elements,
    ),
    Operator(
        "GatherND",
        (11, 12, 13),
        (_ANY, Input("indices", elements="integer")),
        (Attribute("batch_dims", "integer", 0, since=12),),
        _gather_nd,
    ),
    Operator(
        "OneHot",
        (9, 11, 28),
        (
            Input("indices", elements="any"),
            Input("depth", "constant", "any"),
            Input("values", elements="any"),
        ),
        (Attribute("axis", "integer", -1),),
        _one_hot,
    ),
    Operator(
        "ScatterElements",
        (11, 13, 16, 18),
        (
            Input("data", elements="number"),
            Input("indices", elements="integer"),
            Input("updates", elements="number"),
        ),
        (
            Attribute("axis", "integer", 0),
            Attribute("reduction", "text", "none", ("none", "add"), since=16),
        ),
        _scatter_elements,
    ),
    Operator(
        "ScatterND",
        (11, 13, 16, 18),
        (
            Input("data", elements="number"),
            Input("indices", elements="integer"),
            Input("updates", elements="number"),
        ),
        (Attribute("reduction", "text", "none", ("none", "add"), since=16),),
        _scatter_nd,
    ),
    Operator(
        "Split",
        (1, 2, 11, 13, 18),
        (
            _ANY,
            Input("split", "constant", "integer", optional=True, until=1),
            *_constants("split", since=13, optional=True),
        ),
        (
            Attribute("axis", "integer", 0),
            Attribute("split", "integers", until=12),
            Attribute("num_outputs", "integer", since=18),
        ),
        _split,
        many=True,
    ),
    Operator(
        "Tile",
        (1, 6, 13),
        (
            _ANY,
            Input("tiles", "constant", "any", until=5),
            Input("axis", "constant", "any", until=5),
            *_constants("repeats", since=6),
        ),
        (),
        _tile,
        limits="from version 6 on",
    ),
    Operator(
        "TopK",
        (1, 10, 11, 24),
        (Input("X", elements="number"), *_constants("K", since=10)),
        (
            Attribute("axis", "integer", -1),
            Attribute("k", "integer", required=True, until=9),
            Attribute("largest", "integer", 1, (0, 1), since=11),
            Attribute("sorted", "integer", 1, (0, 1), since=11),
        ),
        _top,
        many=True,
    ),
    Operator(
        "Trilu",
        (14,),
        (_ANY, *_constants("k", optional=True)),
        (Attribute("upper", "integer", 1, (0, 1)),),
        _triangle,
    ),
)
