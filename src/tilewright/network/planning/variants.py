"""The variants of a network that plans are drafted of.

In: a network. Out: equivalent `Variant`s: the network as it stands, and with maximum pooling moved
early. What depends on weights alone is separated and computed ahead of all runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.graph.graph import Network, Node
from tilewright.graph.rewrites.constants import without_ahead
from tilewright.graph.rewrites.early_pooling import early_pooling
from tilewright.graph.rewrites.fusion import fused_nodes, members
from tilewright.network.planning.epilogues import Request, epilogue_of
from tilewright.network.planning.layouts import NodeChain
from tilewright.ops import CONTRACTIONS, Conv2d
from tilewright.ops.op import Shape
from tilewright.seeds.pooling import windows_of


@dataclass(frozen=True, eq=False)
class Variant:
    """A network, the nodes that compute some of its weights `ahead`, and its fused chains."""

    network: Network
    ahead: tuple[Node, ...]
    chains: tuple[NodeChain, ...]


Pools = Callable[[Conv2d], bool]
"""True if some algorithm of a convolution may pool its result."""


def variants(network: Network, pools: Pools, *, fuse: bool) -> list[Variant]:
    """The network as it stands and, with `fuse`, also with early pooling."""
    if not fuse:
        return [_variant(network, pools, fuse=False)]
    distinct = dict.fromkeys(n.nodes for n in (network, early_pooling(network)))
    return [_variant(replace(network, nodes=nodes), pools, fuse=True) for nodes in distinct]


def _variant(network: Network, pools: Pools, *, fuse: bool) -> Variant:
    own, ahead = without_ahead(network)
    chains = _fused(own) if fuse else [(node,) for node in own.nodes]
    return Variant(own, ahead, tuple(_chains(_pooled(chains, own, pools) if fuse else chains, own)))


def as_it_stands(network: Network) -> Variant:
    """The network with nodes fused, but nothing computed ahead and no pooling in products."""
    return Variant(network, (), tuple(_chains(_fused(network), network)))


def _fused(network: Network) -> list[tuple[Node, ...]]:
    return [members(node) for node in fused_nodes(network).nodes]


def _chains(whole: Sequence[tuple[Node, ...]], network: Network) -> list[NodeChain]:
    """The fused chains, in order."""
    shapes = {t.name: t.shape for t in network.tensors.values()}
    return [NodeChain(nodes, _request(nodes, shapes)) for nodes in whole]


def _pooled(
    chains: Sequence[tuple[Node, ...]], network: Network, pools: Pools
) -> list[tuple[Node, ...]]:
    """The fused nodes, with a convolution joined to the pooling of its result where one of its
    algorithms may pool.
    """
    read = Counter(name for nodes in chains for node in nodes for name in node.inputs)
    read.update(network.outputs)
    found: dict[str, tuple[Node, ...]] = {}
    for nodes in chains:
        pool = nodes[0].op.pooling
        if pool is not None and windows_of(pool) and read[nodes[0].inputs[0]] == 1:
            made = found.get(nodes[0].inputs[0], ())
            conv = made[0].op.convolution if len(made) == 1 else None
            if conv is not None and pools(conv):
                nodes = (*found.pop(nodes[0].inputs[0]), *nodes)
        found[nodes[-1].output] = nodes
    return list(found.values())


def _request(nodes: Sequence[Node], shapes: dict[str, Shape]) -> Request | None:
    """A product with the epilogue of the nodes after it; None if they cannot form one."""
    if len(nodes) < 2 or nodes[0].op.kind not in CONTRACTIONS:
        return None
    epilogue = epilogue_of(nodes, shapes)
    return None if epilogue is None else (nodes[0].op, epilogue)
