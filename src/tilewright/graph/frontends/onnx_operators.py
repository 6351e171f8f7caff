"""Every ONNX operator that is read, by name."""

from __future__ import annotations

from tilewright.graph.frontends.onnx_declare import Operator
from tilewright.graph.frontends.onnx_elementwise import ELEMENTWISE
from tilewright.graph.frontends.onnx_integers import INTEGERS
from tilewright.graph.frontends.onnx_moves import MOVES
from tilewright.graph.frontends.onnx_products import PRODUCTS
from tilewright.graph.frontends.onnx_reductions import REDUCTIONS
from tilewright.graph.frontends.onnx_resize import RESIZE
from tilewright.graph.frontends.onnx_shaping import SHAPING
from tilewright.graph.frontends.onnx_windows import WINDOWS

_READ = (*ELEMENTWISE, *INTEGERS, *MOVES, *PRODUCTS, *REDUCTIONS, *RESIZE, *SHAPING, *WINDOWS)

OPERATORS: dict[str, Operator] = {
    operator.kind: operator for operator in sorted(_READ, key=lambda o: o.kind)
}
