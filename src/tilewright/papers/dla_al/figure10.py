"""Fig. 10: the ten benchmarks, forward: blocks, the automatic schedule, and the published ratios.

The paper's bars have no numbers; its text has the means and single ratios of FC and conv3. The
automatic schedule stands for its hand-optimised code. Backward and GPU are published alone.
"""

from __future__ import annotations

from tilewright.papers.dla_al.benchmarks import mean_row, published, published_layers, ratios
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, compare

TITLE = "ten benchmarks, blocks against the automatic schedule"
_BENCHMARKS, _QUICK = 10, 1
_WHY = "our blocks cut sums into segments, the automatic schedule takes whole windows"


def run(lab: Lab) -> Result:
    """A row for each benchmark, then each number of the text."""
    every = published_layers()[:_BENCHMARKS]
    rows, found = ratios(lab, every if not lab.quick else [x for x in every if x.name == "fc3"],
                         _QUICK)  # fmt: skip
    if found.keys() == {layer.name for layer in every}:
        fc = max(found[name] for name in ("fc1", "fc2", "fc3"))
        rows.append(mean_row("mean, forward", list(found.values()),
                             published("mean of ten", "hand-optimised"), ""))  # fmt: skip
        for name, ours in (("FC", fc), ("conv3", found["conv3"])):
            value = published(name, "hand-optimised")
            rows.append(compare(f"{name} against hand-optimised", value, round(ours, 3),
                                "simulated", explanation=_WHY))  # fmt: skip
    for subject, against, direction in (
        ("mean of ten", "hand-optimised", "backward"),
        ("mean of ten", "hand-written", "forward"),
        ("mean of ten", "hand-written", "backward"),
        ("conv3", "hand-written", "forward"),
        ("mean of ten", "GPU", "forward"),
        ("mean of ten", "GPU", "backward"),
        ("conv3", "GPU", "forward"),
        ("AlexNet", "hand-written", "forward"),
        ("VGG16", "hand-written", "forward"),
        ("Conv-ReLU-Pool fused", "not fused", "forward"),
    ):
        value = published(subject, against, direction)
        rows.append(compare(f"{subject} against {against}, {direction}", value, None, "published"))
    return Result(
        paper="dla_al",
        experiment="figure10",
        title=TITLE,
        rows=tuple(rows),
        summary={},
        notes=(
            "the automatic schedule stands for hand-optimised code, which the paper does not print",
            "changes of layout are the host's, as they are for blocks",
        ),
    )
