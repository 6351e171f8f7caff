"""Equations 1 to 5 as printed and as they must read, on every convolution and pool of VGG-16.

Eqs. 1 and 2 give the size of an output, and Table 3 prints it; Eqs. 3 to 5 give what a core reads,
for which Table 4 has five layers. The published numbers are those of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

from tilewright.papers.bwdsp.network import CORES, images, vgg16
from tilewright.papers.bwdsp.table3 import Printed as Layer3
from tilewright.papers.bwdsp.table4 import Printed as Layer4
from tilewright.papers.lab import Lab
from tilewright.papers.model import Kind, Result, Row, compare
from tilewright.papers.published import read_published
from tilewright.partition.strategies import output_tile

TITLE = "equations 1 to 5, as printed and corrected"

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


def run(lab: Lab) -> Result:
    """Rows of Eqs. 1 and 2 for every layer, of Eqs. 3 to 5 for those of Table 4."""
    sizes = {row.layer: row for row in read_published("bwdsp", "table3", Layer3).rows}
    reads = read_published("bwdsp", "table4", Layer4).rows
    rows = [*_sizes(sizes), *_reads(reads)]
    wrong = sum("as printed" in row.note for row in rows)
    return Result(
        paper="bwdsp",
        experiment="equations",
        title=TITLE,
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
    for layer in images(vgg16()):
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
