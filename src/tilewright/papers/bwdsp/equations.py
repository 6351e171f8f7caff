"""Tables 1 and 3, and Equations 1 to 5 as printed and as they must read, on every layer of VGG-16.

Eqs. 1 and 2 give the size of an output, and Table 3 prints it; Eqs. 3 to 5 give what a core reads,
for which Table 4 has five layers. The published numbers are those of the tables.

Each table or figure is a function by its name in `TITLES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

from msgspec import Struct

from tilewright.papers.bwdsp.network import CORES, image_layers, vgg16
from tilewright.papers.bwdsp.table4 import PrintedLayer as Layer4
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Kind, Row, compare
from tilewright.papers.published import read_published
from tilewright.partition.strategies import output_tile

TITLES = {
    "table3": "layers of VGG-16",
    "equations": "equations 1 to 5, as printed and corrected",
    "table1": "parameters of the formulas",
}


# Table 3: the layers of VGG-16, as the network of the zoo has them.

_NAMES = {"softmax": "prob"}


class Layer3(Struct, frozen=True):
    """The output of one layer."""

    layer: str
    channels: int
    height: int
    width: int


def table3(lab: Lab) -> Findings:
    """Channels, height and width of every layer; a vector is one row."""
    table = lab.published("bwdsp", "table3", Layer3)
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
    return Findings(
        rows=tuple(rows),
        summary={"equal": sum(row.published == row.ours for row in rows), "rows": len(rows)},
        notes=(f"published: {table.source}",),
    )


# Equations 1 to 5 as printed and as they must read, on every convolution and pool of VGG-16.

FORMULAS = {
    "1": ("O_H", "I_H", "F_H", "O_W", "I_W", "F_W"),
    "2": ("O_H", "I_H", "F_H", "O_W", "I_W", "F_W"),
    "3": ("AVG_H", "I_H", "N", "AVG_W", "I_W"),
    "4": ("AVG_H", "O_H", "S_H", "F_H", "AVG_W", "O_W", "S_W", "F_W"),
    "5": ("AVG_H", "AVG_W", "O_H", "O_W", "N", "F_W"),
}
"""The parameters that each equation has as printed."""


def same(size: int, divisor: int) -> int:
    """Eq. 1: the printed divisor is the kernel, the right one the stride."""
    return ceil(size / divisor)


def valid(size: int, kernel: int, divisor: int) -> int:
    """Eq. 2, likewise."""
    return ceil((size - kernel + 1) / divisor)


def equation4(out: int, stride: int, kernel: int) -> int:
    """Eq. 4 as printed."""
    return floor((out - 1) / stride + kernel)


def equation5(height: int, width: int, kernel: int) -> int:
    """Eq. 5 as printed, the width."""
    return floor((height * width - 1) / (2 * CORES) + kernel)


def equations(lab: Lab) -> Findings:
    """Rows of Eqs. 1 and 2 for every layer, of Eqs. 3 to 5 for those of Table 4."""
    sizes = {row.layer: row for row in read_published("bwdsp", "table3", Layer3).rows}
    reads = read_published("bwdsp", "table4", Layer4).rows
    rows = [*_sizes(sizes), *_reads(reads)]
    wrong = sum("as printed" in row.note for row in rows)
    return Findings(
        rows=tuple(rows),
        summary={"rows": len(rows), "rows that the printed formula misses": wrong},
        notes=(
            "Eqs. 1, 2: the divisors are the strides; printed are the kernels, which is the same"
            " for 2 x 2 pools of stride 2 alone",
            "Eq. 3: a core reads at least as many rows as the kernel has",
            "Eq. 4: (ceil(O_H / N) - 1) * S_H + F_H; printed without N, and S as a divisor",
            "Eq. 5: the width of the output is rounded up to an even number, as the one row shows"
            " that this changes; printed without S_W",
        ),
    )


def _sizes(printed: dict[str, Layer3]) -> Iterator[Row]:
    for layer in image_layers(vgg16()):
        op = layer.op.convolution or layer.op.pooling
        assert op is not None
        height, kernel, stride = op.input_shapes[0][2], op.kernel[0], op.stride[0]
        if op.convolution is not None:
            own, literal, name = same(height, stride), same(height, kernel), "Eq. 1 SAME"
        else:
            own, literal = valid(height, kernel, stride), valid(height, kernel, kernel)
            name = "Eq. 2 VALID"
        found = printed[layer.name.replace("pool", "maxpool")].height
        yield _row(f"{name}, {layer.name}: O_H", found, own, literal)


def _reads(printed: tuple[Layer4, ...]) -> Iterator[Row]:
    ops = {layer.name: layer.op.convolution for layer in vgg16()}
    for row in printed:
        op = ops[row.layer]
        assert op is not None
        name, kernel, size = f"{row.layer}: AVG", op.kernel[0], op.out_height
        if row.strategy == "general":
            literal = ceil(op.height / CORES)
            yield _row(f"Eq. 3, {name}_H", row.in_rows, max(literal, kernel), literal)
            yield _row(f"Eq. 3, {name}_W", row.in_columns, op.width, op.width)
            continue
        tile = output_tile(size, size, CORES)
        own = [(extent - 1) * op.stride[0] + kernel for extent in tile]
        if size >= 2 * CORES:
            number, literals = 4, [equation4(size, op.stride[0], kernel)] * 2
        else:
            number, literals = 5, [4, equation5(size, size, kernel)]
        rounded = number == 5 and tile[1] != -(-size * size // (2 * CORES))
        pairs = zip("HW", (row.in_rows, row.in_columns), own, literals, strict=True)
        for letter, found, corrected, literal in pairs:
            kind: Kind = "fitted" if rounded and letter == "W" else "exact"
            yield _row(f"Eq. {number}, {name}_{letter}", found, corrected, literal, kind)


def _row(name: str, printed: int, own: int, literal: int, kind: Kind = "exact") -> Row:
    note = "" if literal == printed else f"as printed: {literal}"
    return compare(name, printed, own, kind, note=note)


# Table 1: the parameters of the formulas, and how many of Eqs. 1 to 5 use each.

_PARAMETERS = {
    "N": "cores",
    "I_H": "height of the input",
    "I_W": "width of the input",
    "O_H": "height of the output",
    "O_W": "width of the output",
    "C": "channels of the output; Table 2 takes them for what moves, which is input",
    "F_H": "height of the kernel",
    "F_W": "width of the kernel",
    "S_H": "vertical stride",
    "S_W": "horizontal stride",
    "P": "padding",
    "AVG_H": "rows that a core computes; Eqs. 3 to 5 give those that it reads",
    "AVG_W": "columns that a core computes; likewise",
}


def table1(lab: Lab) -> Findings:
    """A row for each parameter."""
    uses = {name: sum(name in words for words in FORMULAS.values()) for name in _PARAMETERS}
    rows: list[Row] = [
        compare(name, None, uses[name], "exact", note=meaning, unit="formulas")
        for name, meaning in _PARAMETERS.items()
    ]
    unused = ", ".join(name for name, count in uses.items() if not count)
    return Findings(
        rows=tuple(rows),
        summary={"parameters that no formula uses": unused},
        notes=("Eq. 4 has no N: nothing in it divides by the number of cores",),
    )
