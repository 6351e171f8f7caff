"""Sliding windows over images, shared by convolution and pooling."""

from __future__ import annotations

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Interval
from tilewright.ops.op import require_positive

Padding = tuple[int, int, int, int]


def padding_of(value: int | tuple[int, int] | Padding) -> Padding:
    """(top, left, bottom, right) from one number, (vertical, horizontal) or all four.

    >>> padding_of(1), padding_of((1, 2))
    ((1, 1, 1, 1), (1, 2, 1, 2))
    """
    if isinstance(value, int):
        return (value, value, value, value)
    return value if len(value) == 4 else (*value, *value)


def require_window(
    kind: str,
    image: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Padding,
    dilation: tuple[int, int],
) -> None:
    """Raise ShapeError unless the window is well-formed and fits the padded image."""
    for index, axis in enumerate(("height", "width")):
        require_positive(
            kind,
            **{
                axis: image[index],
                f"kernel {axis}": kernel[index],
                f"stride {axis}": stride[index],
                f"dilation {axis}": dilation[index],
            },
        )
        before, after = padding[index], padding[index + 2]
        if before < 0 or after < 0:
            raise ShapeError(f"{kind}: padding must not be negative, found {padding}")
        padded = image[index] + before + after
        span = (kernel[index] - 1) * dilation[index] + 1
        if span > padded:
            dilated = f" (dilated by {dilation[index]}: {span})" if dilation[index] > 1 else ""
            raise ShapeError(
                f"{kind}: kernel {axis} {kernel[index]}{dilated} is larger than the padded input "
                f"{axis} {padded} = {image[index]} + {before} + {after}"
            )


def out_extent(
    image: int, kernel: int, stride: int, before: int, after: int, dilation: int = 1
) -> int:
    """Number of windows that fit along one axis of the padded image.

    >>> out_extent(224, kernel=7, stride=2, before=3, after=3)
    112
    """
    return (image + before + after - (kernel - 1) * dilation - 1) // stride + 1


def seen(side: Interval, taps: Interval, stride: int, before: int, dilation: int = 1) -> Interval:
    """The pixels that the outputs `side` read through the `taps` of a kernel, relative to the first
    pixel of the image and including padding.

    >>> seen((0, 4), (0, 3), stride=2, before=1)
    (-1, 8)
    """
    first = side[0] * stride - before + taps[0] * dilation
    return first, (side[1] - 1) * stride - before + (taps[1] - 1) * dilation + 1
