"""Networks that are planned and simulated stage by stage, for `simulate` and `explain`."""

from __future__ import annotations

import time

from tilewright.cli.output import OutputOptions, progress_bar
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.graph import Network
from tilewright.network.build import build_plan, rank_network
from tilewright.network.refusal import require_networks
from tilewright.network.search import BY_THE_MODEL, Search
from tilewright.network.simulate import PlanRun, simulate_plan


def simulated(
    network: Network,
    chain: Toolchain,
    output: OutputOptions,
    how: Search = BY_THE_MODEL,
    *,
    unfused: bool,
) -> tuple[PlanRun, PlanRun | None, float]:
    """(the run of the plan, that of the plan with a stage for every operator, seconds of planning).

    Raises SimulationError where the machine is measured and not simulated, ToolError where it runs
    no networks.
    """
    chain.require_simulated()
    machine = chain.machine
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
