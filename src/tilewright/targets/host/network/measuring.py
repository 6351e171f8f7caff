"""Run and time a compiled network: the whole, its stages, another computation beside it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from tilewright.codegen.artifact import Array
from tilewright.common.errors import BusyError
from tilewright.graph.graph import Network
from tilewright.network.plans import Other
from tilewright.network.results import Comparison, NetworkRun, StageResult
from tilewright.network.rival import against, against_onnxruntime, onnxruntime_session
from tilewright.targets.host.network.run import BoundNetwork
from tilewright.tune.sampling import (
    Contender,
    Protocol,
    Timing,
    interleaved,
    protocol_for,
    ratio_of_speeds,
)

if TYPE_CHECKING:
    from tilewright.targets.host.network.native import HostNetwork

_LOG = logging.getLogger(__name__)
_OURS = "tilewright"


def measure_network(
    compiled: HostNetwork,
    network: Network,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *,
    compare: Other | None = None,
    compile_seconds: float = 0.0,
    bound: float | None = None,
    protocol: Protocol | None = None,
) -> tuple[NetworkRun, dict[str, Array]]:
    """(figures, outputs by name), of these inputs by name. With `compare` the same is computed by
    another, from `network` and `weights`, and timed in turn with ours where that is onnxruntime;
    `bound` replaces that of `network.results`. Where the computer is too busy to be measured, a
    warning says so and the figures have no times.

    Raises ToolError where onnxruntime is asked for and not installed.
    """
    ours = compiled.bind(inputs)
    ours.repeat(1)
    outputs = ours.outputs()
    threads = compiled.code.threads
    contenders = [Contender(_OURS, ours.repeat, threads)]
    comparison: Comparison | None = None
    if compare == "onnxruntime":
        other = onnxruntime_session(network, weights, inputs, threads)
        contenders.append(Contender("onnxruntime", other.repeat, threads))
        comparison = against_onnxruntime(other, outputs, bound)
    elif compare == "reference":
        comparison = against(compare, network, weights, inputs, outputs, bound)
    run = structs.replace(described(compiled, compile_seconds), comparison=comparison)
    try:
        timings = interleaved(contenders, protocol or protocol_for(threads))
    except BusyError as error:
        _LOG.warning("times are the model's, not measured: %s", error.message)
        return run, outputs
    timing, flops = timings[_OURS], sum(stage.flops for stage in compiled.code.stages)
    run = structs.replace(
        _with_stages(run, compiled, ours),
        milliseconds=1e3 * timing.seconds,
        gflops=flops / timing.seconds / 1e9,
        clock=timing.clock,
        comparison=_timed(comparison, timings),
    )
    return run, outputs


def _timed(comparison: Comparison | None, timings: Mapping[str, Timing]) -> Comparison | None:
    """With the times of the other one, if it took any."""
    if comparison is None or "onnxruntime" not in timings:
        return comparison
    ratio = ratio_of_speeds(timings[_OURS], timings["onnxruntime"])
    return structs.replace(
        comparison,
        milliseconds=1e3 * timings["onnxruntime"].seconds,
        speedup=ratio.median,
        spread=ratio.spread,
    )


def described(compiled: HostNetwork, compile_seconds: float = 0.0) -> NetworkRun:
    """The results of a network that was not run."""
    code = compiled.code
    stages = tuple(
        StageResult(
            stage.name,
            stage.label,
            stage.algorithm,
            None if stage.estimate_seconds is None else 1e3 * stage.estimate_seconds,
            work=stage.work,
            causes=stage.causes,
            nodes=stage.nodes,
            moved_bytes=stage.moved_bytes,
        )
        for stage in code.stages
    )
    return NetworkRun(
        code.name,
        compiled.machine.name,
        code.dtype,
        stages,
        compile_seconds,
        code.constant_bytes,
        code.arena_bytes,
        state_bytes=code.state_bytes,
        live_bytes=code.live_bytes,
    )


def _with_stages(found: NetworkRun, compiled: HostNetwork, bound: BoundNetwork) -> NetworkRun:
    """With the times of the stages."""
    times = zip(found.stages, compiled.code.stages, compiled.profile(bound), strict=True)
    stages = tuple(
        structs.replace(
            stage,
            measured_milliseconds=1e3 * seconds,
            gflops=info.flops / max(seconds, 1e-9) / 1e9,
        )
        for stage, info, seconds in times
    )
    return structs.replace(found, stages=stages)
