"""Table 7.2: performance of training under model conditions, by lookups and instruction misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.papers.cns1.cases import MODEL, training_rate
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.cns1.table7_4 import PRINTED_TOTAL, formula_total
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "training under model conditions, by lookups and instruction misses"
_COLUMNS = tuple((pattern, size) for pattern in ("best", "worst") for size in (16, 32))
_MISSES = ("best", "worst")


def run(lab: Lab) -> Result:
    """Rates, and by how much the largest exceeds the least of a row or column."""
    ours = _table(0.0)
    printed = _table(PRINTED_TOTAL - formula_total())
    readings: dict[str, list[Reading]] = {
        name: [Reading("the total of Table 7.4 instead of its formulas'", value)]
        for name, value in printed.items()
    }
    rounded = _deviations({k: round(v, 1) for k, v in printed.items()})
    for name, value in rounded.items():
        readings[name].append(Reading("the deviation of the rounded rates", value))
    return reproduced(lab, "table7_2", TITLE, ours, readings)


def _table(more_cycles: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for misses in _MISSES:
        for pattern, size in _COLUMNS:
            conditions = Conditions(size << 10, pattern == "worst", misses == "worst")
            cycles = MODEL.training(conditions).total_cycles + more_cycles
            found[_name(misses, (pattern, size))] = training_rate(MODEL, cycles)
    return found | _deviations(found)


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
