"""Running and timing a compiled network: the whole, its stages, another computation beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from tilewright.codegen.artifact import Array
from tilewright.graph.graph import Network
from tilewright.network.plans import Other
from tilewright.network.results import Comparison, NetworkRun, StageResult
from tilewright.targets.host.network.rival import onnxruntime_session
from tilewright.targets.host.network.run import BoundNetwork
from tilewright.tune.sampling import (
    Contender,
    Protocol,
    interleaved,
    protocol_for,
    ratio_of_speeds,
)

if TYPE_CHECKING:
    from tilewright.targets.host.network.native import HostNetwork

_OURS = "tilewright"


def measure_network(
    compiled: HostNetwork,
    network: Network,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *,
    compare: Other | None = None,
    compile_seconds: float = 0.0,
    protocol: Protocol | None = None,
) -> tuple[NetworkRun, dict[str, Array]]:
    """(figures, outputs by name), of these inputs by name. With `compare` the same is computed by
    another, from `network` and `weights`, and timed in turn with ours where that is onnxruntime.

    Raises ToolError where onnxruntime is asked for and not installed.
    """
    bound = compiled.bind(inputs)
    bound.repeat(1)
    outputs = bound.outputs()
    threads = compiled.code.threads
    protocol = protocol or protocol_for(threads)
    contenders = [Contender(_OURS, bound.repeat, threads)]
    comparison: Comparison | None = None
    if compare == "onnxruntime":
        other = onnxruntime_session(network, weights, inputs, threads)
        other.repeat(1)
        difference = largest_difference(outputs, other.outputs())
        timings = interleaved(
            [*contenders, Contender("onnxruntime", other.repeat, threads)], protocol
        )
        ratio = ratio_of_speeds(timings[_OURS], timings["onnxruntime"])
        theirs = 1e3 * timings["onnxruntime"].seconds
        comparison = Comparison(
            "onnxruntime", other.version, difference, theirs, ratio.median, ratio.spread
        )
    else:
        if compare == "reference":
            expected = network.evaluate({**weights, **inputs})
            difference = largest_difference(outputs, expected)
            comparison = Comparison("reference", "", difference)
        timings = interleaved(contenders, protocol)
    timing, flops = timings[_OURS], sum(stage.flops for stage in compiled.code.stages)
    run = structs.replace(
        _measured(described(compiled, compile_seconds), compiled, bound),
        milliseconds=1e3 * timing.seconds,
        gflops=flops / timing.seconds / 1e9,
        clock=timing.clock,
        comparison=comparison,
    )
    return run, outputs


def largest_difference(found: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """The largest difference of an output over its largest magnitude; nan counts as infinite."""
    worst = 0.0
    for name, array in expected.items():
        scale = float(np.abs(array).max()) or 1.0
        apart = np.abs(found[name].astype(np.float64) - array)
        worst = max(worst, float(np.where(np.isnan(apart), np.inf, apart).max()) / scale)
    return worst


def described(compiled: HostNetwork, compile_seconds: float = 0.0) -> NetworkRun:
    """What is known of a network that was not run."""
    code = compiled.code
    stages = tuple(
        StageResult(
            stage.name,
            stage.label,
            stage.algorithm,
            None if stage.estimate_seconds is None else 1e3 * stage.estimate_seconds,
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
    )


def _measured(found: NetworkRun, compiled: HostNetwork, bound: BoundNetwork) -> NetworkRun:
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
