"""What to compile: an operator by its options, a known network or an ONNX file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tilewright.cli.options import OperatorOptions, numbers, shapes_of
from tilewright.cli.output import UsageProblem
from tilewright.common.errors import GraphError
from tilewright.compiler.entry import load
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.zoo import list_networks
from tilewright.ops import Op, conv2d, gemm

_NETWORK_OPTIONS = ("batch", "dtype", "shape")
_CONV2D = ("batch", "in_channels", "out_channels", "height", "width", "kernel")
_CONV2D_MORE = ("stride", "padding", "dilation", "groups", "dtype")
_GEMM = ("m", "n", "k")
_GEMM_MORE = ("transpose_a", "transpose_b", "alpha", "beta", "dtype")


@dataclass(frozen=True)
class Workload:
    """Named operators; `is_operator` where it is a single one given by its options."""

    name: str
    layers: tuple[tuple[str, Op], ...]
    is_operator: bool


def read_workload(name: str, options: OperatorOptions) -> Workload:
    """Raises UsageProblem for options that do not go with `name`, GraphError for an unknown one."""
    match name:
        case "conv2d":
            return _operator(name, _conv2d(options))
        case "gemm":
            return _operator(name, _gemm(options))
    network = read_network(name, options)
    return Workload(network.name, tuple(network.layers()), is_operator=False)


def read_network(name: str, options: OperatorOptions, known_dtype: str = "f64") -> Network:
    """A known network or that of a file; `known_dtype` is for the former without `--dtype`.

    Raises as `read_workload` does.
    """
    _refuse_others(name, options, _NETWORK_OPTIONS)
    if not name.endswith(".onnx") and name not in list_networks():
        known = [*list_networks(), "conv2d", "gemm"]
        close = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        raise GraphError(f"unknown network {quoted(name)}", fix=f"{meant} or give an .onnx file")
    path = Path(name) if name.endswith(".onnx") else name
    given = _given(options)
    shapes = shapes_of(given.pop("shape", None))
    return load(path, known_dtype=known_dtype, shapes=shapes, **given)


def _operator(name: str, op: Op) -> Workload:
    return Workload(name, ((name, op),), is_operator=True)


def _conv2d(options: OperatorOptions) -> Op:
    _refuse_others("conv2d", options, (*_CONV2D, *_CONV2D_MORE))
    given = _given(options)
    given.setdefault("batch", 1)
    _require("conv2d", given, _CONV2D)
    for option in ("kernel", "stride", "dilation"):
        if option in given:
            given[option] = _short(numbers(option, given[option], (1, 2)))
    if "padding" in given:
        given["padding"] = _short(numbers("padding", given["padding"], (1, 2, 4)))
    return conv2d(**given)


def _gemm(options: OperatorOptions) -> Op:
    _refuse_others("gemm", options, (*_GEMM, *_GEMM_MORE))
    given = _given(options)
    _require("gemm", given, _GEMM)
    return gemm(**given)


def _given(options: OperatorOptions) -> dict[str, Any]:
    """The options that were set."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: value for name, value in values.items() if value not in (None, False)}


def _require(kind: str, given: dict[str, Any], names: Sequence[str]) -> None:
    missing = [_flag(name) for name in names if name not in given]
    if missing:
        raise UsageProblem(f"{kind} needs {', '.join(missing)}")


def _refuse_others(kind: str, options: OperatorOptions, names: Sequence[str]) -> None:
    others = [_flag(name) for name in _given(options) if name not in names]
    if others:
        raise UsageProblem(f"{quoted(kind)} does not take {', '.join(others)}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _short(values: tuple[int, ...]) -> Any:
    return values[0] if len(values) == 1 else values
