"""Workloads: an operator by its options, a definition, a known network or an ONNX file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any

from tilewright.cli.options import (
    MachineOptions,
    OperatorOptions,
    extents_of,
    numbers,
    overrides,
    shapes_of,
)
from tilewright.cli.output import UsageProblem
from tilewright.common.errors import GraphError
from tilewright.common.files import read_file_text
from tilewright.compiler.entry import load
from tilewright.graph.frontends.notation import define, network_of, read_notes
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.zoo import list_networks
from tilewright.machine import DEFAULT_MACHINE, Machine, find_machine
from tilewright.ops import OPERATORS, Op
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import Size

_NETWORK_OPTIONS = ("batch", "dtype", "shape")
_EXTENTS = {"kernel": (1, 2), "stride": (1, 2), "dilation": (1, 2), "padding": (1, 2, 4)}
"""Options of several numbers, and how many they may be."""
DEFINED, SUFFIX = "defined", ".tw"
"""The name of what a text defines, and how files of definitions end."""
_TYPES = ("dtype", "sum_dtype", "result_dtype")
"""Options that are one text together."""


@dataclass(frozen=True)
class Workload:
    """Named operators: those of a `network`, or a single one given by its options."""

    name: str
    layers: tuple[tuple[str, Op], ...]
    network: Network | None = None

    @property
    def is_operator(self) -> bool:
        """True for a single operator."""
        return self.network is None


def read_workload(name: str, options: OperatorOptions, known_dtype: str = "f64") -> Workload:
    """An operator, or the products of a network; `known_dtype` as in `read_network`, of operators
    where it names several types.

    Raises UsageProblem for options that do not go with `name`, GraphError for an unknown one.
    """
    if is_operator(name):
        if not is_definition(name):
            return Workload(name, ((name, _operator(name, options, known_dtype)),))
        found = _defined(name, options, known_dtype)
        if not isinstance(found, Network):
            return Workload(DEFINED, ((DEFINED, found),))
    network = read_network(name, options, known_dtype)
    return Workload(network.name, tuple(network.layers()), network)


def read_network(name: str, options: OperatorOptions, known_dtype: str = "f64") -> Network:
    """A known network or that of a file; `known_dtype` is for the former without `--dtype`.

    Raises as `read_workload` does.
    """
    if is_definition(name):
        found = _defined(name, options, known_dtype)
        return found if isinstance(found, Network) else network_of(found)
    _refuse_others(name, options, _NETWORK_OPTIONS)
    if not name.endswith(".onnx") and name not in list_networks():
        known = [*list_networks(), *(kind for kind in OPERATORS if is_operator(kind))]
        close = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        raise GraphError(f"unknown network {quoted(name)}", fix=f"{meant} or give an .onnx file")
    path = Path(name) if name.endswith(".onnx") else name
    given = _given(options)
    shapes = shapes_of(given.pop("shape", None))
    return load(path, known_dtype=known_dtype, shapes=shapes, **given)


def machine_of(options: MachineOptions) -> Machine:
    """The machine with its changes. Raises UsageProblem, MachineError."""
    changes, name = overrides(options.set), options.machine or DEFAULT_MACHINE
    machine = find_machine(name, changes)
    if options.threads is None:
        return machine
    if machine.threads is None:
        raise UsageProblem(f"--threads: {machine.name!r} has no threads")
    return find_machine(name, {**changes, "threads.count": str(options.threads)})


def is_operator(name: str) -> bool:
    """True if `name` is an operator and not a network: one whose extents are options, or the
    definition of a sum of products, which has kernels of its own.
    """
    if is_definition(name):
        notes = read_notes(_text_of(name))
        return len(notes.statements) == 1 and notes.statements[0].is_product
    return name in OPERATORS and name != "contraction"


def is_definition(name: str) -> bool:
    """True if `name` is the text of definitions, or the name of a file of them."""
    return "[" in name or name.endswith(SUFFIX)


def _text_of(name: str) -> str:
    return read_file_text(Path(name)) if name.endswith(SUFFIX) else name


def _defined(
    name: str, options: OperatorOptions, known_dtype: str
) -> Definition | Assembly | Network:
    """The operator or the network that a text defines; raises ShapeError, GraphError."""
    _refuse_others("a definition", options, ("extents", "fill", "shape", *_TYPES))
    given = _typed(_given(options))
    sizes: dict[str, Size] = {**extents_of(given.get("extents")), **shapes_of(given.get("shape"))}
    dtype = given.get("dtype", known_dtype)
    return define(_text_of(name), name=DEFINED, dtype=dtype, fill=given.get("fill"), **sizes)


def _operator(kind: str, options: OperatorOptions, known_dtype: str) -> Op:
    """The operator by the function that users make it by, whose parameters are the options."""
    make = OPERATORS[kind].make
    taken = signature(make).parameters
    _refuse_others(kind, options, (*taken, *_TYPES))
    given = _given(options)
    if "batch" in taken:
        given.setdefault("batch", 1)
    _require(kind, given, [name for name, p in taken.items() if p.default is p.empty])
    for name, value in given.items():
        if name in _EXTENTS:
            given[name] = _short(numbers(name, value, _EXTENTS[name]))
    typed = _typed(given)
    if ":" in known_dtype:
        typed.setdefault("dtype", known_dtype)
    return make(**typed)


def _typed(given: dict[str, Any]) -> dict[str, Any]:
    """The options with one text for the element types of operands, sums and result."""
    parts = [given.pop(name, None) for name in _TYPES]
    own, sums, result = parts
    if own is not None and ":" in own and (sums or result):
        raise UsageProblem(
            f"--dtype {own} says the types of sums and result: leave --sum-dtype and --result-dtype"
        )
    if sums is None and result is not None:
        raise UsageProblem("--result-dtype needs --sum-dtype")
    if own is None and sums is not None:
        raise UsageProblem("--sum-dtype needs --dtype")
    text = ":".join(part for part in parts if part)
    return {**given, "dtype": text} if text else given


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
