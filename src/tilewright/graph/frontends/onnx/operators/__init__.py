"""Every ONNX operator that is read, by name."""

from __future__ import annotations

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.operators.control import CONTROL
from tilewright.graph.frontends.onnx.operators.elementwise import ELEMENTWISE
from tilewright.graph.frontends.onnx.operators.known import KNOWN
from tilewright.graph.frontends.onnx.operators.moves import MOVES
from tilewright.graph.frontends.onnx.operators.places import PLACES
from tilewright.graph.frontends.onnx.operators.products import PRODUCTS
from tilewright.graph.frontends.onnx.operators.quantised import QUANTISED
from tilewright.graph.frontends.onnx.operators.recurrent import RECURRENT
from tilewright.graph.frontends.onnx.operators.resize import RESIZE
from tilewright.graph.frontends.onnx.operators.rows import ROWS
from tilewright.graph.frontends.onnx.operators.windows import WINDOWS

_READ = (
    *CONTROL, *ELEMENTWISE, *KNOWN, *MOVES, *PLACES, *PRODUCTS, *QUANTISED, *RECURRENT, *RESIZE,
    *ROWS, *WINDOWS,
)  # fmt: skip

OPERATORS: dict[str, Operator] = {
    operator.kind: operator for operator in sorted(_READ, key=lambda o: o.kind)
}
