"""The code of a network: choose kernels and layouts, plan, emit.

In: a network, whose weights need no numbers, and a machine. Out: `NetworkCode`, not compiled yet.
Numba, its compiler and priced spaces stay in the memory of a process, so `apart` runs this in one
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted, safe_name
from tilewright.machine import Machine
from tilewright.network.form import Form
from tilewright.network.forms import Forms
from tilewright.network.search import Search
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.targets.host.network.build import build_plan
from tilewright.targets.host.network.emit import emit_network
from tilewright.targets.host.network.fuse import grouped
from tilewright.targets.host.network.kernels import Kernels
from tilewright.targets.host.network.layouts import Layouts, Way
from tilewright.targets.host.network.plan import NetworkPlan, Stage, moved_elements
from tilewright.targets.host.network.run import NetworkCode, StageInfo
from tilewright.targets.host.products import compiler_flags, instruction_set_of
from tilewright.tune.choose import Choice, choose, confirm_choice
from tilewright.tune.native import NativeMeasure


def generated(
    network: Network, machine: Machine, search: Search, progress: Progress = silent
) -> NetworkCode:
    """The code of a network, not compiled yet; GraphError where a node cannot be run."""
    _require_one_float(network)
    _require_known_weights(network)
    choices, forms = _choices(network, machine, search, progress), Forms()
    layouts = Layouts(grouped(network), machine, {t.name for t in network.weights})
    measured = bool(search.top)
    ways = {c.op: _ways(c, forms, machine, measured=measured) for c in choices.values()}
    chosen = layouts.chosen(ways)
    candidates = {op: way.candidate for op, way in chosen.items()}
    kernels = Kernels(
        safe_name(network.name),
        candidates,
        machine,
        forms,
        lambda done: progress("generate", done, max(done, len(candidates))),
    )
    return network_code(network, machine, kernels)


def _require_one_float(network: Network) -> None:
    """Stages of a network share one element type."""
    kinds = sorted({tensor.dtype for tensor in network.tensors.values()})
    if len(kinds) > 1 or not dtype(kinds[0]).is_float:
        raise GraphError(
            f"network {network.name} has tensors of {' and '.join(kinds)}, but a whole network on "
            "this computer computes in one floating-point type",
            fix="compile its convolutions and products one by one, with --dtype",
        )


def _require_known_weights(network: Network) -> None:
    """Kernels of convolutions take weights that were packed before the network runs."""
    weights = {tensor.name for tensor in network.weights}
    for node in network.nodes:
        if isinstance(node.op, Conv2d) and node.inputs[1] not in weights:
            raise GraphError(
                f"node {node.name}: {node.op.describe()} cannot be run on this computer, since its "
                f"weights {quoted(node.inputs[1])} are not known before the network runs",
                fix="store them in the model",
            )


def _ways(choice: Choice, forms: Forms, machine: Machine, *, measured: bool) -> list[Way]:
    """The best candidate under each form of what is read and written, best first; the winner alone
    where it was found by measuring.
    """
    found: dict[tuple[Form, ...], Way] = {}
    for option in choice.options[: 1 if measured else None]:
        candidate = option.candidate
        own = forms.of(candidate, constants=False)
        way = Way(candidate, own, candidate.cycles / machine.clock_hz)
        found.setdefault(tuple(own.values()), way)
    return list(found.values())


def network_code(network: Network, machine: Machine, kernels: Kernels) -> NetworkCode:
    """The code of a network whose products are computed by these kernels."""
    plan, memory = build_plan(network, kernels, machine.thread_count)
    flags = compiler_flags(machine)
    shapes = {t.name: t.shape for t in network.tensors.values()}
    return NetworkCode(
        plan.name,
        plan.dtype,
        instruction_set_of(machine).name,
        flags,
        plan.threads,
        emit_network(plan, kernels.artifacts, flags),
        tuple((t.name, t.shape) for t in network.inputs),
        tuple((name, shapes[name]) for name, _ in plan.outputs),
        tuple((t.name, t.shape) for t in network.weights),
        tuple(memory.constants),
        plan.constant_bytes,
        plan.arena_bytes,
        tuple(_stage_info(stage, plan) for stage in plan.stages),
    )


def _stage_info(stage: Stage, plan: NetworkPlan) -> StageInfo:
    return StageInfo(
        stage.name,
        stage.label,
        stage.algorithm,
        stage.flops,
        stage.estimate_seconds,
        stage.kind,
        stage.causes,
        stage.nodes,
        moved_elements(stage.work, plan.values) * dtype(plan.dtype).size_bytes,
    )


def _choices(
    network: Network, machine: Machine, search: Search, progress: Progress
) -> dict[str, Choice]:
    """What was chosen for each distinct product, by the name of the first layer that is one."""
    firsts: dict[Op, str] = {op: layer for layer, op in reversed(list(network.layers()))}
    if not firsts:
        return {}
    by_weights = [op for op in firsts if _takes_weights(op, network)]
    others = [op for op in firsts if op not in by_weights]
    choices: list[Choice] = []

    def steps(done: int, total: int) -> None:
        """What is priced of `ops`, in proportion to their number."""
        progress("choose", len(choices) + len(ops) * done // max(1, total), len(firsts))

    for ops, algorithm in ((others, search.algorithm), (by_weights, "prepacked")):
        choices += choose(
            ops,
            machine,
            algorithm=algorithm,
            max_error=search.max_error,
            strict=False,
            keep=max(search.keep, search.top),
            names=[firsts[op] for op in ops],
            steps=steps,
        )
    if search.top:
        choices = _confirmed(choices, search.top, machine, progress)
    return {firsts[choice.op]: choice for choice in choices}


def _confirmed(
    choices: Sequence[Choice], top: int, machine: Machine, progress: Progress
) -> list[Choice]:
    """The choices with the `top` best candidates of each measured."""
    measure, confirmed = NativeMeasure(), list[Choice]()
    for choice in choices:
        progress("confirm", len(confirmed), len(choices))
        confirmed.append(confirm_choice(choice, top, machine, measure))
    progress("confirm", len(confirmed), len(choices))
    return confirmed


def _takes_weights(op: Op, network: Network) -> bool:
    """Whether the second operand of each such matrix product is known before the network runs."""
    weights = {tensor.name for tensor in network.weights}
    seconds = [node.inputs[1] for node in network.nodes if node.op == op]
    return isinstance(op, Gemm) and all(name in weights for name in seconds)
