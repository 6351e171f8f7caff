"""Whole networks that a machine runs as one program, as a `Compiled`.

In: a network. Out: its compilation by the machine's family; compared, timed and explained.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.deferred import Deferred
from tilewright.common.progress import Progress, silent
from tilewright.compiler.compiled import Compiled, Explaining, Figures, Outputs, Simulating
from tilewright.compiler.settings import Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.rewrites.images import batch_of, fewer_images
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import RandomWeights, random_inputs
from tilewright.network.explain import explained as explained_run
from tilewright.network.explain import measured_explanation
from tilewright.network.plans import NativeNetwork, Other, Search, Session, require_networks
from tilewright.network.results import NetworkRun

if TYPE_CHECKING:
    from tilewright.compiler import explanation
    from tilewright.network import build, requirements, simulate
else:  # heavy: numba
    explanation = Deferred("tilewright.compiler.explanation")
    build = Deferred("tilewright.network.build")
    requirements = Deferred("tilewright.network.requirements")
    simulate = Deferred("tilewright.network.simulate")

_CHECKED_FLOPS = 40 * 10**9
"""Operations of a network that take about a minute emulated."""
_DEFAULT_ERROR = 1e-5
"""Default limit on the deviation of algorithms on this computer."""


def _search(settings: Settings) -> Search:
    return Search(
        settings.algorithm, settings.max_error, settings.keep, settings.top, settings.max_roundings
    )


def _largest_deviation(settings: Settings) -> float | None:
    """The largest difference allowed in a comparison; None for the element type's bound. Algorithms
    chosen with a looser limit may deviate by ten times one layer's.
    """
    if settings.max_error is None or settings.max_error <= _DEFAULT_ERROR:
        return None
    return 10 * settings.max_error


class CompiledWhole(Compiled[NativeNetwork]):
    """Networks that a machine runs as one program."""

    @staticmethod
    def planned(workload: Workload, chain: Toolchain, settings: Settings) -> NativeNetwork:
        networks, network = require_networks(chain.machine), workload.whole
        how = _search(settings)
        return networks.compile(simplified(network), chain.machine, how, progress=settings.progress)

    @property
    def title(self) -> str:
        return f"{self.name}: whole network on {self.machine.name}"

    def run(self, *inputs: Array, weights: Arrays | None = None, **named: Array) -> Outputs:
        return self.plan.run(*inputs, weights=weights, **named)

    def session(self, states: Arrays) -> Session:
        return self.plan.session(states)

    def draw_weights(self) -> None:
        self.plan.know(RandomWeights(self.workload.whole))

    def figures(self, progress: Progress = silent) -> NetworkRun:
        if not self.toolchain.executes_here:
            progress("simulate", 0, 1)
        return self.plan.described(self.seconds)

    def judged(self, *, check: bool, measure: bool, progress: Progress = silent) -> NetworkRun:
        here = self.toolchain.executes_here
        if check and not here:
            run, found = self._checked(progress), self.figures(progress)
            return structs.replace(found, comparison=run.comparison, saturated=run.saturated)
        if check or (measure and here):
            other: Other | None = "reference" if check else None
            return self.measure(compare=other, progress=progress)[0]
        return self.figures(progress)

    def _checked(self, progress: Progress) -> NetworkRun:
        """The run of emulated code compared with the reference, on as many images as emulation
        computes in about a minute. Fewer images than the network's need a plan of their own.
        """
        network, plan = self.workload.whole, self.plan
        batch = batch_of(network) or 1
        flops = sum(op.flops for _, op in network.layers())
        count = max(1, min(batch, _CHECKED_FLOPS * batch // max(1, flops)))
        few = fewer_images(network, count)
        if few is not network:
            how = replace(self.settings, progress=progress)
            plan = self.planned(Workload.of(few), self.toolchain, how)
            plan.know(self.plan.weights)
        progress("check", 0, 1)
        found, _ = plan.measured(
            few,
            dict(self.plan.weights),
            random_inputs(few),
            compare="reference",
            bound=_largest_deviation(self.settings),
        )
        if few is network or found.comparison is None:
            return found
        return structs.replace(found, comparison=structs.replace(found.comparison, images=count))

    def measure(
        self,
        inputs: Arrays | None = None,
        *,
        compare: Other | None = None,
        progress: Progress = silent,
    ) -> tuple[NetworkRun, Outputs]:
        """The run of the network on these inputs. Without a comparison the weights are dropped,
        since the plan has constants of its own.
        """
        network = self.workload.whole
        weights = {} if compare is None else dict(self.plan.weights)
        if compare is None:
            network = replace(network, values={})
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

    def _simulated(self, asked: Simulating, progress: Progress) -> NetworkRun:
        """The figures of the simulated plan, with the `unfused` plan's cycles if requested."""
        self.toolchain.require_simulated()
        found = self.plan.described(self.seconds)
        if not asked.unfused:
            return found
        return structs.replace(found, unfused_cycles=self._unfused(progress).cycles)

    def _unfused(self, progress: Progress) -> simulate.PlanRun:
        """The run of a plan with a stage for every operator."""
        network = requirements.without_look_ups(simplified(self.workload.whole))
        plan = build.build_plan(
            network, self.machine, _search(self.settings), fuse=False, progress=progress
        )
        return simulate.simulate_plan(plan, progress=progress)

    def _explained(self, asked: Explaining, progress: Progress) -> Figures:
        here, rewrites = self.toolchain.executes_here, list[str]()
        if here:
            self.draw_weights()
        part = asked.part
        if part is not None:
            if here:
                return explanation.measured_stage(self.measure(progress=progress)[0], part)
            return explanation.simulated_stage(self.plan.simulated, part)
        simplified(self.workload.whole, lambda name, *_: rewrites.append(name))
        if here:
            run, _ = self.measure(progress=progress)
            return measured_explanation(run, rewrites=tuple(rewrites))
        found = self.simulate(unfused=True, progress=progress)
        called = (
            explanation.stage_routines(self.plan.simulated.plan, progress) if asked.routines else ()
        )
        return explained_run(found, rewrites=tuple(rewrites), routines=called)

    def _write(
        self, directory: Path, weights: Arrays | None, found: NetworkRun, progress: Progress
    ) -> NetworkRun:
        progress("write", 0, 1)
        self.plan.write(directory, weights, result=found)
        return structs.replace(found, output=str(directory))


WAY = CompiledWhole
