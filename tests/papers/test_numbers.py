"""Every number of the tables and claims that models predict, and what is said of it.

They are what users see of a model; `pytest tests/papers --update-golden` writes them anew, and
the difference shows what a change of a model has moved.
"""

import pytest

from support.golden import Golden
from tilewright.papers.discovery import load_experiment, titles
from tilewright.papers.lab import Lab
from tilewright.papers.model import Row
from tilewright.report.reproduction import verdict_text

SLOW = {"all_nodes", "chapter4", "conventions", "digits", "figure3_2", "sensitivity"}
"""Tables that take seconds: learning, and simulations of many nodes."""
GROUPS = {
    "bwdsp": "bwdsp/",
    "cns1-chapters": "cns1/chapter",
    "cns1-tables": "cns1/table",
    "cns1-others": "cns1/",
}


@pytest.mark.parametrize("group", GROUPS)
def test_predicted_numbers(group: str, golden: Golden) -> None:
    """Of the tables whose names begin as those of the group do, and of none before it."""
    starts = list(GROUPS.values())[: list(GROUPS).index(group) + 1]
    own = [name for name in titles() if next(filter(name.startswith, starts), "") == starts[-1]]
    lines = []
    for name in own:
        if name.partition("/")[2] not in SLOW:
            rows = load_experiment(name).run(Lab(quick=True)).rows
            lines += [_line(name, row) for row in rows]
    golden(f"{group}.txt", "\n".join([*lines, ""]))


def _line(name: str, row: Row) -> str:
    verdict = verdict_text(row)
    said = ["" if row.note.startswith(f"{verdict}:") else verdict, row.note]
    return f"{name}: {row.name}: {row.ours:.6g} {', '.join(filter(None, said))}".rstrip()
