"""Examples: images with their classes, read, checked, divided and put into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.codegen.arrays import read_arrays
from tilewright.codegen.artifact import Array
from tilewright.common.digits import LARGEST_PIXEL, handwritten_digits
from tilewright.common.errors import ShapeError
from tilewright.ops.op import Shape, show_shape

_FIX = "write them with numpy.savez(FILE, images=IMAGES, labels=LABELS)"


@dataclass(frozen=True, eq=False)
class Examples:
    """Images, the first dimension counting them, and for each one the number of its class.

    Raises ShapeError for labels that are no integers, are negative or do not go with the images,
    and for images that are not finite.
    """

    images: Array
    labels: Array

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if labels.dtype.kind not in "iu":
            raise ShapeError(f"labels are integers, found {labels.dtype}")
        if labels.ndim != 1 or labels.shape != images.shape[:1] or not labels.size:
            raise ShapeError(
                f"a label for each image is expected, found images {show_shape(images.shape)} and "
                f"labels {show_shape(labels.shape)}"
            )
        if labels.min() < 0:
            self._refuse_label(int(labels.argmin()), "classes are counted from 0")
        if images.dtype.kind not in "biuf":
            raise ShapeError(f"images hold {images.dtype}, no real numbers")
        if not (finite := np.isfinite(images)).all():
            place = np.unravel_index(int(finite.argmin()), images.shape)
            at = ", ".join(map(str, place))
            raise ShapeError(f"images hold {images[place]} at ({at}), {images.size - finite.sum()}"
                             f" of {images.size} elements are not finite")  # fmt: skip

    def __len__(self) -> int:
        return len(self.labels)

    def require(self, shape: Shape, classes: int) -> None:
        """Raise ShapeError unless each image has this shape and each label is below `classes`."""
        own = self.images.shape[1:]
        if own != shape:
            raise ShapeError(
                f"each image is {show_shape(own)}, the network takes {show_shape(shape)}"
            )
        if (place := int(self.labels.argmax())) >= 0 and self.labels[place] >= classes:
            self._refuse_label(place, f"the network has the classes 0 to {classes - 1}")

    def _refuse_label(self, place: int, why: str) -> None:
        raise ShapeError(f"label {place} is {self.labels[place]}: {why}")

    def divided(self, share: float, seed: int) -> tuple[Examples, Examples]:
        """(the examples to train with, a `share` of all, drawn by the seed, to test with)."""
        order = np.random.default_rng((seed, 0)).permutation(len(self))
        count = round(share * len(self))
        if not 0 < count < len(self):
            raise ShapeError(f"a share of {share} of {len(self)} examples leaves none on one side")
        return self.taken(order[count:]), self.taken(order[:count])

    def taken(self, numbers: Array) -> Examples:
        """The examples of these numbers."""
        return Examples(self.images[numbers], self.labels[numbers])

    def shuffled(self, size: int, seed: int, epoch: int) -> Iterator[Array]:
        """Numbers of the examples of each batch of an epoch; those that fill none are left out."""
        order = np.random.default_rng((seed, 1, epoch)).permutation(len(self))
        for start in range(0, len(self) - size + 1, size):
            yield order[start : start + size]

    def in_order(self, size: int) -> Iterator[tuple[Array, int]]:
        """Numbers of the examples of each batch, the last one filled up with the last example, and
        how many of them count.
        """
        for start in range(0, len(self), size):
            numbers = np.arange(start, start + size)
            yield np.minimum(numbers, len(self) - 1), min(size, len(self) - start)


def read_examples(path: Path) -> tuple[Examples, Examples | None]:
    """(the examples in an .npz file, those to test with where it has some): its arrays are `images`
    and `labels`, `test_images` and `test_labels`.

    Raises ShapeError for anything else, OSError for a file that cannot be opened.
    """
    arrays = read_arrays(path)
    known = ({"images", "labels"}, {"images", "labels", "test_images", "test_labels"})
    if set(arrays) not in known:
        raise ShapeError(
            f"expected the arrays images and labels, found {', '.join(sorted(arrays)) or 'none'}",
            where=str(path),
            fix=_FIX,
        )
    try:
        found = Examples(arrays["images"], arrays["labels"])
        if "test_images" not in arrays:
            return found, None
        return found, Examples(arrays["test_images"], arrays["test_labels"])
    except ShapeError as error:
        raise error.at(str(path)) from None


def digits() -> Examples:
    """The 1797 handwritten digits that tilewright ships, as 8x8 pixels from 0 to 1."""
    pixels, labels = handwritten_digits()
    return Examples(pixels[:, np.newaxis].astype(np.float32) / LARGEST_PIXEL, labels)
