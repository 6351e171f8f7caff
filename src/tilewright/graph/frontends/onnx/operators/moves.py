"""ONNX's operators that move a tensor's elements or name its shape; most also on constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.graph.frontends.onnx import fold
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer, broadcast_shape
from tilewright.graph.frontends.onnx.operators.windows import IMAGES
from tilewright.graph.frontends.onnx.shapes import reshaped
from tilewright.ops import Concat, Pad, Slice, SpaceToDepth, Transpose, flatten
from tilewright.ops.access import Access, broadcast, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Place, access, along, assembled
from tilewright.ops.op import Op, Shape

_MOST_TURNS = 64
"""Border per axis, in lengths of the axis, beyond which padding uses a look-up instead of parts."""


def _flatten(at: Importer) -> None:
    shape, axis = at.shape(0), at.node.integer("axis")
    axis = axis if axis == len(shape) else at.axis()
    at.emit(flatten(shape, axis=axis, dtype=at.dtype), at.operand(0))


def _reshape(at: Importer) -> None:
    """Reshape; a batch size fixed by the file is replaced if another one was requested."""
    shape = at.shape(0)
    wanted = at.node.integers("shape") if at.node.version < 5 else at.integers(1)
    target = reshaped(at.node, shape, wanted)
    starts_with_batch = wanted[:1] == (at.file_batch,)
    if at.batch and starts_with_batch and prod(target) != prod(shape):
        target = reshaped(at.node, shape, (at.batch, *wanted[1:]))
    at.reshape(at.operand(0), target)


def _squeeze(at: Importer) -> None:
    shape = at.shape(0)
    axes = {at.axis(axis) for axis in at.axes()}
    if any(shape[axis] != 1 for axis in axes):
        raise at.wrong(f"an axis of {shape} to drop is longer than 1")
    dropped = axes or {axis for axis, extent in enumerate(shape) if extent == 1}
    at.reshape(at.operand(0), tuple(n for axis, n in enumerate(shape) if axis not in dropped))


def _unsqueeze(at: Importer) -> None:
    shape, given = at.shape(0), at.axes()
    rank = len(shape) + len(given)
    axes = {at.axis(axis, rank) for axis in given}
    if len(axes) < len(given):
        raise at.wrong(f"the axes {given} are not different ones")
    rest = iter(shape)
    at.reshape(at.operand(0), tuple(1 if a in axes else next(rest) for a in range(rank)))


def _concat(at: Importer) -> None:
    """Concatenation, without tensors that have no elements."""
    filled = [n for n in at.node.inputs if n not in at.constants or at.constants[n].size]
    operands = [at.use(name) for name in filled or at.node.inputs]
    shapes = tuple(at.builder.shape(name) for name in operands)
    at.emit(Concat(shapes, at.axis(rank=len(shapes[0])), at.dtype), *operands)


def _space_to_depth(at: Importer) -> None:
    op = SpaceToDepth(*at.images(), at.node.integer("blocksize"), at.dtype)
    at.emit(op, at.operand(0))


def _depth_to_space(at: Importer) -> None:
    """Turn the channels of each block into pixels."""
    batch, channels, height, width = shape = at.images()
    block = at.node.integer("blocksize")
    if block < 1 or channels % block**2:
        raise at.wrong(f"{channels} channels are no blocks of {block} x {block}")
    deep, (n, i, r, c, u, v) = channels // block**2, range(6)
    by_columns = at.node.attributes.get("mode", "DCR") == "DCR"
    steps = (block * deep, deep, 1) if by_columns else (block, 1, block * block)
    depth: Place = (tuple(zip((u, v, i), steps, strict=True)), 0)
    rows: Place = (((r, block), (u, 1)), 0)
    columns: Place = (((c, block), (v, 1)), 0)
    result = access((batch, deep, height * block, width * block), *along(n, i), rows, columns)
    source = access(shape, *along(n), depth, *along(r, c))
    extents = (batch, deep, height, width, block, block)
    at.emit(Definition(extents, result, (source,), dtype=at.dtype), at.operand(0))


def _transpose(at: Importer) -> None:
    shape = at.shape(0)
    order = at.node.integers("perm") or tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise at.wrong(f"perm = {order} does not order {len(shape)} dimensions")
    at.emit(Transpose(shape, order, at.dtype), at.operand(0))


def _expand(at: Importer) -> None:
    """Broadcast a tensor and a shape against each other."""
    wanted = broadcast_shape((at.shape(0), at.integers(1)))
    source = broadcast(at.shape(0), wanted)
    at.emit(Definition(wanted, straight(wanted), (source,), dtype=at.dtype), at.operand(0))


def _tile(at: Importer) -> None:
    """Repeat along each dimension, by an axis over the copies and one over the elements."""
    shape, repeats = at.shape(0), at.integers(1)
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise at.wrong(f"{repeats} repeats of {len(shape)} dimensions")
    extents = tuple(n for pair in zip(repeats, shape, strict=True) for n in pair)
    whole = tuple(r * n for r, n in zip(repeats, shape, strict=True))
    places = ((((2 * d, n), (2 * d + 1, 1)), 0) for d, n in enumerate(shape))
    source = straight(shape, tuple(range(1, 2 * len(shape), 2)))
    at.emit(Definition(extents, access(whole, *places), (source,), dtype=at.dtype), at.operand(0))


def _split(at: Importer) -> None:
    """Split along an axis into one output per part."""
    x, shape, axis, parts = at.operand(0), at.shape(0), at.axis(), len(at.node.outputs)
    each = -(-shape[axis] // parts)
    equal = [min(each, shape[axis] - i * each) for i in range(parts)]
    sizes = at.integers(1) or at.node.integers("split") or equal
    if len(sizes) != parts or sum(sizes) != shape[axis] or min(sizes) < 0:
        raise at.wrong(f"parts of {tuple(sizes)} are not the {shape[axis]} elements of axis {axis}")
    for number, (size, output) in enumerate(zip(sizes, at.node.outputs, strict=True)):
        start = tuple(sum(sizes[:number]) * (d == axis) for d in range(len(shape)))
        counts = tuple(size if d == axis else n for d, n in enumerate(shape))
        if output and not size:
            at.constants[output] = np.zeros(counts, dtype(at.dtype).numpy)
        elif output:
            at.give(output, Slice(shape, start, counts, (1,) * len(shape), at.dtype), x,
                    suffix=f"_{number}")  # fmt: skip


def _slice(at: Importer) -> None:
    """Slice by starts, ends, axes and steps; up to operator set 9 by attributes, without steps."""
    shape = at.shape(0)
    starts, ends, axes, steps = (
        at.node.integers(name) if at.node.version < 10 else at.integers(index)
        for index, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    axes, steps = axes or tuple(range(len(starts))), steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise at.wrong("starts, ends, axes and steps differ in their number")
    cuts = [range(n) for n in shape]
    for first, last, named, by in zip(starts, ends, axes, steps, strict=True):
        axis = at.axis(named)
        if not by:
            raise at.wrong(f"a step of 0 along axis {axis}")
        cuts[axis] = range(*slice(first, last, by).indices(shape[axis]))
    counts, step = tuple(map(len, cuts)), tuple(cut.step for cut in cuts)
    start = tuple(cut.start for cut in cuts)
    if not all(counts):
        if at.node.input(0) not in at.constants:
            raise at.wrong(f"takes no element along axis {counts.index(0)}")
        at.constants[at.node.output()] = np.zeros(counts, dtype(at.dtype).numpy)
        return
    if min(step, default=1) > 0:
        at.emit(Slice(shape, start, counts, step, at.dtype), at.operand(0))
    else:
        source = Access(shape, tuple(((d, by),) for d, by in enumerate(step)), start)
        at.emit(Definition(counts, straight(counts), (source,), dtype=at.dtype), at.operand(0))


def _pad(at: Importer) -> None:
    x, shape = at.operand(0), at.shape(0)
    rank, value, axes = len(shape), 0.0, range(len(shape))
    if at.node.version < 11:
        pads = at.node.integers("paddings" if at.node.version == 1 else "pads")
        value, named = at.node.number("value"), tuple(axes)
    else:
        pads = at.integers(1)
        if at.node.has_input(2):
            if at.constant(2).size != 1:
                raise at.wrong("constant_value must be a single number")
            value = float(at.constant(2).item())
        named = tuple(map(at.axis, at.integers(3))) if at.node.has_input(3) else tuple(axes)
    if len(pads) != 2 * len(named) or len(set(named)) < len(named):
        raise at.wrong(f"{len(pads)} pads do not fit {len(named)} dimensions")
    given = {d: pads[i :: len(named)] for i, d in enumerate(named)}
    before, after = ([given.get(d, (0, 0))[side] for d in axes] for side in (0, 1))
    if min(*before, *after, 0) < 0:
        start = tuple(max(0, -n) for n in before)
        counts = tuple(
            n + min(0, b) + min(0, a) for n, b, a in zip(shape, before, after, strict=True)
        )
        x = at.step(Slice(shape, start, counts, (1,) * rank, at.dtype), x, suffix="_cropped")
    before, after = ([max(0, n) for n in numbers] for numbers in (before, after))
    if at.node.text("mode") == "constant":
        at.emit(Pad(at.builder.shape(x), tuple(before), tuple(after), value, at.dtype), x)
    else:
        _continued(at, x, before, after)


def _continued(at: Importer, x: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Pad with a tensor's own elements, reflected, nearest or wrapped around, axis by axis. Each
    part writes its own elements.
    """
    padded = [d for d in range(len(before)) if before[d] or after[d]]
    for number, d in enumerate(padded or [0]):
        shape, operands = at.builder.shape(x), [x]
        mode: Any = at.node.text("mode")
        if mode != "edge" and before[d] + after[d] > _MOST_TURNS * shape[d]:
            places = np.pad(np.arange(shape[d]), (before[d], after[d]), mode)
            operands.append(at.held(f"places{d}", places))
            op: Op = looked_up(at, shape, d, *operands)
        else:
            parts = tuple(_parts(at, shape, d, before[d], after[d]))
            op = assembled(parts, [(0,)] * len(parts), at.dtype)
        if number + 1 < len(padded):
            x = at.step(op, *operands, suffix=f"_{d}")
        else:
            at.emit(op, *operands)


def looked_up(at: Importer, shape: Shape, axis: int, x: str, index: str) -> Definition:
    """Slices along an axis at the indices of a tensor."""
    own = at.builder.shape(index)
    behind = len(own) - 1
    axes = [None if d == axis else d + behind * (d > axis) for d in range(len(shape))]
    places = straight(own, tuple(range(axis, axis + len(own))))
    extents = (*shape[:axis], *own, *shape[axis + 1 :])
    return at.define(extents, (table(shape, axes), places), x, index)


def table(shape: Shape, axes: Sequence[int | None]) -> Access:
    """A tensor read along these axes; for each None, at indices from operands 1, 2, ..."""
    terms = tuple(() if axis is None else ((axis, 1),) for axis in axes)
    read = tuple(axes[:d].count(None) + 1 if a is None else None for d, a in enumerate(axes))
    return Access(shape, terms, (0,) * len(shape), None, read)


def _parts(at: Importer, shape: Shape, d: int, before: int, after: int) -> Iterator[Definition]:
    """Copies of the tensor itself, of its border before and of its border after, along `d`."""
    size, axes = shape[d], along(*range(len(shape)))
    whole = (*shape[:d], before + size + after, *shape[d + 1 :])
    for first, count in ((before, size), (0, before), (before + size, after)):
        done = 0
        while done < count:
            at_first = first + done
            start, step, run = _run(at.node.text("mode"), at_first - before, count - done, size)
            extents = (*shape[:d], run, *shape[d + 1 :])
            to = access(whole, *axes[:d], (((d, 1),), at_first), *axes[d + 1 :])
            of: Place = (((d, step),) if step else (), start)
            source = access(shape, *axes[:d], of, *axes[d + 1 :])
            yield Definition(extents, to, (source,), dtype=at.dtype)
            done += run


def _run(mode: str, at: int, count: int, size: int) -> tuple[int, int, int]:
    """The source element at a padded index, the step from there, and the length of that run."""
    if 0 <= at < size:
        return at, 1, size - at
    if mode == "edge":
        return (0 if at < 0 else size - 1), 0, count
    if mode == "wrap":
        start = at % size
        return start, 1, min(count, size - start)
    period = max(1, 2 * (size - 1))
    start = at % period
    if start >= size:  # in the reflected half
        start = period - start
        return start, -1, min(count, start)
    return start, 1 if size > 1 else 0, min(count, size - 1 - start) or 1


READ = (
    Operator("Concat", _concat, "any", usual={"axis": 1}),
    Operator(
        "Constant", fold=fold.constant,
        only={"sparse_value": None, "value_string": None, "value_strings": None},
    ),
    Operator("DepthToSpace", _depth_to_space, "any", only={"mode": ("DCR", "CRD")}),
    Operator("Expand", _expand, "any", known="shape"),
    Operator("Flatten", _flatten, "any"),
    Operator(
        "Pad", _pad, "any", known="pads constant_value axes",
        only={"mode": ("constant", "edge", "reflect", "wrap")},
    ),
    Operator("Reshape", _reshape, "any", known="shape"),
    Operator("Shape", fold=fold.shape, extents="data"),
    Operator("Slice", _slice, "any", known="starts ends axes steps"),
    Operator("SpaceToDepth", _space_to_depth, "any", only={"mode": ("DCR",)}, limits=IMAGES),
    Operator("Split", _split, "any", known="split", usual={"axis": 0}, many=True),
    Operator("Squeeze", _squeeze, "any", known="axes"),
    Operator("Tile", _tile, "any", known="repeats", since=6, limits="from version 6 on"),
    Operator("Transpose", _transpose, "any"),
    Operator("Unsqueeze", _unsqueeze, "any", known="axes"),
)  # fmt: skip
