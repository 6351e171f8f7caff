"""The machines and networks of the report's tables (Table 3.1), rates from times, and the parts of
a pass: cycles of the closed form beside those of a simulated node, cause by cause.

Parts sum to the total on both sides, so their differences sum to the difference of the totals. The
closed form's waits are sums that no product hides; a node's waits are cycles spent waiting for a
message or its interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.machine import Machine, load_machine
from tilewright.papers.model import Row, compare
from tilewright.targets.cns1.timing.forward import Conditions
from tilewright.targets.cns1.timing.layers import Layers, refresh_factor
from tilewright.targets.cns1.timing.recall import RecallTimes, recall_times
from tilewright.targets.cns1.timing.training import TrainingTimes, training_times

NETWORKS = {
    "192M": Layers(8192, 16384, 4096),
    "768M": Layers(16384, 32768, 8192),
    "1536M": Layers(16384, 65536, 8192),
}
CHIPS = {"4.5 Mb": "", "18 Mb": "-18mb"}
WORST = Conditions()
BEST = Conditions(table_elements=16384, worst_lookups=False)
SMALL_WORST, LARGE_BEST = Conditions(16384, True), Conditions(32768, False)


def machine_with(chips: str, nodes: int = 128) -> Machine:
    """The machine with so many nodes and these memory chips."""
    return load_machine(f"cns1-{nodes}{CHIPS[chips]}")


@dataclass(frozen=True)
class TableCell:
    """One cell of a table: nodes, connections, chips."""

    nodes: int
    network: str
    chips: str

    @property
    def name(self) -> str:
        """The row's name."""
        return f"{self.network} on {self.nodes} nodes, {self.chips}"

    @property
    def layers(self) -> Layers:
        """The network's layers."""
        return NETWORKS[self.network]

    def machine(self) -> Machine:
        return machine_with(self.chips, self.nodes)

    def recall(self, conditions: Conditions) -> RecallTimes:
        """Times of recalling two patterns."""
        return recall_times(self.machine(), self.layers, conditions)

    def training(self, conditions: Conditions) -> TrainingTimes:
        """Times of training on one pattern."""
        return training_times(self.machine(), self.layers, conditions)


SHAPES = ((128, "192M"), (128, "768M"), (128, "1536M"), (1024, "768M"), (1024, "1536M"))
CASES = tuple(TableCell(nodes, network, chips) for chips in CHIPS for nodes, network in SHAPES)
MODEL = TableCell(128, "192M", "4.5 Mb")
"""The model conditions of section 5.1.1."""


def recall_rate(case: TableCell, cycles: float) -> float:
    """Giga connections per second for two patterns, with worst-case refreshes (5.1.2)."""
    machine = case.machine()
    seconds = cycles * refresh_factor(machine) / machine.clock_hz
    return 2 * case.layers.connections / seconds / 1e9


def training_rate(case: TableCell, cycles: float) -> float:
    """Giga connection updates per second, without refreshes (7.1)."""
    return case.layers.connections * case.machine().clock_hz / cycles / 1e9


def recall_share(case: TableCell, rate: float) -> float:
    """Percent of the peak of 1 GMAS per node."""
    return 100 * rate / case.nodes


def training_share(case: TableCell, rate: float) -> float:
    """Percent of the peak; updates take n_ma multiply-accumulates for n_con weights (7.1.1)."""
    return 100 * rate / training_peak(case)


def training_peak(case: TableCell) -> float:
    """Giga connection updates per second at the peak."""
    layers = case.layers
    updates = (2 * layers.inputs + 3 * layers.outputs) * layers.hidden + 0.5 * layers.outputs
    return case.nodes * layers.connections / updates


Parts = Mapping[str, float]
PRODUCTS, MAPS, UPDATES = "products", "look-ups and maps", "updates"
HANDLING, WAITS = "processor for sums and messages", "waits for messages"
OUTSIDE, AROUND = "I/O", "procedures and threads"
_ROUTINES = {
    PRODUCTS: ("product", "loop_product", "group", "rows", "loop_group", "part"),
    MAPS: ("sigmoid", "errors", "loop_errors", "scale", "map"),
    UPDATES: ("update", "loop_update", "preload"),
}


def recall_parts(times: RecallTimes) -> Parts:
    """Cycles of recall by part, without instruction misses."""
    forward, both = times.forward, times.forward.in_all
    busy = {
        PRODUCTS: float(both.product_cycles),
        MAPS: float(both.sigmoid_cycles),
        HANDLING: float(both.sum_processor_cycles),
    }
    waits = forward.hidden_cycles + forward.outputs_cycles - sum(busy.values())
    around = times.reading_cycles + times.writing_cycles
    return {**busy, WAITS: waits, OUTSIDE: around, AROUND: times.overhead_cycles}


def training_parts(times: TrainingTimes) -> Parts:
    """Cycles of training by part, without instruction misses."""
    forward, back = times.forward, times.backward
    both = forward.in_all
    steps = forward.hidden_cycles + forward.outputs_cycles + back.total_cycles
    products = both.product_cycles + back.rounds * back.local_cycles + back.parameter_cycles
    maps, scaling = both.sigmoid_cycles, back.rounds * back.scaling_cycles
    handling = both.sum_processor_cycles + back.rounds * back.sum_processor_cycles
    waits = steps - products - maps - scaling - handling
    updates = times.update_outputs_cycles + times.update_hidden_cycles
    return {PRODUCTS: products, MAPS: maps + scaling + times.error_cycles, UPDATES: updates,
            HANDLING: handling, WAITS: waits, OUTSIDE: times.reading_cycles,
            AROUND: times.overhead_cycles}  # fmt: skip


def node_parts(spent: Mapping[str, int], waits: int) -> dict[str, float]:
    """A node's cycles by label, grouped into the parts of the closed form. Labels of no routine
    belong to sums and messages.
    """
    found = dict.fromkeys((PRODUCTS, MAPS, UPDATES, HANDLING), 0.0)
    for label, cycles in spent.items():
        found[_part_of(label)] += cycles
    found[HANDLING] -= waits
    return found | {WAITS: float(waits)}


def _part_of(label: str) -> str:
    """The part of a routine; its labels start with the routine's name."""
    for part, names in _ROUTINES.items():
        if any(label == name or label.startswith((f"{name}_", f"{name}s")) for name in names):
            return part
    return HANDLING


def simulated_row(name: str, said: float | None, cycles: float, note: str = "") -> Row:
    """A row of simulated cycles beside those of the closed form, a listing or a table."""
    return compare(name, said, cycles, "simulated", note=note, unit="cycles", printed=False)


def rows_of_parts(name: str, closed: Parts, found: Parts, why: Mapping[str, str]) -> Iterator[Row]:
    """A row for each part with the cause of its difference, then the total."""
    for part in dict.fromkeys((*_ORDER, *found)):
        own, said = found.get(part, 0.0), closed.get(part, 0.0)
        if not own and not said:
            continue
        note = "; ".join([f"{own - said:+.0f} of the difference", *filter(None, [why.get(part)])])
        yield simulated_row(f"{name}: {part}", said, own, note)
    totals = sum(closed.values()), sum(found.values())
    note = f"{totals[1] - totals[0]:+.0f} in all"
    yield simulated_row(f"{name}: all parts", *totals, note)


_ORDER = (PRODUCTS, MAPS, UPDATES, HANDLING, WAITS, OUTSIDE, AROUND)
