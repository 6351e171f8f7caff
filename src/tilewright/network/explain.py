"""Why a network takes its time: stages by cause, changes of layout, how far from the best.

In: the run of a network. Out: the `--json` form, a `NetworkExplanation` where it was simulated and
a `MeasuredExplanation` on this computer; `report.network` prints both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tilewright.codegen.artifact import RoutineCycles
from tilewright.network.results import LayoutChange, NetworkRun, PlanBounds

Routines = tuple[RoutineCycles, ...]
"""Routines that a stage's code calls, with their cycles."""
_NO_BOUNDS = PlanBounds(0, 0, 0, 0)


class StageTime(Struct, frozen=True):
    """The cycles of one stage by cause, which sum to its own; `nodes` are those it computes, and
    `routines` the distinct calls of its code, as often as a core makes them.
    """

    stage: str
    nodes: tuple[str, ...]
    cycles: int
    causes: dict[str, int]
    routines: Routines = ()


class NetworkExplanation(Struct, frozen=True):
    """The run of a network, why it takes its time, and the least that it could take.

    No plan of these operators computes faster than the peak, or moves what is given, known and
    asked for faster than the engine. By the model the plan takes `estimate_cycles`; its products
    alone at least `lower_bound_product_cycles`, each in the layouts that suit it best. `rewrites`
    are those that changed the graph, in order.
    """

    run: NetworkRun
    stages: tuple[StageTime, ...]
    layouts: tuple[LayoutChange, ...]
    lower_bound_compute_cycles: int
    lower_bound_transfer_cycles: int
    estimate_cycles: int
    lower_bound_product_cycles: int
    rewrites: tuple[str, ...] = ()


def explained(
    run: NetworkRun, *, rewrites: tuple[str, ...] = (), routines: Sequence[Routines] = ()
) -> NetworkExplanation:
    """The explanation of a simulated network, with the `routines` of each stage where known."""
    bounds = run.bounds or _NO_BOUNDS
    called = routines or [()] * len(run.stages)
    return NetworkExplanation(
        run,
        tuple(
            StageTime(s.name, s.nodes, s.cycles or 0, s.causes, own)
            for s, own in zip(run.stages, called, strict=True)
        ),
        run.layouts,
        bounds.compute_cycles,
        bounds.transfer_cycles,
        bounds.estimate_cycles,
        bounds.product_cycles,
        rewrites,
    )


class MeasuredExplanation(Struct, frozen=True):
    """The run of a network on this computer, and where its time goes: the stages' milliseconds by
    work, none where nothing was measured, and the cycles of the products' estimates by cause.

    Of the `elementwise` operators (biases, normalisations, activations, sums) `in_products` run in
    the kernel of the product that they follow, `merged` in the pass of another one, and `passes` is
    how many passes there are.
    """

    run: NetworkRun
    work_milliseconds: dict[str, float]
    product_causes: dict[str, int]
    elementwise: int
    in_products: int
    merged: int
    passes: int
    rewrites: tuple[str, ...] = ()


def measured_explanation(run: NetworkRun, *, rewrites: tuple[str, ...] = ()) -> MeasuredExplanation:
    """The explanation of a network that was compiled for this computer."""
    work, causes = dict[str, float](), Counter[str]()
    for stage in run.stages:
        if stage.measured_milliseconds is not None:
            work[stage.work] = work.get(stage.work, 0.0) + stage.measured_milliseconds
        causes.update(stage.causes)
    behind = [len(s.nodes) - 1 for s in run.stages if s.work == "product" and s.nodes]
    gathered = {node for s in run.stages if s.work == "window" for node in s.nodes}
    elementwise = [s for s in run.stages if s.work == "elementwise"]
    passes = [len(s.nodes) for s in elementwise if not gathered.issuperset(s.nodes)]
    in_products, merged = sum(behind), sum(passes) - len(passes)
    return MeasuredExplanation(
        run,
        dict(sorted(work.items(), key=lambda item: -item[1])),
        dict(causes.most_common()),
        in_products + sum(passes),
        in_products,
        merged,
        len(passes),
        rewrites,
    )
