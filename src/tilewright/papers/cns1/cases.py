"""The machines and networks of the report's tables (Table 3.1), and rates from their times."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.machine import Machine, load_machine
from tilewright.targets.cns1.timing.forward import Conditions
from tilewright.targets.cns1.timing.layers import Layers
from tilewright.targets.cns1.timing.memory import refresh_factor
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
        """The network."""
        return NETWORKS[self.network]

    def machine(self) -> Machine:
        """The machine."""
        return load_machine(f"cns1-{self.nodes}{CHIPS[self.chips]}")

    def recall(self, conditions: Conditions) -> RecallTimes:
        """Times of two patterns."""
        return recall_times(self.machine(), self.layers, conditions)

    def training(self, conditions: Conditions) -> TrainingTimes:
        """Times of one pattern."""
        return training_times(self.machine(), self.layers, conditions)


SHAPES = ((128, "192M"), (128, "768M"), (128, "1536M"), (1024, "768M"), (1024, "1536M"))
CASES = tuple(TableCell(nodes, network, chips) for chips in CHIPS for nodes, network in SHAPES)
MODEL = TableCell(128, "192M", "4.5 Mb")
"""The model conditions of section 5.1.1."""


def recall_rate(case: TableCell, cycles: float) -> float:
    """Giga connections per second of two patterns in `cycles`, refreshes at their worst (5.1.2)."""
    machine = case.machine()
    seconds = cycles * refresh_factor(machine) / machine.clock_hz
    return 2 * case.layers.connections / seconds / 1e9


def training_rate(case: TableCell, cycles: float) -> float:
    """Giga connection updates per second; refreshes are left out (7.1)."""
    return case.layers.connections * case.machine().clock_hz / cycles / 1e9


def recall_share(case: TableCell, rate: float) -> float:
    """Percent of the peak of 1 GMAS a node."""
    return 100 * rate / case.nodes


def training_share(case: TableCell, rate: float) -> float:
    """Percent of the peak: updates need n_ma multiply-accumulates for n_con weights (7.1.1)."""
    return 100 * rate / training_peak(case)


def training_peak(case: TableCell) -> float:
    """Giga connection updates per second at the peak."""
    layers = case.layers
    updates = (2 * layers.inputs + 3 * layers.outputs) * layers.hidden + 0.5 * layers.outputs
    return case.nodes * layers.connections / updates
