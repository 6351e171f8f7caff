"""The code of a network: choose kernels and layouts, plan, place, emit.

In: a network, whose weights need no values, and a machine. Out: `NetworkCode`, not yet compiled.
Numba, its compiler and priced spaces would stay in this process's memory, so `native` runs this
module in a process of its own.
"""

from __future__ import annotations

from math import prod

from tilewright.common.dtypes import dtype
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network
from tilewright.graph.names import safe_name
from tilewright.machine import Machine
from tilewright.network.build import build_plan
from tilewright.network.plan import Plan
from tilewright.network.planning.products import Ranked
from tilewright.network.plans import Search
from tilewright.network.requirements import require_lowered
from tilewright.network.results import StageResult
from tilewright.targets.host.emit.products import compiler_flags, instruction_set_of
from tilewright.targets.host.network.emit import Emitted, host_sources
from tilewright.targets.host.network.kernels import StageKernels, without_unread_borders
from tilewright.targets.host.network.places import everything_placed
from tilewright.targets.host.network.planner import (
    HostPlanner,
    bytes_read_and_written,
    rank_beside,
    ranked_kernels,
)
from tilewright.targets.host.network.run import NetworkCode
from tilewright.targets.host.sections import Caches


def generated(
    network: Network,
    machine: Machine,
    search: Search,
    progress: Progress = silent,
    *,
    beside: bool = False,
) -> NetworkCode:
    """The code of a network, not yet compiled. With `beside`, forked copies of this process help to
    rank its kernels. Raises GraphError for a node that cannot run here.
    """
    require_lowered(network, machine)
    if beside:
        rank_beside(network, machine, search, progress)
    ranked = ranked_kernels(network, machine, search, progress)
    return network_code(network, machine, ranked, progress)


def network_code(
    network: Network, machine: Machine, ranked: Ranked, progress: Progress = silent
) -> NetworkCode:
    """The code of a network whose products are computed by `ranked` candidates."""
    rules, name = HostPlanner(machine), safe_name(network.name)
    plan = build_plan(network, machine, ranked=ranked, planner=rules, progress=progress)
    kernels, flags = StageKernels(name, machine, rules), compiler_flags(machine)
    plan = without_unread_borders(plan, kernels, progress)
    places = everything_placed(plan, kernels, machine.thread_count)
    isa, caches = instruction_set_of(machine), machine.find_section(Caches)
    ahead = caches.squares_ahead if caches else 1
    emitted = Emitted(name, plan, places, machine.thread_count, isa, network.cases, ahead)
    firsts, tensors = [stages[0] for stages in emitted.functions], network.tensors
    public = (*network.inputs, *network.weights, *(tensors[name] for name, *_ in plan.outputs))
    return NetworkCode(
        name,
        plan.dtype,
        isa.name,
        flags,
        machine.thread_count,
        host_sources(emitted, kernels.artifacts, flags),
        tuple((t.name, t.shape) for t in network.inputs),
        tuple((name, tensors[name].shape) for name, *_ in plan.outputs),
        tuple((t.name, t.shape) for t in network.weights),
        places.constants,
        places.constant_bytes,
        places.arena_bytes,
        {t.name: t.dtype for t in public},
        tuple(_stage_result(stage, emitted, machine) for stage in firsts),
        tuple(plan.stages[stage].flops for stage in firsts),
        plan.states,
        emitted.complete if plan.states else {},
        network.cases,
        places.live_bytes if plan.states else 0,
    )


def _stage_result(number: int, emitted: Emitted, machine: Machine) -> StageResult:
    """A stage's result before any run; the time of a product is the model's estimate."""
    stage, call = emitted.plan.stages[number], emitted.places.calls.get(number)
    product = stage.work == "product"
    return StageResult(
        stage.name,
        stage.label,
        stage.candidate.seed.name if product else "",
        1e3 * (stage.scheduled.cycles / machine.clock_hz) if product else None,
        work=stage.work,
        causes=dict(call.kernel.causes) if call else {},
        nodes=stage.nodes,
        moved_bytes=_moved(number, emitted.plan),
    )


def _moved(number: int, plan: Plan) -> int:
    """Bytes that a stage reads and writes."""
    stage = plan.stages[number]
    if stage.op.in_memory is not None:
        return sum(bytes_read_and_written(stage.op.in_memory))
    values = (plan.values[v] for v in (*stage.reads, stage.writes))
    return sum(prod(v.form.shape) * dtype(v.dtype).size_bytes for v in values)
