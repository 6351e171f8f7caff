"""Tables 1 to 4, and Equations 1 to 5 as printed and as corrected, on every layer of VGG-16.

Eqs. 1 and 2 give the size of an output, and Table 3 prints it. Eqs. 3 to 5 give the input of a
core, and Table 4 prints it for five layers. Table 2 states where they hold and what padding costs.
Published numbers are those of the tables. Each table or figure is a function by its name in
`TITLES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import NamedTuple

from msgspec import Struct

from tilewright.ops.window import seen
from tilewright.papers.bwdsp import network
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.papers.published import read_published
from tilewright.papers.readings import Printed, Reading, judged_rows
from tilewright.partition.strategies import input_rows, output_tile

TITLES = {
    "table3": "layers of VGG-16",
    "equations": "equations 1 to 5, as printed and corrected",
    "table1": "parameters of the formulas",
    "table2": "ranges of the equations, and values of padding",
    "table4": "regions of a core in five layers",
}


# Table 3: the layers of VGG-16, from the network of the zoo.

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
    shapes = {layer.name: layer.shape for layer in network.vgg16()}
    rows: list[Row] = []
    for line in table.rows:
        shape = shapes[_NAMES.get(line.layer, line.layer.replace("maxpool", "pool"))]
        own = shape[1:] if len(shape) == 4 else (1, 1, shape[1])
        printed = (line.channels, line.height, line.width)
        for what, published, found in zip(
            ("channels", "height", "width"), printed, own, strict=True
        ):
            rows.append(compare(f"{line.layer}: {what}", published, found, "exact"))
    return Findings(rows=tuple(rows), notes=(f"published: {table.source}",))


# Equations 1 to 5 as printed and as corrected, on every convolution and pool of VGG-16.

FORMULAS = {
    "1": ("O_H", "I_H", "F_H", "O_W", "I_W", "F_W"),
    "2": ("O_H", "I_H", "F_H", "O_W", "I_W", "F_W"),
    "3": ("AVG_H", "I_H", "N", "AVG_W", "I_W"),
    "4": ("AVG_H", "O_H", "S_H", "F_H", "AVG_W", "O_W", "S_W", "F_W"),
    "5": ("AVG_H", "AVG_W", "O_H", "O_W", "N", "F_W"),
}
"""The parameters of each equation as printed."""


def same(size: int, divisor: int) -> int:
    """Eq. 1: the printed divisor is the kernel, the correct one the stride."""
    return ceil(size / divisor)


def valid(size: int, kernel: int, divisor: int) -> int:
    """Eq. 2, with the same misprint as Eq. 1."""
    return ceil((size - kernel + 1) / divisor)


def equation4(out: int, stride: int, kernel: int) -> int:
    """Eq. 4 as printed."""
    return floor((out - 1) / stride + kernel)


def equation5(height: int, width: int, kernel: int) -> int:
    """Eq. 5 as printed, for the width."""
    return floor((height * width - 1) / (2 * network.CORES) + kernel)


def equations(lab: Lab) -> Findings:
    """Rows of Eqs. 1 and 2 for every layer, and of Eqs. 3 to 5 for those of Table 4. Ours are the
    equations as printed; each corrected equation is the reading of its column.
    """
    sizes = {row.layer: row for row in read_published("bwdsp", "table3", Layer3).rows}
    reads = read_published("bwdsp", "table4", network.PrintedLayer).rows
    rows = _judged([*_sizes(sizes), *_reads(reads)])
    wrong = sum(row.published != row.ours for row in rows)
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


class _Extent(NamedTuple):
    """A printed extent, with its column's formula evaluated as printed and as corrected."""

    column: str
    name: str
    printed: int
    literal: int
    corrected: int
    fitted: str = ""


_CORRECTED = {
    "Eq. 1": "the stride in the place of the kernel",
    "Eq. 2": "the stride in the place of the kernel",
    "Eq. 3": "at least as many rows as the kernel has",
    "Eq. 4": "a core's share of the output",
    "Eq. 5": "an even width of the output",
    "Table 4": "Eqs. 3 to 5, corrected,",
}
"""Correction of each column's formula."""
_EVEN = "that widths are rounded to even, which this row alone shows"


def _judged(extents: Sequence[_Extent]) -> list[Row]:
    """Formulas as printed beside the tables' numbers; the corrected formulas are readings."""
    columns = {extent.column for extent in extents}
    table = [Printed(e.name, str(e.printed), "=", e.column, e.fitted) for e in extents]
    readings = {
        column: Reading(
            _CORRECTED[column], {e.name: e.corrected for e in extents if e.column == column}
        )
        for column in columns
    }
    return judged_rows(table, {e.name: e.literal for e in extents}, readings, "exact")


def _sizes(printed: dict[str, Layer3]) -> Iterator[_Extent]:
    for layer in network.image_layers(network.vgg16()):
        op = layer.op.convolution or layer.op.pooling
        assert op is not None
        height, kernel, stride = op.input_shapes[0][2], op.kernel[0], op.stride[0]
        if op.convolution is not None:
            own, literal, column, kind = same(height, stride), same(height, kernel), "Eq. 1", "SAME"
        else:
            own, literal = valid(height, kernel, stride), valid(height, kernel, kernel)
            column, kind = "Eq. 2", "VALID"
        found = printed[layer.name.replace("pool", "maxpool")].height
        yield _Extent(column, f"{column} {kind}, {layer.name}: O_H", found, literal, own)


def _reads(printed: tuple[network.PrintedLayer, ...]) -> Iterator[_Extent]:
    for line in printed:
        own, literal, odd = by_rule(line), as_printed(line), without_rounding(line)
        column = "Eq. 3" if line.strategy == "general" else "Eq. 4" if _is_large(line) else "Eq. 5"
        for axis, letter in enumerate("HW"):
            name = f"{column}, {line.layer}: AVG_{letter}"
            fitted = "" if own[axis] == odd[axis] else _EVEN
            yield _Extent(column, name, line.region[axis], literal[axis], own[axis], fitted)


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


# Table 2: the strategies compared: the dimensions they divide, where they hold, what padding costs.


def table2(lab: Lab) -> Findings:
    """The equation for each convolution, and its padding by Table 2's term and counted."""
    rows: list[Row] = []
    counted = {
        strategy: {name: padded - real for name, padded, real in network.padded_reads(strategy)}
        for strategy in (network.BASELINE, network.OPTIMISED)
    }
    for layer in network.image_layers(network.vgg16()):
        if (conv := layer.op.convolution) is None:
            continue
        large = conv.out_height >= 2 * network.CORES
        rows.append(
            compare(f"{layer.name}: equation", None, 4 if large else 5, "exact",
                    note=f"O_H = {conv.out_height}, 2 N = {2 * network.CORES}")
        )  # fmt: skip
        term = 4 * network.CORES * conv.out_channels * (conv.kernel[1] - 1)
        rows.append(
            compare(f"{layer.name}: padding", term, counted[network.BASELINE][layer.name], "exact",
                    note="4 N C (F_W - 1) against zeros that the cores' regions have under Eq. 3",
                    unit="values")
        )  # fmt: skip
    outputs = sum(counted[network.OPTIMISED].values())
    return Findings(
        rows=tuple(rows),
        summary={
            "zeros under Eqs. 4 and 5, all layers": outputs,
            "zeros under Eq. 3, all layers": sum(counted[network.BASELINE].values()),
        },
        notes=(
            "C is the output's channels (Table 1), though what moves is input; the factor 4 may be"
            " bytes, sides, or the rows of a tile: the text does not say",
            "no strategy has to move zeros: each core knows where the image ends",
        ),
    )


def table4(lab: Lab) -> Findings:
    """Four extents for each of the ten rows by the printed formulas; the rule is their reading.

    General rows: max(ceil(I_H / N), F_H) rows of the input at its own width, and the output rows
    that they yield without padding. Optimised rows: the tile of `output_tiles`, and the region of
    the padded image that the convolution reads for it.
    """
    table = lab.published("bwdsp", "table4", network.PrintedLayer)
    extents: list[_Extent] = []
    right = {"as printed": 0, "corrected, without rounding to even": 0, "with rounding to even": 0}
    for line in table.rows:
        own, literal, odd = by_rule(line), as_printed(line), without_rounding(line)
        for key, found in zip(right, (literal, odd, own), strict=True):
            right[key] += found == line.region
        extents += _extents(line, own, literal, odd)
    return Findings(
        rows=tuple(_judged(extents)),
        summary={f"rows of 10 by the formulas {key}": count for key, count in right.items()},
        notes=(
            f"published: {table.source}",
            "general rows count the image as it is, optimised rows with its padding, so that the"
            " loads of the two halves do not compare",
            *_coverage(table.rows),
        ),
    )


def by_rule(line: network.PrintedLayer) -> network.Region:
    """The region by the rule that yields all ten rows."""
    op = network.vgg16_convolution(line.layer)
    if line.strategy == "general":
        return _general(line, max(input_rows(op.height, network.CORES), op.kernel[0]))
    return _input_region(line, output_tile(op.out_height, op.out_width, network.CORES))


def without_rounding(line: network.PrintedLayer) -> network.Region:
    """The rule's region with Eq. 5's number of columns, not rounded to even."""
    op = network.vgg16_convolution(line.layer)
    if line.strategy == "general" or _is_large(line):
        return by_rule(line)
    return _input_region(line, (2, -(-op.out_height * op.out_width // (2 * network.CORES))))


def as_printed(line: network.PrintedLayer) -> network.Region:
    """Literal result of Eqs. 3 to 5, with the outputs that these inputs yield without padding."""
    op = network.vgg16_convolution(line.layer)
    if line.strategy == "general":
        return _general(line, input_rows(op.height, network.CORES))
    if _is_large(line):
        extents = op.out_height, op.out_width
        rows, columns = (equation4(extent, op.stride[0], op.kernel[0]) for extent in extents)
    else:
        rows, columns = 4, equation5(op.out_height, op.out_width, op.kernel[1])
    return rows, columns, rows - op.kernel[0] + 1, columns - op.kernel[1] + 1


def _is_large(line: network.PrintedLayer) -> bool:
    """True where Eq. 4 applies rather than Eq. 5."""
    return network.vgg16_convolution(line.layer).out_height >= 2 * network.CORES


def _general(line: network.PrintedLayer, rows: int) -> network.Region:
    op = network.vgg16_convolution(line.layer)
    return rows, op.width, rows - op.kernel[0] + 1, op.out_width


def _input_region(line: network.PrintedLayer, tile: tuple[int, int]) -> network.Region:
    op = network.vgg16_convolution(line.layer)
    rows, columns = (
        seen((0, tile[axis]), (0, op.kernel[axis]), op.stride[axis], op.padding[axis])
        for axis in (0, 1)
    )
    return rows[1] - rows[0], columns[1] - columns[0], *tile


def _extents(
    line: network.PrintedLayer, own: network.Region, literal: network.Region, odd: network.Region
) -> Iterator[_Extent]:
    """All extents of a line; those that depend on rounding to even are fitted."""
    names = ("input rows", "input columns", "output rows", "output columns")
    found = zip(names, line.region, literal, own, odd, strict=True)
    for name, printed, formula, rule, unrounded in found:
        fitted = "" if rule == unrounded else _EVEN
        name = f"{line.layer} {line.strategy}: {name}"
        yield _Extent("Table 4", name, printed, formula, rule, fitted)


def _coverage(lines: tuple[network.PrintedLayer, ...]) -> Iterator[str]:
    """Output rows that the printed regions omit, and cores without a region."""
    for line in lines:
        op = network.vgg16_convolution(line.layer)
        name = f"{line.layer} {line.strategy}"
        if line.strategy == "general":
            used = min(network.CORES, -(-op.out_height // line.out_rows))
            if used * line.out_rows < op.out_height:
                yield (
                    f"{name}: {used} cores x {line.out_rows} rows are {used * line.out_rows} of "
                    f"{op.out_height} rows of the output; the rest needs rows of other cores"
                )
            if used < network.CORES:
                yield f"{name}: {used} of {network.CORES} cores have rows"
            continue
        across, rest = divmod(op.out_width, line.out_columns)
        tiles = -(-op.out_height // line.out_rows) * (across + bool(rest))
        if tiles < network.CORES:
            yield f"{name}: {tiles} of {network.CORES} cores have a tile"
        if rest:
            yield (
                f"{name}: the last tile of a row has {rest} of {line.out_columns} columns, which "
                "the table does not show"
            )
