"""Forms say where elements lie; loops over several forms reach each element once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from support.plans import GROUP
from tilewright.common.errors import ProgramError
from tilewright.network.planning.arena import Life, place, place_centred
from tilewright.network.planning.form import (
    Form,
    StoredDim,
    canonical,
    chain,
    form_of,
    like,
    row_major,
    same_memory,
)
from tilewright.network.planning.forms import Forms, _sent_through
from tilewright.network.planning.memory import given_form
from tilewright.ops import Conv2d, conv2d
from tilewright.tune.search import rank
from tilewright.tune.ways import ways

SHAPE = (1, 20, 5, 6)
BLOCKED = canonical(
    SHAPE,
    [StoredDim(1, 16, 2), StoredDim(2, 1, 7), StoredDim(3, 1, 8), StoredDim(1, 1, 16)],
    (0, 0, 1, 1),
)
"""Channels in blocks of 16, and a border of one pixel."""


def test_what_is_stored_is_read_back_and_zeros_stand_between() -> None:
    x = np.arange(1, 601, dtype=np.float32).reshape(SHAPE)
    memory = BLOCKED.stored(x)
    assert memory.size == BLOCKED.elements == 2 * 7 * 8 * 16
    assert np.count_nonzero(memory) == x.size
    blocks = memory.reshape(2, 7, 8, 16)
    np.testing.assert_array_equal(blocks[1, 1:6, 1:7, :4], x[0, 16:].transpose(1, 2, 0))
    assert not blocks[:, 0].any()
    np.testing.assert_array_equal(BLOCKED.read(memory), x)


def test_the_places_of_a_form_lie_its_strides_apart() -> None:
    blocks = Form((8, 3), (StoredDim(0, 4, 2), StoredDim(1, 1, 3), StoredDim(0, 1, 4)), (0, 0))
    assert blocks.strides == (12, 4, 1)
    assert row_major((8, 3)).strides == (3, 1)


def test_a_form_is_found_from_the_numbers_of_its_elements() -> None:
    numbers = (BLOCKED.places() + 1).reshape(2, 7, 8, 16)
    assert form_of(SHAPE, numbers) == BLOCKED
    single = np.zeros((3, 3), np.int64)
    single[1, 1] = 1
    assert form_of((1, 1, 1, 1), single).places().tolist() == [
        [-1, -1, -1], [-1, 0, -1], [-1, -1, -1],
    ]  # fmt: skip
    for number in (np.array(1), np.array([1]), np.array([[1]])):
        assert form_of((), number).places().tolist() == (number - 1).tolist()
    with pytest.raises(ProgramError) as caught:
        form_of((4,), np.array([1, 3, 2, 4]))
    assert str(caught.value) == ("a tensor of shape (4,) lies in memory in a way that has no form")


def test_a_form_is_held_against_every_portion_of_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.network.planning.form._PORTION", 100)
    numbers = (BLOCKED.places() + 1).reshape(2, 7, 8, 16)
    assert form_of(SHAPE, numbers) == BLOCKED
    for at in np.argwhere(numbers)[1::97]:
        wrong = numbers.copy()
        wrong[tuple(at)] = 0
        with pytest.raises(ProgramError, match="no form"):
            form_of(SHAPE, wrong)


def test_orders_without_zeros_are_copied_as_places_say(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(48.0).reshape(2, 6, 4)
    dims = [StoredDim(1, 3, 2), StoredDim(2, 1, 4), StoredDim(0, 1, 2), StoredDim(1, 1, 3)]
    form = canonical(x.shape, dims, (0, 0, 0))
    stored = x.reshape(-1)[form.places()].reshape(-1)
    np.testing.assert_array_equal(form.stored(x), stored)
    for most, sizes in ((48, [48]), (24, [24, 24]), (1, [24, 24])):
        monkeypatch.setattr("tilewright.network.planning.form._PORTION", most)
        parts = [*form.stored_parts(x)]
        assert [part.size for part in parts] == sizes
        np.testing.assert_array_equal(np.concatenate(parts), stored)


def test_equal_memory_has_equal_forms() -> None:
    assert same_memory(row_major((2, 3, 1, 1)), row_major((2, 3)))
    assert not same_memory(BLOCKED, row_major(SHAPE))
    outer = canonical((6,), [StoredDim(0, 3, 2), StoredDim(0, 1, 3)], (0,))
    assert outer == row_major((6,))
    assert like(BLOCKED, (1, 20, 2, 3)).elements == 2 * 2 * 3 * 16


def test_loops_over_several_forms_take_the_blocks_of_all() -> None:
    """None where no loops are affine in all: blocks across each other, a border along blocks."""
    shape = (24, 2)

    def blocked(*steps: int, before: int = 0) -> Form:
        counts = [outer // inner for outer, inner in pairwise((24, *steps))]
        dims = [StoredDim(0, step, count) for step, count in zip(steps, counts, strict=True)]
        return Form(shape, (*dims, StoredDim(1, 1, 2)), (before, 0))

    plain, fours, both = row_major(shape), blocked(4, 1), blocked(12, 4, 1)
    assert chain([plain], 0) == (1,)
    assert chain([plain, fours], 0) == (4, 1)
    assert chain([fours, both], 0) == chain([both], 0) == (12, 4, 1)
    assert chain([both, fours], 1) == (1,)
    assert chain([fours, blocked(6, 1)], 0) is None
    assert chain([plain, blocked(4, 1, before=1)], 0) is None
    for size, found in ((1, (1,)), (2, None), (24, None)):
        assert (
            chain([Form((size, 2), (StoredDim(0, 2, size), StoredDim(1, 1, 2)), (0, 0))], 0)
            == found
        )


def test_images_that_are_arranged_come_with_their_channels_together() -> None:
    images, rows = np.arange(120.0).reshape(2, 3, 4, 5), np.arange(6.0).reshape(1, 2, 3)
    arranged, plain = (given_form(images.shape, arranged=own) for own in (True, False))
    np.testing.assert_array_equal(arranged.stored(images), images.transpose(0, 2, 3, 1).ravel())
    np.testing.assert_array_equal(plain.stored(images), images.ravel())
    assert given_form(rows.shape, arranged=True) == row_major(rows.shape)


def some_lives() -> dict[int, Life]:
    generator = np.random.default_rng(0)
    lives = {}
    for value in range(40):
        first = int(generator.integers(0, 20))
        last = first + int(generator.integers(0, 6))
        lives[value] = Life(int(generator.integers(1, 5000)), first, last)
    return lives


def overlaps(a: int, b: int, offsets: dict[int, int], lives: dict[int, Life]) -> bool:
    ends = [offsets[value] + lives[value].size_bytes for value in (a, b)]
    return offsets[a] < ends[1] and offsets[b] < ends[0]


@pytest.mark.parametrize(("placed", "share"), [(place, 0.5), (place_centred, 0.6)])
def test_what_is_needed_at_the_same_time_never_overlaps(
    placed: Callable[[dict[int, Life]], tuple[dict[int, int], int]], share: float
) -> None:
    lives = some_lives()
    offsets, size = placed(lives)
    for a, life in lives.items():
        assert offsets[a] % 64 == 0
        assert offsets[a] + life.size_bytes <= size
        for b, other in lives.items():
            assert a == b or not (life.meets(other) and overlaps(a, b, offsets, lives))
    assert size < share * sum(life.size_bytes for life in lives.values())


def test_values_that_share_memory_have_their_middles_at_one_address() -> None:
    lives = some_lives()
    offsets, _ = place_centred(lives)
    middles = {value: offsets[value] + life.size_bytes / 2 for value, life in lives.items()}
    sharing = [(a, b) for a in lives for b in range(a) if overlaps(a, b, offsets, lives)]
    assert len(sharing) > len(lives)
    assert all(abs(middles[a] - middles[b]) < 64 for a, b in sharing)


@pytest.mark.parametrize("algorithm", ["implicit", "implicit_fours", "explicit", "winograd2_fours"])
def test_the_form_of_many_images_is_found_on_few(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = conv2d(
        batch=32, in_channels=16, out_channels=32, height=6, width=6, kernel=3, padding=1
    )  # fmt: skip
    (found,) = ways([op], GROUP, algorithm=algorithm)
    rankings = rank([(op, seed) for _, seed in found], GROUP, keep=2)
    candidates = [candidate for ranking in rankings for candidate in ranking.best]
    assert candidates
    images: list[int] = []

    def counted(op: Conv2d, *rest: Any) -> Form:
        images.append(op.batch)
        return _sent_through(op, *rest)

    monkeypatch.setattr("tilewright.network.planning.forms._sent_through", counted)
    forms = [Forms().of(candidate) for candidate in candidates]
    assert max(images) == (8 if "fours" in algorithm else 2), "two blocks, or two images"
    monkeypatch.setattr("tilewright.network.planning.forms._smaller", lambda op: ())
    images.clear()
    assert forms == [Forms().of(candidate) for candidate in candidates]
    assert set(images) == {32}
