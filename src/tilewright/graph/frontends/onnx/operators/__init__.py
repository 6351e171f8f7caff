"""Every supported ONNX operator by name, collected from the modules of the package."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tilewright.graph.frontends.onnx.declare import Operator

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]

OPERATORS: dict[str, Operator] = {
    operator.kind: operator
    for operator in sorted((o for m in _MODULES for o in m.READ), key=lambda o: o.kind)
}
