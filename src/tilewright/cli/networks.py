"""Whole networks that a machine runs: compiled, given inputs, compared, shown."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import typer
from msgspec import structs

from tilewright.cli.arguments import Compile, Run
from tilewright.cli.options import SearchOptions
from tilewright.cli.output import (
    OutputOptions,
    StageClock,
    progress_bar,
    show_timings,
)
from tilewright.cli.workload import read_network
from tilewright.codegen.arrays import in_element_type, read_arrays
from tilewright.codegen.artifact import Array
from tilewright.codegen.folder import require_replaceable, write_arrays
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CheckFailed
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.images import FewerImages, batch_of
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import passes_of, training_step
from tilewright.graph.weights import random_weights
from tilewright.network.plans import NativeNetwork, Other
from tilewright.network.refusal import require_networks
from tilewright.network.results import Comparison, NetworkRun
from tilewright.network.search import Search
from tilewright.report.network import network_table, network_totals, plan_table, plan_totals

_CHECKED_FLOPS = 40 * 10**9
"""Operations that an emulated network computes in about a minute."""
_DEFAULT_ERROR = 1e-5
"""Default limit on the deviation of algorithms on this computer."""


def compile(asked: Compile, chain: Toolchain) -> None:
    """A network as a whole, with its code; run and timed unless that is not wanted."""
    asked.options.require_undivided()
    asked.division.require_undivided()
    require_networks(chain.machine, "--layers for the products of the network alone")
    options, output, clock = asked.options, asked.output, StageClock()
    asked.search.require_whole(
        "add --layers",
        top=options.top > 0 and not chain.executes_here,
        check_each_algorithm=options.check_each_algorithm,
    )
    if options.out is not None:
        require_replaceable(options.out)
    network = read_network(asked.network, asked.operator, chain.usual_type)
    if options.training:
        network = training_step(network)
    # Without code to write or run nobody needs the weights' numbers.
    timed = options.measure and chain.executes_here
    weights: Mapping[str, Array] | None = {}
    if options.out is not None or options.check or timed:
        weights = None
    compiled, seconds = compiled_network(
        network, chain, asked.search, output, options.top, weights, clock
    )
    found = _judged(asked, chain, network, compiled, seconds, clock)
    if options.training:
        found = found.with_passes(passes_of(simplified(network)))
    if options.out is not None:
        with progress_bar(output, clock) as progress:
            progress("write", 0, 1)
            compiled.write(options.out, result=found)
        found = structs.replace(found, output=str(options.out))
    found = structs.replace(found, timings=clock.seconds)
    show_network(found, output)
    if options.timings:
        show_timings(found.timings, output)


def _judged(
    asked: Compile,
    chain: Toolchain,
    network: Network,
    compiled: NativeNetwork,
    seconds: float,
    clock: StageClock,
) -> NetworkRun:
    """The figures of a network: compared, or run and timed, as far as that is wanted."""
    options, output = asked.options, asked.output
    if options.check and not chain.executes_here:
        comparison = checked(network, compiled, chain, asked.search, output, clock)
        found = _described(compiled, chain, seconds, output, clock)
        return structs.replace(found, comparison=comparison)
    if options.check or (options.measure and chain.executes_here):
        inputs = read_inputs(network, None)
        other: Other | None = "reference" if options.check else None
        return measured(compiled, network, inputs, asked.search, output, seconds, other, clock)[0]
    return _described(compiled, chain, seconds, output, clock)


def _described(
    compiled: NativeNetwork,
    chain: Toolchain,
    seconds: float,
    output: OutputOptions,
    clock: StageClock,
) -> NetworkRun:
    """The figures that need no run: simulated where the machine is not this computer."""
    with progress_bar(output, clock) as progress:
        if not chain.executes_here:
            progress("simulate", 0, 1)
        return compiled.described(seconds)


def run(asked: Run, chain: Toolchain) -> None:
    """Run a network, compare it, and time it."""
    asked.division.require_undivided()
    require_networks(chain.machine)
    search, output, other = asked.search, asked.output, asked.compare.other
    search.require_whole("compile --layers takes it", top=asked.top > 0 and not chain.executes_here)
    network = read_network(asked.workload_name, asked.operator, chain.usual_type)
    given = asked.inputs and read_inputs(network, asked.inputs)  # before what takes long
    compiled, seconds = compiled_network(network, chain, search, output, asked.top)
    inputs = given or read_inputs(network, None)
    found, outputs = measured(compiled, network, inputs, search, output, seconds, other)
    if asked.out is not None:
        write_arrays(asked.out, outputs)
        found = structs.replace(found, output=str(asked.out))
    show_network(found, output)


def measured(
    compiled: NativeNetwork,
    network: Network,
    inputs: Mapping[str, Array],
    search: SearchOptions,
    output: OutputOptions,
    seconds: float,
    other: Other | None,
    clock: StageClock | None = None,
) -> tuple[NetworkRun, dict[str, Array]]:
    """The run of a network on these inputs, and its outputs, compared where that is asked."""
    network, weights = _for_comparison(network, compiled, other)
    with progress_bar(output, clock) as progress:
        progress("run", 0, 1)
        return compiled.measured(
            network,
            weights,
            inputs,
            compare=other,
            compile_seconds=seconds,
            bound=largest_deviation(search),
        )


def checked(
    network: Network,
    compiled: NativeNetwork,
    chain: Toolchain,
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
        compiled, _ = compiled_network(few, chain, search, output, 0, compiled.weights, clock)
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


def compiled_network(
    network: Network,
    chain: Toolchain,
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
        networks = require_networks(chain.machine)
        compiled = networks.compile(simplified(network), chain.machine, how, progress=progress)
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
    """The inputs in the file, or random ones; ShapeError for a file that does not fit."""
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
