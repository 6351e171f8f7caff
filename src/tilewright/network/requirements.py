"""Requirements of a network on a machine, checked before any search.

In: a network, or the values of its plan. Out: nothing, or an error that names operators without a
stage, or tensors that live at the same time and together exceed main memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tilewright.common.dtypes import HALVES, dtype
from tilewright.common.errors import CapacityError, GraphError
from tilewright.graph.graph import Network, Node
from tilewright.graph.liveness import needed_spans
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.images import batch_of, fewer_images
from tilewright.graph.rewrites.look_ups import with_look_ups
from tilewright.graph.rewrites.over_groups import over_groups
from tilewright.graph.rewrites.recompute import recomputing
from tilewright.graph.rewriting import simplified
from tilewright.machine import Machine
from tilewright.machine.check import capacity_setting
from tilewright.network.planning.arena import Life
from tilewright.network.planning.lowering import is_lowered
from tilewright.ops import CONTRACTIONS
from tilewright.ops.definitions import definitions_in, moves
from tilewright.passes.lowering import lowering_of

_SHOWN = 5
_FILLED = 0.9
"""Share of main memory that a training step's tensors may fill; forms with borders and copies in
other orders need the rest.
"""


def own_part(network: Network, machine: Machine) -> tuple[Network, int]:
    """(the network on one group's images, number of groups that have images)."""
    batch, groups = batch_of(network) or 0, machine.groups.count
    if network.states:
        part = over_groups(network, groups)
        used = 1 if part is network else groups
        return within_memory(part, machine), used
    count = -(-batch // groups) if batch > 1 else batch
    part = fewer_images(network, count)
    return part, 1 if part is network else -(-batch // count)


def within_memory(network: Network, machine: Machine) -> Network:
    """The network, recomputing as many activations as fitting a group's memory takes."""
    if not network.states:
        return network
    moved = machine.bytes_per_cycle(machine.dma, machine.dma.get) * machine.clock_hz
    flops_per_byte = machine.peak_flops_of(machine.core.usual_type) / moved
    return recomputing(network, int(_FILLED * machine.main.capacity_bytes), flops_per_byte)


def without_look_ups(network: Network, *, reads: bool = True) -> Network:
    """The network with look-ups turned into products; without `reads`, only those that sum."""
    found = with_look_ups(network, reads=reads)
    return network if found is network else simplified(found)


def require_no_look_ups(network: Network) -> None:
    """Raise GraphError for look-ups: programs address along loops only."""
    for node in network.nodes:
        if not node.op.is_named and any(own.has_look_ups for own in definitions_in(node.op)):
            raise GraphError(
                f"node {node.name}: {node.op.describe()[:60]} reads or adds at places that an "
                "operand names",
                fix="plan requirements.without_look_ups of the network",
            )


def require_lowered(network: Network, machine: Machine) -> None:
    """Raise GraphError for operators without a stage."""
    for node in network.nodes:
        if not _has_types(node, fixed=lowering_of(machine).fixed_point):
            raise GraphError(
                f"node {node.name}: no stage on {machine.name} computes {node.op.kind} of "
                f"{node.op.dtype}",
                fix="products, windows and functions of elements take floats of one type; integers "
                "and truth values are computed by definitions and moved",
            )
    missing = {
        node.op.kind: node.name
        for node in reversed(network.nodes)
        if not is_lowered(node.op) and node.op.kind not in CONTRACTIONS
    }
    if missing:
        named = ", ".join(f"{kind} ({name})" for kind, name in sorted(missing.items()))
        raise GraphError(
            f"no stage on {machine.name} computes {named}",
            fix="stages compute products, elementwise operators, pooling, reductions, softmax, "
            "local response, concat, pad, reshape, resize, slice, space_to_depth and transpose",
        )


def _has_types(node: Node, *, fixed: bool) -> bool:
    """True if stages support the node's element types, on a machine that may compute in `fixed`."""
    numerics, narrow = node.op.numerics, node.op.dtype in [kind.name for kind in HALVES]
    if fixed and numerics.result.kind == "fixed":
        return numerics.in_reals or node.op.kind in CONTRACTIONS or moves(node.op)
    parts = [] if node.op.is_named else definitions_in(node.op)
    if parts and all(part.gather is None for part in parts):
        return not narrow or all(part.body == "x0" for part in parts)
    return moves(node.op) or (numerics.is_float and not numerics.is_mixed and not narrow)


def require_room(network: Network, machine: Machine) -> None:
    """Raise CapacityError where tensors that live at once exceed a group's main memory in any
    layout, with every possible fusion.
    """
    lives = [(name, Life(*span)) for name, span in needed_spans(network).items()]
    refuse_crowded(network, lives, machine)


def refuse_crowded(
    network: Network, lives: Sequence[tuple[str, Life]], machine: Machine, needed: int = 0
) -> None:
    """Raise CapacityError where values that live at once, or the `needed` bytes of their places,
    exceed main memory. The error names the largest values at the fullest point.
    """
    change: dict[int, int] = {}
    for _, life in lives:
        change[life.first] = change.get(life.first, 0) + life.size_bytes
        change[life.last + 1] = change.get(life.last + 1, 0) - life.size_bytes
    stages = sorted(change)
    totals = list(accumulate(change[stage] for stage in stages))
    most, room = max([*totals, needed]), machine.main.capacity_bytes
    if most <= room:
        return
    at = stages[totals.index(max(totals))]
    fullest = [(value, life) for value, life in lives if life.first <= at <= life.last]
    largest = sorted(fullest, key=lambda pair: (-pair[1].size_bytes, pair[0]))
    shown = ", ".join(f"{quoted(v)} {life.size_bytes:,} bytes" for v, life in largest[:_SHOWN])
    more = f" and {len(largest) - _SHOWN} smaller ones" if len(largest) > _SHOWN else ""
    raise CapacityError(
        f"{network.name} needs {most:,} bytes of main memory, a group of {machine.name} has "
        f"{room:,}; at the same time live {shown}{more}",
        fix=_smaller(network, most),
    )


def _smaller(network: Network, needed: int) -> str:
    """Options that shrink the network's tensors, or raise main memory to the `needed` bytes."""
    widest = max(dtype(t.dtype).size_bytes for t in network.tensors.values())
    ways = ["a smaller --batch"] * ((batch_of(network) or 1) > 1)
    ways += ["--dtype f32"] * (widest > dtype("f32").size_bytes)
    return ", or ".join([*ways, capacity_setting("main", needed) or "another --machine"])
