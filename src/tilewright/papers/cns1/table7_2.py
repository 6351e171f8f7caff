"""Table 7.2: performance of training under model conditions, by lookups and instruction misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.papers.cns1.cases import MODEL, training_rate
from tilewright.papers.cns1.printed import Reading, printed_numbers, reproduced
from tilewright.papers.cns1.table7_4 import step_cycles
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "training under model conditions, by lookups and instruction misses"
_COLUMNS = tuple((pattern, size) for pattern in ("best", "worst") for size in (16, 32))
_MISSES = ("best", "worst")


def run(lab: Lab) -> Result:
    """Rates, and by how much the largest exceeds the least of a row or column."""
    rates = _rates(0.0)
    shorter = printed_numbers("table7_4")["total"] - step_cycles()["total"]
    spread = _deviations(printed_numbers("table7_2"))
    readings = {
        "rates": Reading("the total that Table 7.4 prints", _rates(shorter)),
        "deviations": Reading("the spread of the printed rates", spread),
    }
    return reproduced(lab, "table7_2", TITLE, rates | _deviations(rates), readings)


def _rates(more_cycles: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for misses in _MISSES:
        for pattern, size in _COLUMNS:
            conditions = Conditions(size << 10, pattern == "worst", misses == "worst")
            cycles = MODEL.training(conditions).total_cycles + more_cycles
            found[_name(misses, (pattern, size))] = training_rate(MODEL, cycles)
    return found


def _deviations(rates: Mapping[str, float]) -> dict[str, float]:
    found = {
        f"{misses} instruction misses: deviation": _spread(
            [rates[_name(misses, column)] for column in _COLUMNS]
        )
        for misses in _MISSES
    }
    for pattern, size in _COLUMNS:
        both = [rates[_name(misses, (pattern, size))] for misses in _MISSES]
        found[f"{pattern} pattern, {size}K: deviation"] = _spread(both)
    return found


def _name(misses: str, column: tuple[str, int]) -> str:
    return f"{misses} instruction misses, {column[0]} pattern, {column[1]}K"


def _spread(rates: Sequence[float]) -> float:
    return 100 * (max(rates) / min(rates) - 1)
