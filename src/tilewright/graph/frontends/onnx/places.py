"""ONNX's operators on places: elements that others name, tiles, parts, triangles, one hot."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import Importer, types_text
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.typed import TYPES
from tilewright.ops import Reshape, Slice
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.op import Shape

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
    terms = tuple(() if d == axis else ((d, 1),) for d in range(len(shape)))
    read = tuple(1 if d == axis else None for d in range(len(shape)))
    table = Access(shape, terms, (0,) * len(shape), None, read)
    _looked_up(importer, node, table, straight(extents), extents, (x, index))


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


def _expand(importer: Importer, node: OnnxNode) -> None:
    """Broadcast to a shape, or by it."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    wanted = np.broadcast_shapes(shape, importer.integers(node, 1))
    own = (1,) * (len(wanted) - len(shape))
    terms = tuple(((len(own) + d, 1),) if n > 1 else () for d, n in enumerate(shape))
    source = Access(shape, terms, (0,) * len(shape))
    importer.emit(node, _moved(importer, wanted, source), x)


def _moved(importer: Importer, extents: Shape, source: Access) -> Definition:
    return Definition(extents, straight(extents), (source,), "x0", None, "x0", importer.dtype)


def _tile(importer: Importer, node: OnnxNode) -> None:
    """Copies side by side: an axis over the copies and one over the elements."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
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
    if len(sizes) != parts or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise GraphError(
            f"{node.title()}: parts of {tuple(sizes)} are not the {shape[axis]} elements of axis "
            f"{axis}"
        )
    at = 0
    for number, (size, output) in enumerate(zip(sizes, node.outputs, strict=True)):
        start = tuple(at if d == axis else 0 for d in range(len(shape)))
        counts = tuple(size if d == axis else n for d, n in enumerate(shape))
        op = Slice(shape, start, counts, (1,) * len(shape), importer.dtype)
        if output:
            importer.give(output, node, op, x, suffix=f"_{number}")
        at += size


def _triangle(importer: Importer, node: OnnxNode) -> None:
    """What lies above or below a diagonal, the rest zero: rows and columns are compared."""
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
    by_columns = node.text("mode") == "DCR"
    depth = ((u, block * deep), (v, deep), (i, 1)) if by_columns else (
        (i, block * block), (u, block), (v, 1))  # fmt: skip
    source = Access((batch, channels, height, width), (((n, 1),), depth, ((r, 1),), ((c, 1),)),
                    (0,) * 4)  # fmt: skip
    whole = (batch, deep, height * block, width * block)
    rows, columns = ((r, block), (u, 1)), ((c, block), (v, 1))
    result = Access(whole, (((n, 1),), ((i, 1),), rows, columns), (0,) * 4)
    importer.emit(node, Definition(extents, result, (source,), dtype=importer.dtype), x)


def _constant_of_shape(importer: Importer, node: OnnxNode) -> None:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    numbers = np.full(importer.integers(node, 0), np.asarray(value).reshape(-1)[0])
    _as_constant(importer, node, numbers)


def _range(importer: Importer, node: OnnxNode) -> None:
    start, limit, delta = (importer.constant(node, i).reshape(-1)[0] for i in range(3))
    _as_constant(importer, node, np.arange(start, limit, delta, dtype=start.dtype))


def _eye_like(importer: Importer, node: OnnxNode) -> None:
    """Ones on a diagonal, in the type of the operand or one that is named."""
    name = node.input(0)
    kind = importer.element_type(name, node.title())
    rows, columns = importer.shape(node, 0, (kind,))
    if "dtype" in node.attributes:
        kind = TYPES.get(node.integer("dtype"), "")
    if not kind:
        raise GraphError(f"{node.title()}: dtype = {node.integer('dtype')} is not supported")
    _as_constant(importer, node, np.eye(rows, columns, node.integer("k"), dtype(kind).numpy))


def _gather_nd(importer: Importer, node: OnnxNode) -> None:
    """Slices whose first places the last axis of the indices names, batch by batch."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    batch = node.integer("batch_dims") if "batch_dims" in node.attributes else 0
    index = importer.operand(node, 1, _INDICES)
    own, kind = importer.builder.shape(index), importer.builder.element_type(index)
    count, outer = own[-1], own[:-1]
    names = []
    for k in range(count):
        start = (*(0,) * len(outer), k)
        cut = Slice(own, start, (*outer, 1), (1,) * len(own), kind)
        part = importer.step(node, cut, index, suffix=f"_part{k}")
        size = shape[batch + k]
        op = importer.mapped(f"x0 + {size} if x0 < 0 else x0", part, computed=kind)
        front = importer.step(node, op, part, suffix=f"_front{k}")
        names.append(_reshaped_like(importer, node, front, outer))
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


def _size(importer: Importer, node: OnnxNode) -> None:
    count = prod(importer.builder.shape(importer.operand(node, 0)))
    _as_constant(importer, node, np.array(count, np.int64))


def _as_constant(importer: Importer, node: OnnxNode, numbers: np.ndarray) -> None:
    """Numbers that are known as the output."""
    importer.constants[node.output()] = numbers


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
        "ConstantOfShape",
        (9, 20, 21, 23, 24, 25),
        _constants("input"),
        (Attribute("value", "tensor"),),
        _constant_of_shape,
    ),
    Operator(
        "DepthToSpace",
        (1, 11, 13, 28),
        (_ANY,),
        (
            Attribute("blocksize", "integer", required=True),
            Attribute("mode", "text", "DCR", ("DCR", "CRD")),
        ),
        _depth_to_space,
    ),
    Operator(
        "EyeLike",
        (9, 22),
        (Input("input", elements="any"),),
        (Attribute("dtype", "integer"), Attribute("k", "integer", 0)),
        _eye_like,
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
        (9, 11),
        (
            Input("indices", elements="any"),
            Input("depth", "constant", "any"),
            Input("values", elements="any"),
        ),
        (Attribute("axis", "integer", -1),),
        _one_hot,
    ),
    Operator(
        "Range",
        (11, 27),
        (
            Input("start", "constant", "number"),
            Input("limit", "constant", "number"),
            Input("delta", "constant", "number"),
        ),
        (Attribute("stash_type", "integer", since=27),),
        _range,
    ),
    Operator("Size", _TYPES, (_ANY,), (), _size),
    Operator(
        "Split",
        (1, 2, 11, 13, 18),
        (_ANY, *_constants("split", since=13, optional=True)),
        (
            Attribute("axis", "integer", 0),
            Attribute("split", "integers", until=12),
            Attribute("num_outputs", "integer", since=18),
        ),
        _split,
        many=True,
    ),
    Operator("Tile", (6, 13), (_ANY, *_constants("repeats")), (), _tile),
    Operator(
        "Trilu",
        (14,),
        (_ANY, *_constants("k", optional=True)),
        (Attribute("upper", "integer", 1, (0, 1)),),
        _triangle,
    ),
)
