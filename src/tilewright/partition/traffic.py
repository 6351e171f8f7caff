"""Activity of links and cores in each layer: bytes over every link, and what each core does.

In: a plan and a model of the machine. Out: a `LayerTraffic` for each layer, the form of
`traffic.json` (docs/reference/partition.md). Messages go along rows first, as in `timing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from tilewright.machine.messages import Link
from tilewright.partition.core_model import CoreModel
from tilewright.partition.parts import work_of
from tilewright.partition.plan import PartitionPlan, Planned
from tilewright.partition.timing import link_loads


class LinkTraffic(Struct, frozen=True):
    """Bytes on the link from core `source` to core `target`, its neighbour."""

    source: int
    target: int
    bytes: int


class CoreTraffic(Struct, frozen=True):
    """A core's part of the layer's `work`, and the bytes that it sends, receives, and loads of
    weights and inputs. A multicast leaves its source once.
    """

    core: int
    work: float
    sent_bytes: int
    received_bytes: int
    loaded_bytes: int


class LayerTraffic(Struct, frozen=True):
    """One layer; links and cores that have nothing to do are left out."""

    name: str
    links: tuple[LinkTraffic, ...]
    cores: tuple[CoreTraffic, ...]


def layer_traffic(plan: PartitionPlan, model: CoreModel) -> list[LayerTraffic]:
    """The traffic of each layer."""
    made = {planned.layer.output for planned in plan.layers}
    found = []
    for planned, exchanges in zip(plan.layers, plan.exchanges, strict=True):
        carried: Counter[Link] = Counter()
        for sent in exchanges.each:
            carried.update(link_loads(model, sent)[0])
        links = tuple(
            LinkTraffic(source, target, values * model.value_bytes)
            for (source, target), values in sorted(carried.items())
            if target not in (source, -1)
        )
        cores = tuple(_cores(planned, plan.cores, carried, made, model.value_bytes))
        found.append(LayerTraffic(planned.layer.name, links, cores))
    return found


def _cores(
    planned: Planned, count: int, carried: Mapping[Link, int], made: set[str], value_bytes: int
) -> Iterator[CoreTraffic]:
    layer = planned.layer
    shares = dict(zip(planned.cores, planned.division.shares, strict=True))
    for core in range(count):
        work, loaded = 0.0, 0
        if share := shares.get(core):
            work = work_of(layer, share)
            read = layer.needed(share.summed, share.terms)
            loaded = sum(box.size for name, box in read if name not in made)
            weights = layer.weights(share.summed, share.terms, share.kept)
            loaded += sum(box.size for _, box in weights)
        values = (carried.get((core, core), 0), carried.get((core, -1), 0), loaded)
        if work or any(values):
            yield CoreTraffic(core, work, *(value * value_bytes for value in values))
