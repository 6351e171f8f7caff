"""`tilewright run` for a whole network: compile it for this computer, run, compare and time it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import typer
from msgspec import structs

from tilewright.cli.arrays import in_element_type, read_arrays
from tilewright.cli.options import MachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import (
    OutputOptions,
    StageClock,
    progress_bar,
    show_timings,
)
from tilewright.cli.run import CompareOptions
from tilewright.cli.workload import read_network
from tilewright.codegen.artifact import LOADS, Array
from tilewright.codegen.folder import require_replaceable, write_arrays
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CheckFailed
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.images import FewerImages, batch_of
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import random_weights
from tilewright.machine import Machine
from tilewright.network.plans import NETWORKS, NativeNetwork, Other
from tilewright.network.results import Comparison, NetworkRun
from tilewright.network.search import Search
from tilewright.report.network import network_table, network_totals, plan_table, plan_totals

_CHECKED_FLOPS = 40 * 10**9
"""Operations that an emulated network computes in about a minute."""
_DEFAULT_ERROR = 1e-5
"""What algorithms may deviate on this computer where nothing is said."""


def run_network(
    name: str,
    machine: MachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    compare: CompareOptions,
    output: OutputOptions,
    files: tuple[Path | None, Path | None],
    top: int,
) -> None:
    """Run a network; `files` are those of the inputs and for the outputs."""
    target, other = machine.load(), compare.other
    search.require_whole("compile --layers takes it", top=top > 0 and not LOADS.of(target))
    network = read_network(name, operator, usual_type(target))
    given = files[0] and read_inputs(network, files[0])  # before what takes long
    compiled, seconds = compiled_network(network, target, search, output, top)
    inputs = given or read_inputs(network, None)
    network, weights = _for_comparison(network, compiled, other)
    with progress_bar(output) as progress:
        progress("run", 0, 1)
        found, outputs = compiled.measured(
            network,
            weights,
            inputs,
            compare=other,
            compile_seconds=seconds,
            bound=largest_deviation(search),
        )
    if files[1] is not None:
        write_arrays(files[1], outputs)
        found = structs.replace(found, output=str(files[1]))
    show_network(found, output)


def write_network(
    name: str,
    target: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    out: Path | None,
    top: int,
    *,
    measure: bool,
    check: bool,
    timings: bool = False,
) -> None:
    """Compile a network and write its code; run and time it unless that is not wanted."""
    if out is not None:
        require_replaceable(out)
    network, clock = read_network(name, operator, usual_type(target)), StageClock()
    simulated = LOADS.of(target) is None
    computes = out is not None or check or (measure and not simulated)
    weights: Mapping[str, Array] | None = None if computes else {}
    compiled, seconds = compiled_network(network, target, search, output, top, weights, clock)
    if check and simulated:
        checked = _checked(network, compiled, target, search, output, clock)
        found = _described(compiled, seconds, output, clock)
        found = structs.replace(found, comparison=checked)
    elif check or (measure and not simulated):
        compare: Other | None = "reference" if check else None
        inputs = read_inputs(network, None)
        network, weights = _for_comparison(network, compiled, compare)
        with progress_bar(output, clock) as progress:
            progress("run", 0, 1)
            found, _ = compiled.measured(
                network,
                weights,
                inputs,
                compare=compare,
                compile_seconds=seconds,
                bound=largest_deviation(search),
            )
    else:
        found = _described(compiled, seconds, output, clock)
    if out is not None:
        with progress_bar(output, clock) as progress:
            progress("write", 0, 1)
            compiled.write(out, result=found)
        found = structs.replace(found, output=str(out))
    found = structs.replace(found, timings=clock.seconds)
    show_network(found, output)
    if timings:
        show_timings(found.timings, output)


def _described(
    compiled: NativeNetwork, seconds: float, output: OutputOptions, clock: StageClock
) -> NetworkRun:
    """What is known without running: simulated where the machine is not this computer."""
    with progress_bar(output, clock) as progress:
        if LOADS.of(compiled.machine) is None:
            progress("simulate", 0, 1)
        return compiled.described(seconds)


def _checked(
    network: Network,
    compiled: NativeNetwork,
    target: Machine,
    search: SearchOptions,
    output: OutputOptions,
    clock: StageClock,
) -> Comparison | None:
    """The emulated code against the reference, for as many images as emulation computes in a
    minute or so; fewer images than the network's have a plan of their own.
    """
    batch = batch_of(network) or 1
    flops = sum(op.flops for _, op in network.layers())
    count = max(1, min(batch, _CHECKED_FLOPS * batch // max(1, flops)))
    few = FewerImages(count).apply(network)
    if few is not network:
        compiled, _ = compiled_network(few, target, search, output, 0, compiled.weights, clock)
    with progress_bar(output, clock) as progress:
        progress("check", 0, 1)
        found, _ = compiled.measured(
            few,
            dict(compiled.weights),
            read_inputs(few, None),
            compare="reference",
            bound=largest_deviation(search),
        )
    if few is network or found.comparison is None:
        return found.comparison
    return structs.replace(found.comparison, images=count)


def usual_type(target: Machine) -> str:
    """The element type of known networks: single precision where they are measured."""
    return "f64" if LOADS.of(target) is None else "f32"


def compiled_network(
    network: Network,
    target: Machine,
    search: SearchOptions,
    output: OutputOptions,
    top: int,
    weights: Mapping[str, Array] | None = None,
    clock: StageClock | None = None,
) -> tuple[NativeNetwork, float]:
    """(the compiled network with numbers for all weights, seconds it took); where `weights` are
    not given they are random.
    """
    started = time.perf_counter()
    with progress_bar(output, clock) as progress:
        how = Search(search.algorithm, search.max_error, top=top)
        networks, fewer = NETWORKS.required(target), simplified(network)
        compiled = networks.compile(fewer, target, how, progress=progress)
    seconds = time.perf_counter() - started
    compiled.weights.update(random_weights(network) if weights is None else weights)
    return compiled, seconds


def _for_comparison(
    network: Network, compiled: NativeNetwork, other: Other | None
) -> tuple[Network, dict[str, Array]]:
    """The network and its weights. Where nothing else computes with them they are not kept, since
    ours has constants of its own.
    """
    if other is None:
        return replace(network, values={}), {}
    return network, dict(compiled.weights)


def _of(other: Other) -> str:
    """Whose outputs they are."""
    return "those of the reference" if other == "reference" else "onnxruntime's"


def largest_deviation(search: SearchOptions) -> float | None:
    """The largest difference in a comparison, None for what the element type allows: algorithms
    that are chosen for their deviation may have ten times that of one layer.
    """
    if search.max_error is None or search.max_error <= _DEFAULT_ERROR:
        return None
    return 10 * search.max_error


def show_network(found: NetworkRun, output: OutputOptions) -> None:
    """Print the run; CheckFailed where a comparison finds it wrong."""
    output.value(found)
    if found.cycles is None:
        output.show(network_table(found, output.columns), network_totals(found))
    else:
        output.show(plan_table(found, output.columns), plan_totals(found))
    if found.output:
        output.show(f"written to {found.output}")
    require_alike(found.comparison, output)


def require_alike(other: Comparison | None, output: OutputOptions) -> None:
    """CheckFailed where a comparison finds that the outputs differ."""
    if other is None or other.is_within_bound:
        return
    if output.json:
        raise typer.Exit(CheckFailed.exit_code)
    raise CheckFailed(
        f"outputs differ from {_of(other.other)} by {other.largest_difference:.2e} of the largest "
        f"magnitude, beyond {other.bound:g}",
        fix="--compare reference shows which of both is right"
        if other.other == "onnxruntime"
        else "",
    )


def read_inputs(network: Network, path: Path | None) -> dict[str, Array]:
    """Those of the file, or random ones; ShapeError for a file that does not fit."""
    if path is None:
        generator = np.random.default_rng(0)
        return {
            t.name: generator.standard_normal(t.shape).astype(dtype(t.dtype).numpy)
            for t in network.inputs
        }
    given = read_arrays(path, [tensor.name for tensor in network.inputs])
    return {
        t.name: in_element_type(t.name, given[t.name], dtype(t.dtype), path) for t in network.inputs
    }
