"""Table 3: the layers of VGG-16, as the network of the zoo has them."""

from __future__ import annotations

from msgspec import Struct

from tilewright.papers.bwdsp.network import vgg16
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare

TITLE = "layers of VGG-16"
_NAMES = {"softmax": "prob"}


class Printed(Struct, frozen=True):
    """The output of one layer."""

    layer: str
    channels: int
    height: int
    width: int


def run(lab: Lab) -> Result:
    """Channels, height and width of every layer; a vector is one row."""
    table = lab.published("bwdsp", "table3", Printed)
    shapes = {layer.name: layer.shape for layer in vgg16()}
    rows: list[Row] = []
    for line in table.rows:
        shape = shapes[_NAMES.get(line.layer, line.layer.replace("maxpool", "pool"))]
        own = shape[1:] if len(shape) == 4 else (1, 1, shape[1])
        printed = (line.channels, line.height, line.width)
        for what, published, found in zip(
            ("channels", "height", "width"), printed, own, strict=True
        ):
            rows.append(compare(f"{line.layer}: {what}", published, found, "exact"))
    return Result(
        paper="bwdsp",
        experiment="table3",
        title=TITLE,
        rows=tuple(rows),
        summary={"equal": sum(row.published == row.ours for row in rows), "rows": len(rows)},
        notes=(f"published: {table.source}",),
    )
