"""The digits that come with the package."""

from collections import Counter

from tilewright.common.digits import LARGEST_PIXEL, handwritten_digits


def test_there_are_some_180_pictures_of_each_digit():
    pixels, labels = handwritten_digits()
    assert (pixels.shape, int(pixels.max())) == ((1797, 8, 8), LARGEST_PIXEL)
    counts = Counter(labels.tolist())
    assert sorted(counts) == list(range(10))
    assert min(counts.values()) >= 174
    assert max(counts.values()) <= 183
