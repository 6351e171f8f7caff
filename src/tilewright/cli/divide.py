"""Networks on machines whose cores divide them: what the commands do with those."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field, structs

from tilewright.cli.arguments import Compile, Explain, Run, Simulate
from tilewright.cli.networks import read_inputs, require_alike
from tilewright.cli.options import DivisionOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import (
    OutputOptions,
    StageClock,
    UsageProblem,
    progress_bar,
    show_timings,
)
from tilewright.cli.workload import read_network
from tilewright.codegen.artifact import Array
from tilewright.codegen.folder import (
    NETWORK_FILE,
    new_folder,
    require_replaceable,
    write_arrays,
    write_bytes,
    write_text,
)
from tilewright.codegen.stored import read_stored
from tilewright.common.deferred import Deferred
from tilewright.common.errors import PartitionError, TilewrightError
from tilewright.common.version import tool_version
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph import Network
from tilewright.graph.weights import random_weights
from tilewright.machine.model import document_of
from tilewright.network.plans import Other
from tilewright.network.rival import against
from tilewright.partition.capability import DIVIDES
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.grids import IMAGES
from tilewright.partition.objective import ACTIVATIONS, TIME, TRAFFIC, Weights
from tilewright.partition.plan import space
from tilewright.report.division import (
    DividedRun,
    cost_table,
    division_explanation,
    division_table,
    division_totals,
)
from tilewright.report.division_picture import layer_picture
from tilewright.report.findings import Finding

if TYPE_CHECKING:
    from tilewright.report import division_model
else:  # heavy: onnx
    division_model = Deferred("tilewright.report.division_model")

_FORMAT = "tilewright divided network 2"
_PICTURED = (2, IMAGES)
"""Dimensions of results that pictures show: matrices and images."""
_FITS = "a core's share fits its buffers"


class Written(Struct, frozen=True):
    """The main file of a divided network's folder, which lists the other `files`."""

    format: str
    version: str
    description: dict[str, Any] = field(name="machine")
    divided: DividedRun
    files: tuple[str, ...] = ("plan.json", "traffic.json", "layers")


def compile(asked: Compile, chain: Toolchain) -> None:
    """Plan, print, and write what was asked for."""
    options, output = asked.options, asked.output
    others = {"check-each-algorithm": options.check_each_algorithm, "top": options.top > 0}
    _require_divisions(asked.search, others)
    if options.out is not None:
        require_replaceable(options.out)
    network, clock = _network(asked.network, chain, asked.operator), StageClock()
    strategy = asked.search.partition
    divided, result = _divided(network, chain, strategy, output, asked.division, clock)
    if options.check:
        inputs = read_inputs(network, None)
        _, result = _computed(divided, result, inputs, asked.search, "reference", output, clock)
    if options.out is not None:
        _write(divided, result, options.out)
    if options.onnx_out is not None:
        write_bytes(options.onnx_out, division_model.divided_model(divided, result))
    result = structs.replace(result, timings=clock.seconds)
    show_division(result, output, options.out, options.onnx_out)
    if options.timings:
        show_timings(result.timings, output)


def run(asked: Run, chain: Toolchain) -> None:
    """Compute a network on all cores."""
    _require_divisions(asked.search, {"top": asked.top > 0})
    network, output = _network(asked.workload_name, chain, asked.operator), asked.output
    given = asked.inputs and read_inputs(network, asked.inputs)  # before what takes long
    divided, result = _divided(network, chain, asked.search.partition, output, asked.division)
    inputs, other = given or read_inputs(network, None), asked.compare.other
    outputs, result = _computed(divided, result, inputs, asked.search, other, output)
    if asked.out is not None:
        write_arrays(asked.out, outputs)
        result = structs.replace(result, output=str(asked.out))
    show_division(result, output, asked.out)


def simulate(asked: Simulate, chain: Toolchain) -> None:
    """The time of a network on all cores."""
    network = _network(str(asked.source), chain, asked.network.undivided())
    division, output = asked.division, asked.output
    show_division(_divided(network, chain, division.partition, output, division)[1], output)


def explain(asked: Explain, chain: Toolchain) -> None:
    """The time of a network on all cores, and which layers take it for what."""
    _require_divisions(asked.search, {})
    network, output = _network(asked.subject, chain, asked.operator), asked.output
    _, found = _divided(network, chain, asked.search.partition, output, asked.division)
    show_explained(found, output)


def show_explained(found: DividedRun, output: OutputOptions) -> None:
    """Print a divided network and what takes the time of its slowest layers."""
    show_division(found, output)
    output.show("", *division_explanation(found))


def check_divided(network: Network, chain: Toolchain, output: OutputOptions) -> tuple[Finding, ...]:
    """Findings on each distinct layer: refused if no division of it fits the cores' buffers."""
    machine = chain.machine
    try:
        layers, model = DIVIDES.required(machine).planned(network, machine)
    except TilewrightError as error:
        return (_finding(network.name, "cores compute its operators and elements", error),)
    found: dict[object, Finding] = {}
    with progress_bar(output) as progress:
        for number, layer in enumerate(layers):
            progress("check", number, len(layers))
            if layer.shape_key not in found:
                problem = None
                try:
                    space([layer], machine.cores, model=model)
                except PartitionError as error:
                    problem = error
                found[layer.shape_key] = _finding(layer.name, _FITS, problem)
    return tuple(found.values())


def _finding(subject: str, rule: str, problem: TilewrightError | None) -> Finding:
    if problem is None:
        return Finding(subject, rule, "ok")
    return Finding(subject, rule, "refused", problem.message, problem.fix)


def show_division(found: DividedRun, output: OutputOptions, *written: Path | None) -> None:
    """Print a divided network and what was `written`; CheckFailed where outputs differ."""
    output.value(found)
    output.show(division_table(found), cost_table(found), *division_totals(found))
    output.show(*(f"written to {path}" for path in written if path is not None))
    require_alike(found.comparison, output)


def _network(name: str, chain: Toolchain, operator: OperatorOptions) -> Network:
    return read_network(name, operator, chain.usual_type)


def _divided(
    network: Network,
    chain: Toolchain,
    strategy: str | None,
    output: OutputOptions,
    division: DivisionOptions,
    clock: StageClock | None = None,
) -> tuple[DividedNetwork, DividedRun]:
    """A plan, and its times."""
    weights, most_work = _weights(division.objective), division.most_work or 1.0
    with progress_bar(output, clock) as progress:
        divided = DIVIDES.required(chain.machine).divide(
            network,
            chain.machine,
            strategy,
            weights,
            most_work,
            place=division.place,
            progress=progress,
        )
        result = divided.result(progress)
    return divided, DividedRun(**structs.asdict(result))


def _computed(
    divided: DividedNetwork,
    result: DividedRun,
    inputs: Mapping[str, Array],
    search: SearchOptions,
    other: Other | None,
    output: OutputOptions,
    clock: StageClock | None = None,
) -> tuple[dict[str, Array], DividedRun]:
    """The outputs of all cores' programs, with random weights where there are none; compared with
    another computation's where that is asked.
    """
    weights = random_weights(divided.network)
    feeds = {**weights, **inputs}
    with progress_bar(output, clock) as progress:
        outputs = divided.run(feeds, progress)
    if other is None:
        return outputs, result
    network = divided.network
    found = against(other, network, weights, inputs, outputs, search.max_error)
    return outputs, structs.replace(result, comparison=found)


def _require_divisions(search: SearchOptions, others: Mapping[str, bool]) -> None:
    """Raise UsageProblem for what only kernels take that are compiled alone."""
    given = {
        "algorithm": search.algorithm is not None,
        "records": search.records is not None,
        "executor": search.executor != SearchOptions.executor,
        **others,
    }
    for option, is_given in given.items():
        if is_given:
            raise UsageProblem(f"--{option} is for kernels: cores that divide a network take none")


def read_divided(directory: Path) -> Written:
    """Read what `compile -o` wrote for a divided network; raises ArtifactError."""
    return read_stored(directory / NETWORK_FILE, Written, _FORMAT)


def _weights(objective: str | None) -> Weights:
    """`traffic`, `activations`, `time`, or traffic with so many values for a cycle."""
    known = {None: TRAFFIC, "traffic": TRAFFIC, "activations": ACTIVATIONS, "time": TIME}
    if objective in known:
        return known[objective]
    try:
        cycles = float(objective or "")
    except ValueError:
        cycles = math.nan
    if not 0 < cycles < math.inf:
        raise UsageProblem(
            f"--objective takes traffic, activations, time, or how many values a cycle counts, "
            f"found {objective!r}"
        )
    return replace(TRAFFIC, cycles=cycles)


def _write(divided: DividedNetwork, result: DividedRun, out: Path) -> None:
    """`network.json` with the result, `plan.json` with all shares and moves, `traffic.json` with
    links and cores, and a picture of each layer of images or a matrix, `layers/NAME.svg`.
    """
    with new_folder(out) as folder:
        plans = divided.layer_plans()
        written = Written(_FORMAT, tool_version(), document_of(divided.machine), result)
        files = {NETWORK_FILE: written, "plan.json": plans, "traffic.json": divided.traffic()}
        for file, value in files.items():
            text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            write_text(folder / file, f"{text}\n")
        (folder / "layers").mkdir()
        for plan, layer in zip(plans, result.layers, strict=True):
            shape = divided.network.tensors[plan.result].shape
            if len(shape) in _PICTURED:
                heading = f"{layer.name} on {result.machine}: {layer.divides}, grid {layer.grid}"
                heading += f" ({layer.strategy})"
                cores = divided.plan.cores
                picture = layer_picture(plan, shape, cores, heading, layer.inputs)
                write_text(folder / "layers" / f"{plan.name}.svg", picture)
