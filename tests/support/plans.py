"""Plans of networks on a simulated machine, and numbers on which they are exact."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from support.definitions import network_of
from support.networks import merged
from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Network
from tilewright.graph.zoo import network
from tilewright.machine import load_machine
from tilewright.network.build import build_plan, rank_network
from tilewright.network.plan import Plan
from tilewright.network.planning.products import Ranked
from tilewright.network.plans import Search
from tilewright.ops import Conv2d

GROUP = load_machine("sw26010_cg")
ONE_WAY = Search(algorithm="implicit", keep=1)
"""One algorithm for every convolution: enough where the plan is looked at and not its speed."""


def quick_search(net: Network) -> Search:
    """One way for convolutions where there are any: what is asked for has to apply somewhere."""
    convolves = any(node.op.kind == "conv2d" for node in net.nodes)
    return ONE_WAY if convolves else Search(keep=1)


def quick_ranking(net: Network) -> Ranked:
    """The products of `quick_search`, but by vectors where a convolution has one channel a group,
    which is a product of matrices of one element else.
    """
    found = rank_network(net, GROUP, quick_search(net))
    narrow = [
        op for op in found.candidates if isinstance(op, Conv2d) and op.groups == op.in_channels > 1
    ]
    if not narrow:
        return found
    alone = merged([network_of(op) for op in narrow])
    by_vectors = rank_network(alone, GROUP, Search(algorithm="direct_vectors", keep=1))
    return replace(found, candidates={**found.candidates, **by_vectors.candidates})


STEEP = 64
"""Sums of multiples of it leave tanh at -1, 0 or 1, and softmax at a single 1 or equal parts."""


@cache
def lenet_plan(*, fuse: bool = True) -> Plan:
    """LeNet-5 for one image on one group."""
    return build_plan(network("lenet5", 1), GROUP, ONE_WAY, fuse=fuse)


def steep_numbers(net: Network, seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and weights that are small multiples of a steep number, for an exact LeNet-5."""
    rng = np.random.default_rng(seed)
    inputs = {t.name: rng.integers(-2, 3, t.shape).astype(float) for t in net.inputs}
    weights = {
        t.name: (4 * STEEP * rng.integers(-2, 3, t.shape)).astype(float) for t in net.weights
    }
    kind = dtype(next(iter(net.tensors.values())).dtype).numpy
    return tuple({n: x.astype(kind) for n, x in d.items()} for d in (inputs, weights))  # type: ignore[return-value]
