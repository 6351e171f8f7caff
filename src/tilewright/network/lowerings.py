"""Lowerings of graph operators that are neither products nor expressions of elements.

In: the type of an operator. Out: the function that appends its stages. Operators without an entry
are refused before anything is searched for (`network.requirements`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tilewright.graph.graph import Node
from tilewright.network.defined import assembled, defined
from tilewright.network.memory import Located, Memory
from tilewright.network.moves import (
    concatenated,
    padded,
    reshaped,
    resized,
    sliced,
    space_to_depth,
    transposed,
)
from tilewright.network.windows import local_response, pool, reduced, softmax
from tilewright.ops import (
    Concat,
    LocalResponseNorm,
    Pad,
    Pool2d,
    Reduce,
    Reshape,
    Resize,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
)
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly

Lowering: TypeAlias = Callable[[Memory, Node, Any], Located]

MOVES = (Concat, Pad, Reshape, Resize, Slice, SpaceToDepth, Transpose)
"""Operators that move elements of any type."""

LOWERINGS: Mapping[type[Any], Lowering] = {
    Concat: concatenated,
    Assembly: assembled,
    Definition: defined,
    LocalResponseNorm: local_response,
    Pad: padded,
    Pool2d: pool,
    Reduce: reduced,
    Reshape: reshaped,
    Resize: resized,
    Slice: sliced,
    Softmax: softmax,
    SpaceToDepth: space_to_depth,
    Transpose: transposed,
}
