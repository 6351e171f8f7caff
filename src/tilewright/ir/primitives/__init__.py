"""The shipped primitives, one module per kind; importing the package registers them."""

from tilewright.ir.primitives.elementwise import (
    Copy,
    Fill,
    MultiplyAccumulate,
    Repack,
    Requantise,
    ScaleAdd,
)
from tilewright.ir.primitives.maps import Accumulate, Lookup, Map, Reduce, ScalarPrimitive
from tilewright.ir.primitives.product import MatrixProduct, WindowPrimitive, Windows, WindowSums
from tilewright.ir.primitives.registry import (
    find_primitive,
    make_primitive,
    primitive_names,
    register,
    unregister,
)
from tilewright.ir.primitives.winograd import (
    WinogradFilter,
    WinogradInput,
    WinogradOutput,
    WinogradTransform,
)

__all__ = [
    "Accumulate",
    "Copy",
    "Fill",
    "Lookup",
    "Map",
    "MatrixProduct",
    "MultiplyAccumulate",
    "Reduce",
    "Repack",
    "Requantise",
    "ScalarPrimitive",
    "ScaleAdd",
    "WindowPrimitive",
    "WindowSums",
    "Windows",
    "WinogradFilter",
    "WinogradInput",
    "WinogradOutput",
    "WinogradTransform",
    "find_primitive",
    "make_primitive",
    "primitive_names",
    "register",
    "unregister",
]
