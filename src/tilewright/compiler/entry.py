"""Entry points for users: a workload by any name in, compiled for any machine out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from numpy.typing import ArrayLike

from tilewright.common.deferred import Deferred
from tilewright.common.errors import GraphError, ScheduleError, ShapeError, ToolError
from tilewright.compiler.compiled import Compiled
from tilewright.compiler.settings import Options, Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.frontends.notation import network_of
from tilewright.graph.graph import Network, with_cases
from tilewright.graph.names import quoted
from tilewright.graph.rewriting import simplified
from tilewright.graph.zoo import network as zoo_network
from tilewright.machine import DEFAULT_MACHINE, Machine, find_machine
from tilewright.network.plans import require_networks
from tilewright.ops import CONTRACTIONS, Op, Shape
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.op import show_shape
from tilewright.ops.recognition import as_named

if TYPE_CHECKING:
    from tilewright.graph.frontends import onnx, torch
else:  # heavy: onnx, torch
    onnx = Deferred("tilewright.graph.frontends.onnx")
    torch = Deferred("tilewright.graph.frontends.torch")

_WAYS = {name: Deferred(f"tilewright.compiler.{name}") for name in ("alone", "whole", "divided")}
"""The modules of the ways to use a machine; `Toolchain.way` selects one."""
DEFAULT_BATCH = 1
Shapes: TypeAlias = Mapping[str, Shape | Sequence[Shape]]
"""Shapes of inputs by name; several shapes of an input are successive cases."""


def compile(
    workload: Op | Network | str | Path,
    machine: str | Machine = DEFAULT_MACHINE,
    *,
    batch: int | None = None,
    dtype: str | None = None,
    shapes: Shapes | None = None,
    layers: bool = False,
    **options: Unpack[Options],
) -> Compiled[Any]:
    """Find the best schedule over all algorithms and partitions, and generate its code.

    `workload` is an operator, a network, the name of a known network, or the path of an ONNX file.
    `batch` and `dtype` apply to the latter two; `shapes` of inputs by name apply to a file, on this
    computer several of each. `options` are the fields of `Settings`. A network is compiled as a
    whole, or divided over the cores of a machine that does so; on this computer in f32 unless its
    file or `dtype` says otherwise. Of the settings it uses `algorithm`, `max_error` and `keep`, and
    `top` where it is measured. With `layers`, each of its convolutions and matrix products becomes
    a kernel of its own.

    Raises CapacityError where nothing fits the machine, ToolError where it runs no whole networks,
    ScheduleError for a schedule outside the operator's space or kernel settings with a whole
    network, CheckFailed where generated code deviates from the reference.
    """
    target = machine if isinstance(machine, Machine) else find_machine(machine)
    settings, chain = Settings(**options), Toolchain(target)
    if isinstance(workload, str | Path):
        workload = load(
            workload, batch=batch, dtype=dtype, shapes=shapes, known_dtype=chain.usual_type
        )
    elif batch is not None:
        raise ShapeError("the batch of an operator or a loaded network is part of its shape")
    elif shapes:
        raise ShapeError("the shapes of an operator or a loaded network are its own")
    elif dtype is not None:
        raise ShapeError("the element type of an operator or a loaded network is its own")
    _require_workload(workload)
    if isinstance(workload, Definition | Assembly) and not _has_kernels(workload):
        workload = network_of(workload)
    if isinstance(workload, Network):
        if settings.schedule is not None:
            raise ScheduleError("a schedule is one operator's, found a network")
        if not layers:
            _require_whole(chain, settings)
        own = Workload.of(simplified(workload) if layers else workload)
        return compiled(own, chain, settings, alone=layers)
    if layers:
        raise GraphError(f"the layers of a network are compiled alone, found {workload.describe()}")
    own = Workload(workload.kind, ((workload.kind, as_named(workload)),))
    return compiled(own, chain, settings, alone=True)


def _require_workload(workload: object) -> None:
    if not isinstance(workload, Op | Network):
        raise GraphError(
            "an operator, a network, the name of a known network or the path of an ONNX file is "
            f"compiled, found {quoted(workload)}",
            fix="a module of torch is loaded first: tw.load(module, example)",
        )


def _has_kernels(op: Definition | Assembly) -> bool:
    """True for sums of products and for in-memory work; other definitions become networks."""
    return op.kind in CONTRACTIONS or op.in_memory is not None


def compiled(
    workload: Workload, chain: Toolchain, settings: Settings, *, alone: bool
) -> Compiled[Any]:
    """Compile a workload; operators and `alone` layers as kernels. Raises as `compile` does."""
    alone = alone or workload.is_operator
    if not alone and workload.whole.cases and not chain.executes_here:
        raise GraphError(
            f"{workload.name} is asked for in {len(workload.whole.cases)} shapes, "
            f"{chain.machine.name} computes one",
            fix="one shape of each input, or --machine host",
        )
    kind: type[Compiled[Any]] = _WAYS[chain.way(alone=alone)].WAY
    started = time.perf_counter()
    plan = kind.planned(workload, chain, settings)
    return kind(workload, chain, plan, settings, time.perf_counter() - started)


def _require_whole(chain: Toolchain, settings: Settings) -> None:
    """Raise ToolError for a machine without networks, ScheduleError for kernel settings."""
    if chain.divides is not None:
        return
    require_networks(chain.machine, "layers=True for the products of the network alone")
    usual, measured = Settings(), () if chain.executes_here else ("top",)
    kernels = ("partition", "records", "executor", "check", *measured)
    given = [name for name in kernels if getattr(settings, name) != getattr(usual, name)]
    if given:
        raise ScheduleError(
            f"kernels that are compiled alone take {', '.join(given)}, found a whole network",
            fix="layers=True",
        )


def load(
    name: str | Path | Any,
    example: Any = None,
    *,
    batch: int | None = None,
    dtype: str | None = None,
    shapes: Shapes | None = None,
    values: Mapping[str, ArrayLike] | None = None,
    known_dtype: str = "f64",
) -> Network:
    """The known network `name`, the network in an ONNX file (a path that ends in .onnx), or the one
    that a torch module computes for inputs like `example`, a tensor or a tuple of tensors.

    Without `dtype`, a file keeps its element type and known networks have `known_dtype`. `shapes`
    replace the shapes of a file's inputs, by name; inputs with `values` become constants. Several
    shapes of an input become cases of the network.
    """
    _require_types(batch, dtype, shapes, values)
    if not isinstance(name, str | Path):
        if batch or shapes or values:
            raise GraphError("the shapes of a module are those of its example")
        return _load_module(name, example, dtype)
    if example is not None:
        raise GraphError(f"an example is a module's, found {quoted(str(name))}")
    if str(name).endswith(".onnx"):
        turns = _shapes_in_turn(shapes or {})
        parts = [onnx.load_onnx(name, batch, dtype, own, values) for own in turns]
        return with_cases(parts) if len(parts) > 1 else parts[0]
    if shapes or values:
        raise GraphError(
            f"the shapes of {quoted(str(name))} are known", fix="give a batch, or an .onnx file"
        )
    kind = dtype or known_dtype
    try:
        return zoo_network(str(name), batch or DEFAULT_BATCH, dtype=kind)
    except ShapeError as error:  # of an operator that does not support the element type
        raise ShapeError(f"{name} in {kind}: {error.message}", fix=error.fix) from None


def _require_types(batch: object, dtype: object, shapes: object, values: object) -> None:
    """Raise GraphError for an argument of `load` that is of another Python type."""
    by_name = "a mapping from names of inputs"
    for name, given, kind, wanted in (
        ("batch", batch, Integral, "a number"),
        ("dtype", dtype, str, "text, such as 'f32'"),
        ("shapes", shapes, Mapping, by_name),
        ("values", values, Mapping, by_name),
    ):
        if given is not None and not isinstance(given, kind):
            raise GraphError(f"{name} is {wanted}, found {quoted(given)}")


def _shapes_in_turn(shapes: Shapes) -> list[dict[str, Shape]]:
    """The shapes of each case: the first of each input, then the second, and so on; an input with
    one shape has it in all cases. Raises GraphError for other counts and for repeated cases.
    """
    every = {name: _several(name, own) for name, own in shapes.items()}
    count = max(map(len, every.values()), default=1)
    for name, own in every.items():
        if len(own) not in (1, count):
            raise GraphError(f"input {quoted(name)} has {len(own)} shapes, another one {count}",
                             fix="one shape for all cases, or one for each")  # fmt: skip
    found = [{n: own[i % len(own)] for n, own in every.items()} for i in range(count)]
    for number, case in enumerate(found):
        if case in found[:number]:
            shown = ", ".join(f"{n}={show_shape(s)}" for n, s in case.items())
            raise GraphError(f"the shapes {shown} are given twice", fix="give each once")
    return found


def _several(name: str, own: Any) -> Sequence[Shape]:
    if isinstance(own, str) or not isinstance(own, Sequence):
        raise GraphError(
            f"the shape of input {quoted(name)} is a sequence of numbers, found {quoted(own)}"
        )
    shapes: list[Shape] = [e for e in own if not isinstance(e, int)]
    return shapes or [tuple(e for e in own if isinstance(e, int))]


def _load_module(module: Any, example: Any, dtype: str | None) -> Network:
    """Load a torch module. Raises ToolError where torch or its exporter's needs are missing."""
    try:
        return torch.load_module(module, example, dtype)
    except ModuleNotFoundError as error:
        raise ToolError(
            f"reading a module of torch needs {error.name}, which is not installed",
            fix="pip install 'tilewright[torch]'",
        ) from None
