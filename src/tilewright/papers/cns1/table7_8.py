"""Table 7.8: recall against training."""

from __future__ import annotations

from tilewright.papers.cns1.cases import CASES, CHIPS, WORST, recall_share, training_share
from tilewright.papers.cns1.printed import Reading, printed_numbers, reproduced
from tilewright.papers.cns1.table5_5 import rate_of as recall_rate_of
from tilewright.papers.cns1.table7_1 import rate_of as training_rate_of
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "recall against training"


def run(lab: Lab) -> Result:
    """Ratios of rates and of shares of the peak, worst lookups and best instruction misses."""
    ours: dict[str, float] = {}
    for case in CASES:
        recall, training = recall_rate_of(case), training_rate_of(case, WORST)
        ours[f"{case.name}: rates"] = recall / training
        ours[f"{case.name}: shares"] = recall_share(case, recall) / training_share(case, training)
    columns = [f"{chips}: {what}" for what in ("rates", "shares") for chips in CHIPS]
    readings = {column: _of_printed(column) for column in columns}
    return reproduced(lab, "table7_8", TITLE, ours, readings)


def _of_printed(column: str) -> Reading:
    """Both tables as they are printed, divided."""
    recall, training = printed_numbers("table5_5"), printed_numbers("table7_1")
    names = printed_numbers("table7_8", column)
    values = {name: recall[name[:-1]] / training[name[:-1]] for name in names}
    return Reading("the ratio of the printed numbers of Tables 5.5 and 7.1", values)
