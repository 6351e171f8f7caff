"""Table 7.8: recall against training."""

from __future__ import annotations

from tilewright.papers.cns1.cases import CASES, WORST, recall_share, training_share
from tilewright.papers.cns1.printed import Reading, printed_numbers, reproduced
from tilewright.papers.cns1.table5_5 import rate_of as recall_rate_of
from tilewright.papers.cns1.table7_1 import rate_of as training_rate_of
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "recall against training"


def run(lab: Lab) -> Result:
    """Ratios of rates and of shares of the peak, worst lookups and best instruction misses."""
    recalls, trainings = printed_numbers("table5_5"), printed_numbers("table7_1")
    ours: dict[str, float] = {}
    readings: dict[str, list[Reading]] = {}
    for case in CASES:
        recall, training = recall_rate_of(case), training_rate_of(case, WORST)
        ours[f"{case.name}: rates"] = recall / training
        ours[f"{case.name}: shares"] = recall_share(case, recall) / training_share(case, training)
        for what in ("rate", "share"):
            name = f"{case.name}: {what}"
            text = f"the printed {recalls[name]} / {trainings[name]}"
            value = float(recalls[name]) / float(trainings[name])
            readings[f"{name}s"] = [Reading(text, value)]
    return reproduced(lab, "table7_8", TITLE, ours, readings)
