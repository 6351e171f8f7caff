"""`tilewright explain` of a whole network: simulated stage by stage, or run on this computer."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cli.options import OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, progress_bar
from tilewright.cli.run_network import compiled_network, read_inputs, usual_type
from tilewright.cli.simulate_network import simulated
from tilewright.cli.workload import read_network
from tilewright.codegen.artifact import LOADS
from tilewright.compiler.stage import (
    measured_stage,
    require_nameable,
    simulated_stage,
    stage_routines,
)
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.machine import Machine
from tilewright.network.explain import Routines, explained, measured_explanation
from tilewright.network.results import NetworkRun
from tilewright.network.search import Search
from tilewright.network.simulate import described
from tilewright.report.network import network_table, plan_table
from tilewright.report.network_explain import measured_explanation_text, network_explanation_text
from tilewright.report.stage import stage_text


def explain_network(
    name: str,
    machine: Machine,
    options: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
) -> None:
    """Say why a network takes the time that it takes on a machine."""
    rewrites: list[str] = []
    network = read_network(name, options, usual_type(machine))
    fewer = simplified(network, lambda name, *_: rewrites.append(name))
    if LOADS.of(machine) is not None:
        run = _measured(network, machine, search, output)
        show_explained_run(run, output, tuple(rewrites))
        return
    how = Search(search.algorithm, search.max_error)
    planned, unfused, seconds = simulated(fewer, machine, output, how, unfused=True)
    run = described(planned, plan_seconds=seconds, unfused=unfused)
    with progress_bar(output) as progress:
        routines = stage_routines(planned.plan, progress)
    show_explained_run(run, output, tuple(rewrites), routines)


def _measured(
    network: Network, machine: Machine, search: SearchOptions, output: OutputOptions
) -> NetworkRun:
    """The run of a network on this computer, as `tilewright run` makes it."""
    compiled, seconds = compiled_network(network, machine, search, output, 0)
    with progress_bar(output) as progress:
        progress("run", 0, 1)
        inputs = read_inputs(network, None)
        found, _ = compiled.measured(network, {}, inputs, compile_seconds=seconds)
    return found


def explain_stage(
    network: Network, name: str, machine: Machine, search: SearchOptions, output: OutputOptions
) -> None:
    """Say what one stage of a network does that is no product, and why it takes its time."""
    require_nameable(network, name)
    if LOADS.of(machine) is not None:
        found = measured_stage(_measured(network, machine, search, output), name)
    else:
        how = Search(search.algorithm, search.max_error)
        run, _, _ = simulated(simplified(network), machine, output, how, unfused=False)
        found = simulated_stage(run, name)
    output.value(found)
    output.show(stage_text(found))


def show_explained_run(
    run: NetworkRun,
    output: OutputOptions,
    rewrites: tuple[str, ...] = (),
    routines: Sequence[Routines] = (),
) -> None:
    """Print the stages of a run and why they take their time."""
    if run.cycles is None:
        measured = measured_explanation(run, rewrites=rewrites)
        output.value(measured)
        output.show(network_table(run, output.columns), "", measured_explanation_text(measured))
        return
    found = explained(run, rewrites=rewrites, routines=routines)
    output.value(found)
    output.show(plan_table(run, output.columns), "", network_explanation_text(found))
