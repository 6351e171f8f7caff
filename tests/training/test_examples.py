"""Examples: what is refused, how they are divided and put into batches."""

import numpy as np
import pytest

from tilewright.common.errors import ShapeError
from tilewright.training.epochs import Examples, digits, read_examples

IMAGES = np.arange(40, dtype=np.float32).reshape(10, 2, 2)
LABELS = np.arange(10) % 3


def nan_at_last():
    images = IMAGES.copy()
    images[9, 1, 1] = np.nan
    return images


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Examples(IMAGES, LABELS / 2), "labels are integers, found float64"),
        (
            lambda: Examples(IMAGES, LABELS[:9]),
            "a label for each image is expected, found images 10x2x2 and labels 9",
        ),
        (lambda: Examples(IMAGES, LABELS - 2), "label 0 is -2: classes are counted from 0"),
        (
            lambda: Examples(nan_at_last(), LABELS),
            "images hold nan at (9, 1, 1), 1 of 40 elements are not finite",
        ),
        (lambda: Examples(IMAGES.astype("c8"), LABELS), "images hold complex64, no real numbers"),
        (
            lambda: Examples(IMAGES, LABELS).require((2, 2), 2),
            "label 2 is 2: the network has the classes 0 to 1",
        ),
        (
            lambda: Examples(IMAGES, LABELS).require((1, 8, 8), 3),
            "each image is 2x2, the network takes 1x8x8",
        ),
        (
            lambda: Examples(IMAGES, LABELS).divided(0.01, 0),
            "a share of 0.01 of 10 examples leaves none on one side",
        ),
    ],
)
def test_what_no_network_is_trained_with(make, message):
    with pytest.raises(ShapeError) as refused:
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_division_keeps_every_example_once(count):
    train, test = Examples(IMAGES, LABELS).divided(count / 10, seed=5)
    assert (len(train), len(test)) == (10 - count, count)
    assert sorted([*train.images[:, 0, 0], *test.images[:, 0, 0]]) == list(IMAGES[:, 0, 0])
    assert np.array_equal(LABELS[train.images[:, 0, 0].astype(int) // 4], train.labels)


def test_each_epoch_has_an_order_of_its_own_that_its_seed_gives():
    examples = Examples(IMAGES, LABELS)
    orders = [np.concatenate(list(examples.shuffled(3, 7, epoch))).tolist() for epoch in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]
    assert [len(set(order)) for order in orders] == [9, 9, 9]  # the tenth fills no batch


def test_tests_take_every_example_in_order_and_fill_the_last_batch_up():
    batches = [(n.tolist(), count) for n, count in Examples(IMAGES, LABELS).in_order(4)]
    assert batches == [([0, 1, 2, 3], 4), ([4, 5, 6, 7], 4), ([8, 9, 9, 9], 2)]


def test_a_file_holds_examples_and_may_hold_those_to_test_with(tmp_path):
    np.savez(tmp_path / "a.npz", images=IMAGES, labels=LABELS)
    found, test = read_examples(tmp_path / "a.npz")
    assert test is None
    assert np.array_equal(found.images, IMAGES)
    np.savez(tmp_path / "b.npz", images=IMAGES, labels=LABELS, test_images=IMAGES[:2],
             test_labels=LABELS[:2])  # fmt: skip
    assert len(read_examples(tmp_path / "b.npz")[1]) == 2


def test_a_file_with_other_arrays_or_wrong_labels_is_refused_by_its_name(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=IMAGES)
    with pytest.raises(ShapeError) as refused:
        read_examples(path)
    assert str(refused.value) == (
        f"{path}: expected the arrays images and labels, found x; write them with "
        "numpy.savez(FILE, images=IMAGES, labels=LABELS)"
    )
    np.savez(path, images=IMAGES, labels=LABELS.astype("f4"))
    with pytest.raises(ShapeError) as refused:
        read_examples(path)
    assert str(refused.value) == f"{path}: labels are integers, found float32"


def test_shipped_digits_are_pixels_from_0_to_1():
    images = digits().images
    assert (images.shape, images.min(), images.max()) == ((1797, 1, 8, 8), 0, 1)


@pytest.mark.parametrize("size", range(1, 11))
def test_an_epoch_has_every_whole_batch_and_no_example_twice(size):
    batches = list(Examples(IMAGES, LABELS).shuffled(size, 0, 1))
    assert [len(batch) for batch in batches] == [size] * (10 // size)
    assert len({int(number) for batch in batches for number in batch}) == size * (10 // size)


def test_what_is_drawn_to_test_with_says_nothing_about_the_order_of_any_epoch():
    numbers = np.arange(30)
    examples = Examples(np.zeros((30, 1), np.float32), numbers)
    for seed in (0, 7):
        training, test = examples.divided(0.4, seed)
        assert len(test.labels) == 12
        order = np.concatenate([test.labels, training.labels])
        np.testing.assert_array_equal(np.sort(order), numbers)
        epochs = [np.concatenate([*examples.shuffled(5, seed, epoch)]) for epoch in range(3)]
        for one in (numbers, *epochs):
            assert (order != one).any()
        assert (epochs[0] != epochs[1]).any()
