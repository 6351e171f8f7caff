"""Every ONNX operator that is read, by name."""

from __future__ import annotations

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.elementwise import ELEMENTWISE
from tilewright.graph.frontends.onnx.integers import INTEGERS
from tilewright.graph.frontends.onnx.known import KNOWN
from tilewright.graph.frontends.onnx.moves import MOVES
from tilewright.graph.frontends.onnx.places import PLACES
from tilewright.graph.frontends.onnx.products import PRODUCTS
from tilewright.graph.frontends.onnx.quantised import QUANTISED
from tilewright.graph.frontends.onnx.reductions import REDUCTIONS
from tilewright.graph.frontends.onnx.resize import RESIZE
from tilewright.graph.frontends.onnx.rows import ROWS
from tilewright.graph.frontends.onnx.shaping import SHAPING
from tilewright.graph.frontends.onnx.typed import TYPED
from tilewright.graph.frontends.onnx.windows import WINDOWS

_READ = (
    *ELEMENTWISE, *INTEGERS, *KNOWN, *MOVES, *PLACES, *PRODUCTS, *QUANTISED, *REDUCTIONS, *RESIZE,
    *ROWS, *SHAPING, *TYPED, *WINDOWS,
)  # fmt: skip

OPERATORS: dict[str, Operator] = {
    operator.kind: operator for operator in sorted(_READ, key=lambda o: o.kind)
}
