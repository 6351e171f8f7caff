"""Reading ONNX files: bytes in, plain Python values out, then a network by `importing`.

Files are not trusted: every way in which a file can be wrong raises GraphError, and external data
is read only from below the file's own folder.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import ArrayLike, NDArray

from tilewright.common.errors import GraphError, InternalError, ShapeError
from tilewright.graph.frontends.onnx.check import checked
from tilewright.graph.frontends.onnx.declare import NAMED, TYPES
from tilewright.graph.frontends.onnx.functions import expanded_nodes
from tilewright.graph.frontends.onnx.importing import import_model
from tilewright.graph.frontends.onnx.model import (
    Extents,
    InputDeclaration,
    OnnxModel,
    OnnxNode,
    OutputDeclaration,
    Subgraph,
    Unread,
)
from tilewright.graph.frontends.onnx.operators import OPERATORS
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted, safe_name
from tilewright.graph.rewrites.fixed_point import FixedPoint, is_fixed
from tilewright.ops.op import Shape, show_shape

_EXTERNAL = onnx.TensorProto.EXTERNAL
_EXTERNAL_KEYS = {"location", "offset", "length", "checksum", "basepath"}
_LOG = logging.getLogger(__name__)


def load_onnx(
    path: str | Path,
    batch: int | None = None,
    dtype: str | None = None,
    shapes: Mapping[str, Shape] | None = None,
    values: Mapping[str, ArrayLike] | None = None,
) -> Network:
    """The network in the ONNX file at `path`.

    `batch` replaces the first extent of each input, `shapes` replaces whole shapes by input name,
    and `dtype` the element type of all floats, possibly by fixed-point types. `values` turns inputs
    into constants: numbers are converted to the type that the file declares, arrays must have it.
    Raises GraphError for a file that cannot be read, for all that is not supported in it (with the
    nodes), and for dimensions that it leaves open.
    """
    path = Path(path)
    try:
        fixed = FixedPoint(dtype) if dtype and ":" in dtype and is_fixed(dtype) else None
        kind = "f64" if fixed else dtype
        network = read_model(_parse(path), path, batch, kind, shapes, values)
        return replace(fixed.apply(network) if fixed else network, source=str(path))
    except (GraphError, InternalError) as error:
        raise error.at(str(path)) from error.__cause__
    except ShapeError as error:
        raise GraphError(str(error), where=str(path)) from None


def read_model(
    model: onnx.ModelProto,
    path: Path,
    batch: int | None = None,
    dtype: str | None = None,
    shapes: Mapping[str, Shape] | None = None,
    values: Mapping[str, ArrayLike] | None = None,
) -> Network:
    """A model's network, named after `path`, whose folder may hold its data; see `load_onnx`."""
    bound = _bound(model, values or {})
    plain = _plain(model, path.parent, bound)
    network = import_model(plain, safe_name(path.stem), batch, dtype, shapes or {})
    return replace(network, bound=bound)


def _parse(path: Path) -> onnx.ModelProto:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise GraphError("cannot be read: it is not a regular file")
        model = onnx.ModelProto()
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise GraphError(f"cannot be read: {error.strerror}") from None
    except DecodeError:
        raise GraphError("is not an ONNX model: its bytes cannot be decoded") from None
    if not model.HasField("graph"):
        raise GraphError("is not an ONNX model: it has no graph")
    if not model.graph.node:
        raise GraphError("the model computes nothing: its graph has no nodes")
    return model


def _plain(model: onnx.ModelProto, folder: Path, values: Mapping[str, NDArray[Any]]) -> OnnxModel:
    """`model` as plain values, with its numbers read and inputs bound to `values`."""
    try:
        stored = model.graph.initializer
        known = {item.name: item for item in map(_declaration, model.graph.input)}
        outputs = [
            OutputDeclaration(_text(value.name), _declared(value.type.tensor_type))
            for value in model.graph.output
        ]
        nodes = checked(
            [_node(node, folder) for node in expanded_nodes(model, _opset(model), OPERATORS)],
            _opset(model),
            {*values, *(_text(tensor.name) for tensor in stored)},
            [output.name for output in outputs],
        )
        return OnnxModel(
            inputs=list(known.values()),
            constants={_text(tensor.name): _numbers(tensor, folder) for tensor in stored}
            | dict(values),
            nodes=nodes,
            outputs=outputs,
        )
    except UnicodeDecodeError:
        raise _not_text() from None


def _bound(model: onnx.ModelProto, values: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """Values of inputs in their declared types. Raises GraphError for one that does not fit."""
    known = {item.name: item for item in map(_declaration, model.graph.input)} if values else {}
    found = {}
    for name, value in values.items():
        if name not in known:
            raise GraphError(
                f"a value is given for {quoted(name)}, which is not an input",
                fix=f"inputs: {', '.join(map(quoted, known))}",
            )
        found[name] = _fitting(known[name], value)
    return found


def _fitting(item: InputDeclaration, value: ArrayLike) -> NDArray[Any]:
    """A value in the declared type; numbers are converted if that is lossless."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise GraphError(f"the value of {quoted(item.name)} has rows of unequal length") from None
    kind = onnx.TensorProto.DataType.Value(item.dtype)
    extents = item.extents if item.extents is not None else array.shape
    if not isinstance(value, np.ndarray | np.generic) and kind in TYPES:
        array = _converted(array, onnx.helper.tensor_dtype_to_np_dtype(kind))
        array = array.reshape(1) if not array.ndim and len(extents) == 1 else array
    fits = len(extents) == array.ndim and all(
        not isinstance(a, int) or a == b for a, b in zip(extents, array.shape, strict=True)
    )
    if (
        not fits
        or array.dtype.hasobject
        or (onnx.helper.np_dtype_to_tensor_dtype(array.dtype) != kind)
    ):
        unnamed = {"O": "of no element type", "U": "of text", "S": "of text"}
        own_type = unnamed.get(array.dtype.kind, array.dtype)
        raise GraphError(
            f"the value of {quoted(item.name)} is {show_shape(array.shape)} {own_type}, the "
            f"file declares {'x'.join(str(e or '?') for e in extents) or 'scalar'} {item.dtype}"
        )
    return array


def _converted(array: NDArray[Any], own: np.dtype[Any]) -> NDArray[Any]:
    """Numbers in another type, or unchanged if it cannot represent one; floats are rounded."""
    if array.dtype.kind not in "biufc" or (array.dtype.kind == "b") > (own.kind == "b"):
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        found = array.astype(own)
    floats = own.kind not in "biu"
    kept = np.isfinite(array) == np.isfinite(found.astype(np.float64)) if floats else array == found
    return found if kept.all() else array


def _not_text() -> GraphError:
    return GraphError("is not an ONNX model: a name is not UTF-8 text")


def _text(name: str | bytes) -> str:
    """A name in the file. Raises GraphError for bytes, which stand for invalid text."""
    if isinstance(name, str):
        return name
    raise _not_text()


def _opset(model: onnx.ModelProto) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if len(versions) != 1:
        raise GraphError(f"expected one version of the ONNX operator set, found {len(versions)}")
    return int(versions[0])


def _declaration(value: onnx.ValueInfoProto) -> InputDeclaration:
    if not value.type.HasField("tensor_type"):
        raise GraphError(f"input {quoted(value.name)} is not a tensor")
    tensor = value.type.tensor_type
    return InputDeclaration(_text(value.name), _declared(tensor), _type_name(tensor.elem_type))


def _declared(tensor: onnx.TypeProto.Tensor) -> Extents | None:
    """Extents of the tensor; None if the file does not state their number."""
    return tuple(map(_extent, tensor.shape.dim)) if tensor.HasField("shape") else None


def _extent(dimension: onnx.TensorShapeProto.Dimension) -> int | str:
    """The extent; the name of an open one if it is missing or negative."""
    if dimension.HasField("dim_value") and dimension.dim_value >= 0:
        return int(dimension.dim_value)
    return _text(dimension.dim_param)


def _type_name(code: int) -> str:
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    return str(names.get(code, code))


def _element_type(code: int, what: str) -> str:
    if code not in TYPES:
        raise GraphError(
            f"{what} has the element type {_type_name(code)}",
            fix=f"supported are {', '.join(NAMED)}",
        )
    return TYPES[code]


def _node(node: onnx.NodeProto, folder: Path) -> OnnxNode:
    attributes = {_text(item.name): _attribute(item, folder) for item in node.attribute}
    return OnnxNode(
        kind=_text(node.op_type),
        domain="" if node.domain == "ai.onnx" else _text(node.domain),
        name=_text(node.name),
        inputs=tuple(map(_text, node.input)),
        outputs=tuple(map(_text, node.output)),
        attributes=attributes,
    )


def _attribute(item: onnx.AttributeProto, folder: Path) -> object:
    """Number, tuple of numbers, text, array or graph; `Unread` for kinds that no operator reads."""
    kinds = onnx.AttributeProto
    readers: dict[int, Callable[[], object]] = {
        kinds.INT: lambda: int(item.i),
        kinds.INTS: lambda: tuple(map(int, item.ints)),
        kinds.FLOAT: lambda: float(item.f),
        kinds.FLOATS: lambda: tuple(map(float, item.floats)),
        kinds.STRING: lambda: item.s.decode("utf-8"),
        kinds.STRINGS: lambda: tuple(text.decode("utf-8") for text in item.strings),
        kinds.TENSOR: lambda: _attribute_tensor(item.t, folder),
        kinds.GRAPH: lambda: _subgraph(item.g, folder),
    }
    if item.type not in readers:
        names = {number: name for name, number in kinds.AttributeType.items()}
        return Unread(f"a {names.get(item.type, 'value')}")
    return readers[item.type]()


def _subgraph(graph: onnx.GraphProto, folder: Path) -> Subgraph:
    """A branch with unique names: its tensors are prefixed with the name of its first output."""
    inputs, outputs = (tuple(_text(v.name) for v in part) for part in (graph.input, graph.output))
    nodes = tuple(_node(item, folder) for item in graph.node)
    constants = {_text(tensor.name): _numbers(tensor, folder) for tensor in graph.initializer}
    prefix = "/".join((_text(graph.name), *outputs[:1]))
    made = (name for node in nodes for name in node.outputs if name)
    names = {name: f"{prefix}/{name}" for name in (*inputs, *constants, *made)}
    return Subgraph(nodes, constants, inputs, outputs).renamed(names)


def _attribute_tensor(tensor: onnx.TensorProto, folder: Path) -> object:
    if tensor.data_type not in TYPES:
        return Unread(f"a tensor of {_type_name(tensor.data_type)}")
    return _numbers(tensor, folder)


def _numbers(tensor: onnx.TensorProto, folder: Path) -> NDArray[Any]:
    """The values of a stored tensor, external data included."""
    what = f"the stored tensor {quoted(tensor.name)}"
    element = _element_type(tensor.data_type, what)
    shape = tuple(map(int, tensor.dims))
    if any(extent < 0 for extent in shape):
        raise GraphError(f"{what} has the shape {shape}")
    if tensor.data_location == _EXTERNAL:
        tensor.raw_data = _external_bytes(tensor, folder, what)
        tensor.data_location = onnx.TensorProto.DEFAULT
    try:
        return np.array(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError):
        raise GraphError(
            f"{what} does not hold the numbers of a {show_shape(shape)} {element} tensor"
        ) from None


def _external_bytes(tensor: onnx.TensorProto, folder: Path, what: str) -> bytes:
    """The bytes that `tensor` keeps in another file, which must lie below `folder`."""
    entries = {_text(entry.key): _text(entry.value) for entry in tensor.external_data}
    for key in sorted(entries.keys() - _EXTERNAL_KEYS):
        _LOG.warning("%s: its external data have an unknown entry %s", what, quoted(key))
    location = entries.get("location", "")
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
        file = (folder / location).resolve()
    except (ValueError, OSError):
        raise GraphError(f"{what} has a malformed reference to external data") from None
    where = f"{what} keeps its data in {quoted(location)}"
    if not file.is_relative_to(folder.resolve()):
        raise GraphError(
            f"{where}, outside the model's folder", fix="move the data beside the model"
        )
    try:
        if file.exists() and not file.is_file():
            raise GraphError(f"{where}, which is not a regular file")
        size = file.stat().st_size
        if offset < 0 or length < 0 or offset + length > size:
            raise GraphError(f"{where}: {length} bytes from byte {offset} on, but it has {size}")
        checksum = entries.get("checksum", "").lower()
        digest = _sha1(file, file.stat().st_mtime_ns) if checksum else checksum
        if digest != checksum:
            raise GraphError(f"{where}, whose SHA-1 is {digest}, the model says another")
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(length or size - offset)
    except (OSError, ValueError):
        raise GraphError(f"{where}, which cannot be read") from None


@lru_cache(maxsize=16)
def _sha1(file: Path, changed: int) -> str:
    """The digest of a whole file, cached by its time of change, since all tensors may share a file.

    SHA-1 is the only digest of the standard; it detects damage and mix-ups.
    """
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, partial(hashlib.sha1, usedforsecurity=False)).hexdigest()
