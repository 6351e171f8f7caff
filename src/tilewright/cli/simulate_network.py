"""`tilewright simulate` of a whole network: every stage on one clock."""

from __future__ import annotations

import time

from tilewright.cli.output import OutputOptions, progress_bar
from tilewright.cli.simulate import NetworkOptions
from tilewright.cli.workload import read_network
from tilewright.codegen.artifact import LOADS
from tilewright.common.errors import SimulationError
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.machine import Machine
from tilewright.network.build import build_plan, rank_network
from tilewright.network.refusal import require_networks
from tilewright.network.search import BY_THE_MODEL, Search
from tilewright.network.simulate import PlanRun, described, simulate_plan
from tilewright.report.network import plan_table, plan_totals


def simulate_network(
    name: str, machine: Machine, options: NetworkOptions, output: OutputOptions
) -> None:
    """Plan a network, simulate its stages, and say where the time goes."""
    network = simplified(read_network(name, options.chosen()))
    run, unfused, seconds = simulated(network, machine, output, unfused=options.unfused)
    found = described(run, plan_seconds=seconds, unfused=unfused)
    output.value(found)
    output.show(plan_table(found, output.columns), plan_totals(found))


def simulated(
    network: Network,
    machine: Machine,
    output: OutputOptions,
    how: Search = BY_THE_MODEL,
    *,
    unfused: bool,
) -> tuple[PlanRun, PlanRun | None, float]:
    """(the run of the plan, that of the plan with a stage for every operator, seconds of planning).

    Raises SimulationError where the machine is measured and not simulated, ToolError where it runs
    no networks.
    """
    if LOADS.of(machine) is not None:
        raise SimulationError(
            f"machine {machine.name!r} is this computer: it is measured, not simulated",
            fix="tilewright run, or another --machine",
        )
    require_networks(machine, simulated=True)
    started = time.perf_counter()
    with progress_bar(output) as progress:
        ranked = rank_network(network, machine, how, progress=progress)
        plan = build_plan(network, machine, how, ranked=ranked, progress=progress)
        seconds = time.perf_counter() - started
        run, other = simulate_plan(plan, progress=progress), None
        if unfused:
            plain = build_plan(network, machine, how, fuse=False, ranked=ranked, progress=progress)
            other = simulate_plan(plain, progress=progress)
    return run, other, seconds
