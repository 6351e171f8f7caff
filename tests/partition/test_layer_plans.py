"""The plan as data has all that a runtime needs: it is carried out here from nothing else."""

import msgspec
import numpy as np
import pytest

from tilewright.graph import network
from tilewright.partition.divided import SUMS, LayerPlan, layer_plans
from tilewright.partition.layers import layers_of
from tilewright.partition.objective import Weights
from tilewright.partition.plan import space

CORES = 8
PLANS = {
    "exchanged": {},
    "recomputed": {"most_work": 3.0, "recompute": True, "strategies": ("tiles",)},
    "divided sums": {"strategies": ("terms",)},
}


def slices(region):
    return tuple(slice(first, stop) for first, stop in region)


def planned(how):
    layers = layers_of(network("lenet5", 2))
    plan = space(layers, CORES, Weights(1, 0, 1), **PLANS[how]).best()
    written = msgspec.json.encode(layer_plans(plan))
    return layers, msgspec.json.decode(written, type=list[LayerPlan])


@pytest.mark.parametrize("how", PLANS)
def test_cores_have_what_they_read_by_their_keeps_and_moves(how):
    """A runtime that knows tensors and regions alone: nothing is read that did not arrive."""
    layers, plans = planned(how)
    shapes = {layer.output: layer.shape for layer in layers}
    assert any(plan.strategy == "recomputed" for plan in plans) == (how == "recomputed")
    have = {}
    for plan in plans:
        arrived = {owner: mask.copy() for owner, mask in have.items()}
        for move in plan.moves:
            assert move.rounds == tuple((t - move.source) % CORES for t in move.targets)
            if move.tensor == plan.result + SUMS:
                assert move.adds
                continue
            assert have[move.tensor, move.source][slices(move.region)].all()
            for target in move.targets:
                nothing = np.zeros(shapes[move.tensor], bool)
                arrived.setdefault((move.tensor, target), nothing)[slices(move.region)] = True
        for part in plan.parts:
            for name, region in part.reads.items():
                if name in shapes:
                    mask = arrived.get((name, part.core), np.zeros(shapes[name], bool))
                    assert mask[slices(region)].all(), (plan.name, part.core)
            kept = have[plan.result, part.core] = np.zeros(shapes[plan.result], bool)
            kept[slices(part.keeps)] = True


def test_divided_sums_reach_who_keeps_them():
    _, plans = planned("divided sums")
    (plan,) = (plan for plan in plans if plan.name == "c3")
    got = {part.core: np.zeros((2, 16, 10, 10), int) for part in plan.parts}
    for part in plan.parts:
        got[part.core][slices(part.keeps)] += 1
    sums = [move for move in plan.moves if move.tensor == plan.result + SUMS]
    for move in sums:
        for target in move.targets:
            got[target][slices(move.region)] += 1
    for part in plan.parts:
        assert (got[part.core][slices(part.keeps)] == len(plan.parts)).all()
