"""Whole networks that a machine runs as one, compiled.

In: a network. Out: what the machine's family compiled of it, compared, timed and explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tilewright.codegen.artifact import Array
from tilewright.common.deferred import Deferred
from tilewright.common.progress import Progress, silent
from tilewright.compiler.compiled import Compiled, Figures, Outputs
from tilewright.compiler.settings import Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.rewrites.images import FewerImages, batch_of
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import random_inputs, random_weights
from tilewright.network.explain import explained as explained_run
from tilewright.network.explain import measured_explanation
from tilewright.network.plans import NativeNetwork, Other
from tilewright.network.refusal import require_networks
from tilewright.network.results import Comparison, NetworkRun
from tilewright.network.search import Search

if TYPE_CHECKING:
    from tilewright.compiler import explanation
    from tilewright.network import build, requirements, simulate
else:  # heavy: numba
    explanation = Deferred("tilewright.compiler.explanation")
    build = Deferred("tilewright.network.build")
    requirements = Deferred("tilewright.network.requirements")
    simulate = Deferred("tilewright.network.simulate")

_CHECKED_FLOPS = 40 * 10**9
"""Operations that an emulated network computes in about a minute."""
_DEFAULT_ERROR = 1e-5
"""Default limit on the deviation of algorithms on this computer."""


def _search(settings: Settings) -> Search:
    return Search(
        settings.algorithm,
        settings.max_error,
        settings.keep,
        settings.top,
        settings.max_roundings,
    )


def _compared(made: CompiledNetwork, progress: Progress) -> Comparison | None:
    """The emulated code against the reference, for as many images as emulation computes in a
    minute or so; fewer images than the network's have a plan of their own.
    """
    network, plan = made.workload.whole, made.plan
    batch = batch_of(network) or 1
    flops = sum(op.flops for _, op in network.layers())
    count = max(1, min(batch, _CHECKED_FLOPS * batch // max(1, flops)))
    few = FewerImages(count).apply(network)
    if few is not network:
        how = replace(made.settings, progress=progress)
        plan = made.planned(Workload.of(few), made.toolchain, how)
        plan.weights.update(made.plan.weights)
    progress("check", 0, 1)
    found, _ = plan.measured(
        few,
        dict(made.plan.weights),
        random_inputs(few),
        compare="reference",
        bound=_largest_deviation(made.settings),
    )
    if few is network or found.comparison is None:
        return found.comparison
    return structs.replace(found.comparison, images=count)


def _largest_deviation(settings: Settings) -> float | None:
    """The largest difference in a comparison, None for what the element type allows: algorithms
    that are chosen for their deviation may have ten times that of one layer.
    """
    if settings.max_error is None or settings.max_error <= _DEFAULT_ERROR:
        return None
    return 10 * settings.max_error


def _unfused(made: CompiledNetwork, progress: Progress) -> simulate.PlanRun:
    """The run of a plan with a stage for every operator."""
    network = requirements.without_look_ups(simplified(made.workload.whole))
    plan = build.build_plan(
        network, made.machine, _search(made.settings), fuse=False, progress=progress
    )
    return simulate.simulate_plan(plan, progress=progress)


class CompiledNetwork(Compiled[NativeNetwork]):
    """A network that a machine runs as one."""

    @staticmethod
    def planned(workload: Workload, chain: Toolchain, settings: Settings) -> NativeNetwork:
        """The network as the family of the machine compiles it."""
        networks, network = require_networks(chain.machine), workload.whole
        how = _search(settings)
        return networks.compile(simplified(network), chain.machine, how, progress=settings.progress)

    @property
    def title(self) -> str:
        """The network and its machine."""
        return f"{self.name}: whole network on {self.machine.name}"

    def run(
        self, *inputs: Array, weights: Mapping[str, Array] | None = None, **named: Array
    ) -> Outputs:
        """The outputs of the network."""
        return self.plan.run(*inputs, weights=weights, **named)

    def draw_weights(self) -> None:
        """Random numbers for the weights that have none."""
        self.plan.weights.update(random_weights(self.workload.whole))

    def figures(self, progress: Progress = silent) -> NetworkRun:
        """The figures that need no run: simulated where the machine is not this computer."""
        if not self.toolchain.executes_here:
            progress("simulate", 0, 1)
        return self.plan.described(self.seconds)

    def judged(self, *, check: bool, measure: bool, progress: Progress = silent) -> NetworkRun:
        """Compared with the reference, or run and timed, as far as that is wanted."""
        here = self.toolchain.executes_here
        if check and not here:
            comparison = _compared(self, progress)
            return structs.replace(self.figures(progress), comparison=comparison)
        if check or (measure and here):
            compare: Other | None = "reference" if check else None
            return self.measure(compare=compare, progress=progress)[0]
        return self.figures(progress)

    def measure(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        compare: Other | None = None,
        progress: Progress = silent,
    ) -> tuple[NetworkRun, Outputs]:
        """The run of the network on these inputs. Without a comparison the weights are not kept,
        since the plan has constants of its own.
        """
        network, weights = self.workload.whole, dict(self.plan.weights)
        if compare is None:
            network, weights = replace(network, values={}), {}
        given = random_inputs(network) if inputs is None else inputs
        progress("run", 0, 1)
        return self.plan.measured(
            network,
            weights,
            given,
            compare=compare,
            compile_seconds=self.seconds,
            bound=_largest_deviation(self.settings),
        )

    def simulate(
        self, *, unfused: bool = False, progress: Progress = silent, **_: Any
    ) -> NetworkRun:
        """The figures of the plan on the simulator, beside those of the `unfused` one."""
        self.toolchain.require_simulated()
        found = self.plan.described(self.seconds)
        if not unfused:
            return found
        return structs.replace(found, unfused_cycles=_unfused(self, progress).cycles)

    def explanation(
        self,
        part: str | None = None,
        *,
        routines: bool = True,
        progress: Progress = silent,
        **_: bool,
    ) -> Figures:
        """One stage of the network explained, or all of it."""
        here, rewrites = self.toolchain.executes_here, list[str]()
        if here:
            self.draw_weights()
        if part is not None:
            if here:
                return explanation.measured_stage(self.measure(progress=progress)[0], part)
            return explanation.simulated_stage(self.plan.simulated, part)
        simplified(self.workload.whole, lambda name, *_: rewrites.append(name))
        if here:
            found = self.measure(progress=progress)[0]
            return measured_explanation(found, rewrites=tuple(rewrites))
        found = self.simulate(unfused=True, progress=progress)
        called = explanation.stage_routines(self.plan.simulated.plan, progress) if routines else ()
        return explained_run(found, rewrites=tuple(rewrites), routines=called)

    def written(
        self,
        directory: Path,
        result: NetworkRun,
        progress: Progress = silent,
        weights: Mapping[str, Array] | None = None,
    ) -> NetworkRun:
        """Write code, constants and figures."""
        progress("write", 0, 1)
        self.plan.write(directory, weights, result=result)
        return structs.replace(result, output=str(directory))


COMPILED = CompiledNetwork
