"""Tiles of several operators are priced side by side: each costs what it does alone."""

import pytest

from tilewright.machine import load_machine
from tilewright.ops import Op, conv2d
from tilewright.seeds.space import seeds_for
from tilewright.tune.search import rank

HOST = load_machine("host")


def windows(channels: int, side: int, stride: int, groups: int, kernel: int) -> Op:
    return conv2d(
        batch=1,
        in_channels=channels,
        out_channels=channels,
        height=side,
        width=side,
        kernel=kernel,
        stride=stride,
        padding=kernel // 2,
        groups=groups,
        dtype="f32",
    )


DEPTHWISE = [windows(c, side, s, c, 5) for c, side, s in ((48, 7, 1), (32, 14, 1), (32, 28, 2))]
DENSE = [windows(c, side, s, 1, 3) for c, side, s in ((64, 7, 1), (32, 14, 1), (32, 28, 2))]


@pytest.mark.parametrize(
    ("algorithm", "operators"),
    [("depthwise", DEPTHWISE), ("direct", DEPTHWISE), ("direct", DENSE)],
)
def test_operators_ranked_together_cost_what_each_does_alone(
    algorithm: str, operators: list[Op]
) -> None:
    """Their images differ in size, and so does what their borders leave out."""
    cases = [(op, seed) for op in operators for seed in seeds_for(op, algorithm, addressed=True)]
    together = rank(cases, HOST)
    alone = [ranking for case in cases for ranking in rank([case], HOST)]
    assert len(cases) == len(operators)
    assert [[c.cycles for c in one.best] for one in together] == [
        pytest.approx([c.cycles for c in one.best]) for one in alone
    ]
