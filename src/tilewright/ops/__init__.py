"""Operators: one frozen dataclass each, with shape rule, NumPy reference and operation count.

The package imports all of its modules, since operators that sum products register themselves.
"""

from importlib import import_module
from pkgutil import iter_modules

from tilewright.ops.conv2d import Conv2d, conv2d
from tilewright.ops.elementwise import Bias, Binary, Unary, add, relu
from tilewright.ops.gathering import (
    Pool2d,
    Reduce,
    average_pool2d,
    global_average_pool2d,
    max_pool2d,
)
from tilewright.ops.gemm import Gemm, gemm
from tilewright.ops.moves import (
    Concat,
    Pad,
    Reshape,
    Resize,
    Shuffle,
    Slice,
    SpaceToDepth,
    Transpose,
    flatten,
)
from tilewright.ops.normalize import BatchNorm, LocalResponseNorm, Softmax
from tilewright.ops.op import CONTRACTIONS, OPERATORS, Op, Shape

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
# The functions that make operators, under their own names.
globals().update({kind: found.make for kind, found in CONTRACTIONS.items()})

__all__ = [
    "CONTRACTIONS",
    "OPERATORS",
    "BatchNorm",
    "Bias",
    "Binary",
    "Concat",
    "Conv2d",
    "Gemm",
    "LocalResponseNorm",
    "Op",
    "Pad",
    "Pool2d",
    "Reduce",
    "Reshape",
    "Resize",
    "Shape",
    "Shuffle",
    "Slice",
    "Softmax",
    "SpaceToDepth",
    "Transpose",
    "Unary",
    "add",
    "average_pool2d",
    "conv2d",
    "flatten",
    "gemm",
    "global_average_pool2d",
    "max_pool2d",
    "relu",
]
