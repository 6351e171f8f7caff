"""Arrays from a user's file: an .npz archive in; arrays by name out, or the reason for refusal."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO
from zipfile import BadZipFile

import numpy as np

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import DType
from tilewright.common.errors import ShapeError
from tilewright.common.files import require_regular
from tilewright.graph.names import quoted

_REAL = "biuf"
"""Kinds of NumPy types that are real numbers: booleans, integers, floats."""
_UNREADABLE = (
    ArithmeticError, AttributeError, BadZipFile, EOFError, LookupError, OSError, RuntimeError,
    SyntaxError, TypeError, ValueError, lzma.LZMAError, struct.error, tokenize.TokenError,
    zlib.error,
)  # fmt: skip
"""Exceptions of NumPy and the archive readers; which one depends on the damaged byte."""
_ARCHIVE, _ARRAY = b"PK", b"\x93NUMPY"
"""First bytes of array files: of zip archives, and of .npy files, which hold a single array."""
_WAY_OUT = "write one with numpy.savez(FILE, NAME=ARRAY)"


def read_arrays(
    path: Path, names: Sequence[str] | None = None, *, alone: bool = True
) -> dict[str, Array]:
    """The arrays of real numbers in an .npz file.

    If `names` are given, the file must hold exactly these arrays, or, unless `alone`, at least
    these. Raises ShapeError for anything else, OSError for a file that cannot be opened.
    """
    require_regular(path)
    with path.open("rb") as file:
        try:
            arrays = _arrays_of_archive(file)
        except _UNREADABLE as error:
            why = str(error) or type(error).__name__
            raise ShapeError(
                f"is no .npz file of arrays: {why}", where=str(path), fix=_WAY_OUT
            ) from None
    for name, array in arrays.items():
        if array.dtype.kind not in _REAL:
            raise ShapeError(
                f"{quoted(name)} holds {array.dtype}, no real numbers", where=str(path)
            )
    if names is not None and (set(names) - set(arrays) or (alone and len(names) < len(arrays))):
        raise ShapeError(
            f"expected the arrays {_shown(names)}, found {_shown(arrays) or 'none'}",
            where=str(path),
        )
    return arrays


def read_arguments(path: Path, arguments: Sequence[tuple[str, object, DType]]) -> dict[str, Array]:
    """The file's arrays in these arguments' element types. Raises as `read_arrays`."""
    given = read_arrays(path, [name for name, _, _ in arguments])
    return {
        name: in_element_type(name, given[name], element, path) for name, _, element in arguments
    }


def _shown(names: Iterable[str]) -> str:
    """The names, comma-separated; those with control characters are quoted."""
    return ", ".join(name if name.isprintable() else quoted(name) for name in names)


def _arrays_of_archive(file: BinaryIO) -> dict[str, Array]:
    start = file.read(len(_ARRAY))
    if start == _ARRAY:
        raise ValueError("it is one array without a name")
    if not start.startswith(_ARCHIVE):
        raise ValueError("it is no zip archive" if start else "it is empty")
    file.seek(0)
    found: dict[str, Array] = {}
    with np.load(file, allow_pickle=False) as archive:
        for name in archive.files:
            value = archive[name]
            if not isinstance(value, np.ndarray):
                raise ValueError(f"it holds {quoted(name)}, which is no array")
            found[name] = value
    return found


def in_element_type(name: str, array: Array, element: DType, path: Path) -> Array:
    """The array converted to an element type. Raises ShapeError where a finite number becomes
    infinite, or the integer type cannot represent it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        own = np.asarray(array, element.numpy)
    lost = np.isfinite(array) & ~np.isfinite(own) if element.is_float else own != array
    if not lost.any():
        return own
    raise ShapeError(
        f"{quoted(name)} holds {array[lost].flat[0]:.9g}, which {element} has not", where=str(path)
    )
