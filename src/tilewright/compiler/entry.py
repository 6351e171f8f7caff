"""Entry points for users: a workload by any name in, compiled for any machine out.

Only what chooses kernels needs the compiled cost model. A network for this computer has that done
elsewhere (`network.apart`), so that `pipeline` is imported where it is needed and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

from tilewright.common.deferred import Deferred
from tilewright.common.errors import GraphError, ScheduleError, ShapeError
from tilewright.compiler.settings import Options, Settings
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.rewriting import simplified
from tilewright.graph.zoo import network as zoo_network
from tilewright.machine import DEFAULT_MACHINE, Machine, find_machine
from tilewright.network.plans import NativeNetwork
from tilewright.network.refusal import require_networks
from tilewright.network.search import Search
from tilewright.ops import Op, Shape
from tilewright.ops.op import Array

if TYPE_CHECKING:
    from tilewright.compiler import pipeline
    from tilewright.compiler.kernel import CompiledNetwork, Kernel
    from tilewright.graph.frontends import onnx
else:  # heavy: numba, onnx
    pipeline = Deferred("tilewright.compiler.pipeline")
    onnx = Deferred("tilewright.graph.frontends.onnx")

DEFAULT_BATCH = 1


@overload
def compile(
    workload: Op,
    machine: str | Machine = ...,
    **options: Unpack[Options],
) -> Kernel: ...
@overload
def compile(
    workload: Network | str | Path,
    machine: str | Machine = ...,
    *,
    batch: int | None = ...,
    dtype: str | None = ...,
    shapes: Mapping[str, Shape] | None = ...,
    layers: Literal[False] = ...,
    **options: Unpack[Options],
) -> NativeNetwork: ...
@overload
def compile(
    workload: Network | str | Path,
    machine: str | Machine = ...,
    *,
    batch: int | None = ...,
    dtype: str | None = ...,
    shapes: Mapping[str, Shape] | None = ...,
    layers: Literal[True],
    **options: Unpack[Options],
) -> CompiledNetwork: ...
def compile(
    workload: Op | Network | str | Path,
    machine: str | Machine = DEFAULT_MACHINE,
    *,
    batch: int | None = None,
    dtype: str | None = None,
    shapes: Mapping[str, Shape] | None = None,
    layers: bool = False,
    **options: Unpack[Options],
) -> Kernel | CompiledNetwork | NativeNetwork:
    """Find the best schedule of every algorithm and partition, and generate its code.

    `workload` is an operator, a network, the name of a known network or the path of an ONNX file;
    `batch` and `dtype` hold for the latter two, `shapes` of inputs by name for a file. `options`
    are the fields of `Settings`. A network is compiled as a whole (`NativeNetwork`), on a machine
    that is this computer in f32 unless its file or `dtype` says otherwise; of the settings it takes
    `algorithm`, `max_error` and `keep`, and `top` where it is measured. With `layers` each of its
    convolutions and matrix products becomes a kernel of its own (`CompiledNetwork`).

    Raises CapacityError where nothing fits the machine, ToolError where it runs no whole networks,
    ScheduleError for a schedule that is not of the operator's space or for settings of kernels with
    a whole network, CheckFailed where generated code computes something else than the reference.
    """
    target = find_machine(machine) if isinstance(machine, str) else machine
    settings, chain = Settings(**options), Toolchain(target)
    if isinstance(workload, str | Path):
        own = chain.machine.core.elements or ("f32" if chain.executes_here else "f64")
        workload = load(workload, batch=batch, dtype=dtype, shapes=shapes, known_dtype=own)
    elif batch is not None:
        raise ShapeError("the batch of an operator or a loaded network is part of its shape")
    elif shapes:
        raise ShapeError("the shapes of an operator or a loaded network are its own")
    elif dtype is not None:
        raise ShapeError("the element type of an operator or a loaded network is its own")
    if isinstance(workload, Network) and settings.schedule is not None:
        raise ScheduleError("a schedule is one operator's, found a network")
    if isinstance(workload, Network):
        if layers:
            return _compile_layers(workload, target, settings)
        return _compile_network(workload, chain, settings)
    if layers:
        raise GraphError(f"the layers of a network are compiled alone, found {workload.describe()}")
    named = [(workload.kind, workload)]
    return pipeline.compile_layers(workload.kind, named, target, settings).kernels[workload.kind]


def _compile_network(network: Network, chain: Toolchain, settings: Settings) -> NativeNetwork:
    """A network as a whole. Raises as `compile` does."""
    layers = "layers=True for the products of the network alone"
    networks, usual = require_networks(chain.machine, layers, divided=False), Settings()
    measured = () if chain.executes_here else ("top",)
    alone = ("partition", "records", "executor", "check", *measured)
    given = [name for name in alone if getattr(settings, name) != getattr(usual, name)]
    if given:
        raise ScheduleError(
            f"kernels that are compiled alone take {', '.join(given)}, found a whole network",
            fix="layers=True",
        )
    search = Search(settings.algorithm, settings.max_error, settings.keep, settings.top)
    return networks.compile(simplified(network), chain.machine, search, progress=settings.progress)


def _compile_layers(network: Network, machine: Machine, settings: Settings) -> CompiledNetwork:
    """A kernel for each convolution and matrix product of a network. Raises as `compile` does."""
    simpler = simplified(network)
    return pipeline.compile_layers(simpler.name, list(simpler.layers()), machine, settings)


def load(
    name: str | Path,
    *,
    batch: int | None = None,
    dtype: str | None = None,
    shapes: Mapping[str, Shape] | None = None,
    values: Mapping[str, Array] | None = None,
    known_dtype: str = "f64",
) -> Network:
    """The known network `name`, or the one in an ONNX file (a path that ends in .onnx).

    Without `dtype` a file's own element type counts, and `known_dtype` for known networks;
    `shapes` replace those of a file's inputs, by name; inputs with `values` become constants.
    """
    if str(name).endswith(".onnx"):
        return onnx.load_onnx(name, batch, dtype, shapes, values)
    if shapes or values:
        raise GraphError(
            f"the shapes of {quoted(str(name))} are known", fix="give a batch, or an .onnx file"
        )
    return zoo_network(str(name), batch or DEFAULT_BATCH, dtype=dtype or known_dtype)
