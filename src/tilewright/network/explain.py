"""Explanation of a network's time: stages by cause, layout changes, distance from the bounds.

In: the run of a network. Out: the `--json` form, a `NetworkExplanation` for a simulated run or a
`MeasuredExplanation` on this computer; `report.network` prints both.
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
    """A stage's cycles by cause, which sum to `cycles`. `nodes` are the network's nodes that it
    computes; `routines` are the distinct calls of its code, each as often as a core makes it.
    """

    stage: str
    nodes: tuple[str, ...]
    cycles: int
    causes: dict[str, int]
    routines: Routines = ()


class NetworkExplanation(Struct, frozen=True):
    """A simulated run, its time by cause, and lower bounds on that time.

    `lower_bound_compute_cycles` has the products at the cores' peak; `lower_bound_transfer_cycles`
    has inputs, constants and outputs moved once at the engine's peak. `estimate_cycles` is the
    model's price of the plan, `lower_bound_product_cycles` that of its products alone, each in its
    best layouts. `rewrites` lists the graph rewrites that applied, in order.
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
    """The explanation of a simulated network, with each stage's `routines` where known."""
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
    """The run of a network on this computer, by work and by cause.

    `work_milliseconds` sums the stages' measured times by work (empty if unmeasured),
    `product_causes` the cycles of the products' estimates by cause. Of the `elementwise` operators
    (biases, normalisations, activations, sums), `in_products` run in the kernel of the product they
    follow and `merged` in another operator's pass; `passes` counts the passes.
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
    """The explanation of a network compiled for this computer."""
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
