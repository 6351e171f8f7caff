"""Loops within loops: a nest plays the turns that it stands for, and a layer computes the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cambricon import device
from support.examples import examples
from tilewright.machine import load_machine
from tilewright.targets.cambricon.dla.blocks import steps
from tilewright.targets.cambricon.dla.blocks.steps import Node, RepeatedSteps, Turn, nested

Written = tuple[object, tuple[tuple[str, int], ...]]


def turns_of(sequence: Sequence[Written]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for number, (key, places) in reversed(list(enumerate(sequence))):
        turns.append(Turn(number, key, places, turns[-1] if turns else None))
    return tuple(reversed(turns))


def played(nodes: Sequence[Node], moved: dict[str, int]) -> Iterator[Written]:
    """The turns of a nest in the order in which they are executed, their places moved."""
    for node in nodes:
        if isinstance(node, Turn):
            yield node.key, tuple((name, at + moved.get(name, 0)) for name, at in node.places)
            continue
        for turn in range(node.count):
            distances = {name: turn * move for name, move in node.moves.items()}
            names = moved.keys() | distances.keys()
            both = {name: moved.get(name, 0) + distances.get(name, 0) for name in names}
            yield from played(node.body, both)


@st.composite
def sequences(draw: st.DrawFn) -> list[Written]:
    """Turns as blocks have them: groups of steps at even distances, with others at the borders."""
    outer, inner, period = draw(st.integers(1, 4)), draw(st.integers(1, 7)), draw(st.integers(1, 3))
    moves = draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)))
    border = draw(st.integers(0, 2))
    return [
        (
            (step, min(group, border), inner - 1 - group < border),
            (("x", moves[0] * o + moves[1] * group + step), ("w", moves[2] * o)),
        )
        for o in range(outer)
        for group in range(inner)
        for step in range(period)
    ]


@given(sequences(), st.integers(1, 3))
@examples(60)
def test_a_nest_plays_the_turns_that_it_stands_for(sequence: list[Written], period: int) -> None:
    nodes = nested(turns_of(sequence), period)
    assert list(played(nodes, {})) == sequence


def test_loops_come_within_loops() -> None:
    """Three segments of seven groups, of which the first has a border."""
    sequence = [
        ((group == 0, step), (("x", 10 * group + step), ("w", 100 * o + step)))
        for o in range(3)
        for group in range(7)
        for step in range(2)
    ]
    first, second, groups = (loop := nested(turns_of(sequence), 2)[0]).body[:3]
    assert isinstance(loop, RepeatedSteps)
    assert (loop.count, loop.moves, loop.is_last) == (3, {"w": 100}, True)
    assert (first.key, second.key) == ((True, 0), (True, 1))
    assert isinstance(groups, RepeatedSteps)
    assert (groups.count, groups.moves, groups.is_last) == (5, {"x": 10}, False)


LAYER = """
.code
@fuse
@conv_fp c, x, w, b, #1, #1, #1, #1
@relu_fp y, c
@endfuse
.static_rw
@neuron x, {images}, {height}, 4, 4, 1, {rows}, 4, {depth}
@neuron c, {images}, {height}, 4, 6, 1, {group}, 4, {part}
@neuron y, {images}, {height}, 4, 6, 1, {group}, 4, {part}
.static_ro
@synapse w, 6, 3, 3, 4, {part}, 3, 3, {depth}
@neuron b, 1, 1, 1, 6, 1, 1, 1, {part}
"""


@pytest.mark.parametrize(
    ("images", "height", "rows", "group", "depth", "part"),
    [(1, 12, 1, 1, 2, 2), (2, 13, 2, 1, 4, 2), (2, 12, 12, 3, 1, 3), (1, 20, 3, 1, 4, 1)],
)
def test_a_layer_in_a_nest_computes_what_it_computes_unrolled(
    monkeypatch: pytest.MonkeyPatch,
    images: int,
    height: int,
    rows: int,
    group: int,
    depth: int,
    part: int,
) -> None:
    text = LAYER.format(
        images=images, height=height, rows=rows, group=group, depth=depth, part=part
    )
    looped = device(text, load_machine("dla-al"))
    monkeypatch.setattr(steps, "nested", lambda turns, period: turns)
    unrolled = device(text, load_machine("dla-al"))
    assert len(looped.instructions) < 0.6 * len(unrolled.instructions)
    runs = []
    for found in (looped, unrolled):
        draws = np.random.default_rng(height)
        for name, data in found.data.items():
            found.upload(name, draws.integers(-300, 300, data.extents))
        runs.append(found.launch())
    assert np.array_equal(looped.download("y"), unrolled.download("y"))
    assert len(runs[0].events) == len(runs[1].events)
    assert runs[0].cycles < 1.05 * runs[1].cycles
