"""Workloads: an operator by its options, a definition, a known network or an ONNX file.

They are read from the command line, compiled with their options, and shown.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import typer
from numpy.typing import ArrayLike

from tilewright.cli.options import (
    DivisionOptions,
    MachineOptions,
    OperatorOptions,
    SearchOptions,
    extents_of,
    given_options,
    numbers,
    overrides,
    refuse_given,
    shapes_of,
)
from tilewright.cli.output import (
    OutputOptions,
    StageClock,
    UsageProblem,
    progress_bar,
    show_timings,
)
from tilewright.codegen.arrays import read_arrays
from tilewright.common.errors import CheckFailed, GraphError
from tilewright.common.files import read_file_text
from tilewright.compiler.compiled import Compiled, Figures
from tilewright.compiler.entry import compiled, load
from tilewright.compiler.settings import Options, Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.frontends.notation import define, network_of, read_notes
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.zoo import list_networks
from tilewright.machine import DEFAULT_MACHINE, Machine, find_machine
from tilewright.network.plans import require_networks
from tilewright.network.results import Comparison
from tilewright.ops import OPERATORS, Op
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import Size
from tilewright.ops.recognition import as_named
from tilewright.partition.objective import ACTIVATIONS, TIME, TRAFFIC, Weights
from tilewright.report.figures import Shown, figure_lines
from tilewright.report.view import difference
from tilewright.tune.executors import open_executor
from tilewright.tune.records import Records

_NETWORK_OPTIONS = ("batch", "dtype", "shape", "bind")
_EXTENTS = {"kernel": (1, 2), "stride": (1, 2), "dilation": (1, 2), "padding": (1, 2, 4)}
"""Options of several numbers, with the counts they accept."""
DEFINED, SUFFIX = "defined", ".tw"
"""The name of an operator or network that a text defines, and the suffix of definition files."""
_TYPES = ("dtype", "sum_dtype", "result_dtype")
"""Options combined into one text of element types."""


def read_workload(name: str, options: OperatorOptions, known_dtype: str = "f64") -> Workload:
    """An operator, or the products of a network. `known_dtype` applies as in `named_network`, and
    to operators if it names several types.

    Raises UsageProblem for options that do not apply to `name`, GraphError for an unknown name.
    """
    if is_operator(name):
        if not is_definition(name):
            return Workload(name, ((name, _operator(name, options, known_dtype)),))
        found = _defined(name, options, known_dtype)
        if not isinstance(found, Network):
            return Workload(DEFINED, ((DEFINED, as_named(found)),))
    return Workload.of(named_network(name, options, known_dtype))


def named_network(name: str, options: OperatorOptions, known_dtype: str = "f64") -> Network:
    """A known network or a file's; `known_dtype` is for the former without `--dtype`.

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
    given = _set_options(options)
    shapes = shapes_of(given.pop("shape", None))
    values = values_of(given.pop("bind", None))
    return load(path, known_dtype=known_dtype, shapes=shapes, values=values, **given)


def values_of(settings: list[str] | None) -> dict[str, ArrayLike]:
    """`["axes=0,1"]` -> `{"axes": [0, 1]}`; for a file, the array of that name.

    Raises UsageProblem for anything else, ShapeError for a file without the array.
    """
    found: dict[str, ArrayLike] = {}
    for setting in settings or []:
        name, _, text = setting.partition("=")
        try:
            if not name or not text:
                raise ValueError
            if text.startswith("@"):
                found[name] = read_arrays(Path(text[1:]), [name], alone=False)[name]
            else:
                numbers = [json.loads(word) for word in text.split(",")]
                found[name] = np.asarray(numbers if "," in text else numbers[0]).tolist()
        except ValueError:
            raise UsageProblem(
                "--bind takes NAME=VALUE such as axes=0,1 or k=3 or on=true, or NAME=@FILE.npz, "
                f"found {setting!r}"
            ) from None
    return found


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
    """True if `name` is an operator rather than a network: its extents are options, or it is the
    definition of a single sum of products, which has kernels of its own.
    """
    if is_definition(name):
        notes = read_notes(_text_of(name))
        return len(notes.statements) == 1 and notes.statements[0].is_product
    return name in OPERATORS and name != "contraction"


def is_definition(name: str) -> bool:
    """True if `name` is the text of definitions, or names a file of them."""
    return "[" in name or name.endswith(SUFFIX)


def is_source(path: Path) -> bool:
    """True for the file of a model or of definitions; a folder may end like one."""
    return path.is_file() and path.suffix in (".onnx", SUFFIX)


def _text_of(name: str) -> str:
    if not name.endswith(SUFFIX):
        return name
    try:
        return read_file_text(Path(name))
    except UnicodeDecodeError:
        raise GraphError("is not UTF-8 text", where=name) from None


def _defined(
    name: str, options: OperatorOptions, known_dtype: str
) -> Definition | Assembly | Network:
    """The operator or network that a text defines. Raises ShapeError, GraphError."""
    _refuse_others("a definition", options, ("extents", "fill", "shape", *_TYPES))
    given = _typed(_set_options(options))
    shapes = shapes_of(given.get("shape"))
    if several := [tensor for tensor, own in shapes.items() if len(own) > 1]:
        raise UsageProblem(f"--shape: {several[0]} of a definition has one shape")
    only = {tensor: own[0] for tensor, own in shapes.items()}
    sizes: dict[str, Size] = {**extents_of(given.get("extents")), **only}
    dtype = given.get("dtype", known_dtype)
    return define(_text_of(name), name=DEFINED, dtype=dtype, fill=given.get("fill"), **sizes)


def _operator(kind: str, options: OperatorOptions, known_dtype: str) -> Op:
    """The operator, built by its public constructor with the options as arguments."""
    make = OPERATORS[kind].make
    taken = signature(make).parameters
    _refuse_others(kind, options, (*taken, *_TYPES))
    given = _set_options(options)
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
    """The options with the element types of operands, sums and result joined into one text."""
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


def _set_options(options: OperatorOptions) -> dict[str, Any]:
    """The options that were set."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {n: value for n, value in values.items() if value is not None and value is not False}


def _require(kind: str, given: dict[str, Any], names: Sequence[str]) -> None:
    missing = [_flag(name) for name in names if name not in given]
    if missing:
        raise UsageProblem(f"{kind} needs {', '.join(missing)}")


def _refuse_others(kind: str, options: OperatorOptions, names: Sequence[str]) -> None:
    others = [_flag(name) for name in _set_options(options) if name not in names]
    if others:
        raise UsageProblem(f"{quoted(kind)} does not take {', '.join(others)}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _short(values: tuple[int, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def require_options(
    way: str,
    chain: Toolchain,
    search: SearchOptions,
    division: DivisionOptions,
    *,
    way_out: str,
    instead: str = "",
    onnx_out: bool = False,
    top: bool = False,
    kernels: Sequence[str] = (),
) -> None:
    """Raise UsageProblem for options that do not apply to a way of compiling, ToolError where the
    machine runs no networks.

    `kernels` are given options of kernels alone, `way_out` says how to use them, and `instead` how
    to compile a network's products.
    """
    best = ["--top"] * top
    if way == "divided":
        given = given_options(search, "algorithm", "records", "executor")
        refuse_given(
            [*given, *kernels, *best], "is for kernels: cores that divide a network take none"
        )
        return
    refuse_given(["--onnx-out"] * onnx_out, "is for networks on machines whose cores divide them")
    division.require_undivided()
    if way == "whole":
        require_networks(chain.machine, instead)
        given = given_options(search, "partition", "records", "executor")
        given += [] if chain.executes_here else best
        refuse_given([*given, *kernels], f"is for kernels that are compiled alone: {way_out}")


def compile_workload(
    workload: Workload,
    chain: Toolchain,
    search: SearchOptions,
    output: OutputOptions,
    *,
    alone: bool = False,
    division: DivisionOptions | None = None,
    clock: StageClock | None = None,
    **others: Unpack[Options],
) -> Compiled[Any]:
    """Compile with the records and executor that the options name, and with the `others` unchanged;
    with `alone`, layers become kernels.
    """
    division = division or DivisionOptions()
    settings = replace(
        Settings(**others),
        algorithm=search.algorithm,
        partition=search.partition,
        max_error=search.max_error,
        max_roundings=search.max_roundings,
        objective=_objective(division.objective),
        most_work=division.most_work or 1.0,
        place=division.place,
    )
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar(output, clock))
        records = stack.enter_context(Records(search.records)) if search.records else None
        executor = stack.enter_context(open_executor(search.executor))
        used = replace(settings, progress=progress, records=records, executor=executor)
        made = compiled(workload, chain, used, alone=alone)
    return replace(made, settings=settings)


def _objective(text: str | None) -> Weights:
    """`traffic`, `activations`, `time`, or traffic with a cycle counted as so many values."""
    known = {None: TRAFFIC, "traffic": TRAFFIC, "activations": ACTIVATIONS, "time": TIME}
    if text in known:
        return known[text]
    try:
        cycles = float(text or "")
    except ValueError:
        cycles = math.nan
    if not 0 < cycles < math.inf:
        raise UsageProblem(
            f"--objective takes traffic, activations, time, or how many values a cycle counts, "
            f"found {text!r}"
        )
    return replace(TRAFFIC, cycles=cycles)


def show(
    found: Figures,
    machine: Machine,
    output: OutputOptions,
    *,
    timings: bool = False,
    written: Sequence[Path | None] = (),
) -> None:
    """Print figures and files written. Raises CheckFailed if a comparison is out of bounds."""
    output.value(found)
    output.show(*figure_lines(found, Shown(machine, output.columns)))
    said = getattr(found, "output", None)
    output.show(*(f"written to {path}" for path in written if path and str(path) != said))
    _require_alike(getattr(found, "comparison", None), output)
    if timings:
        show_timings(found.timings, output)


def _require_alike(other: Comparison | None, output: OutputOptions) -> None:
    """Raise CheckFailed if a comparison is out of bounds."""
    if other is None or other.is_within_bound:
        return
    if output.json:
        raise typer.Exit(CheckFailed.exit_code)
    raise difference(other)
