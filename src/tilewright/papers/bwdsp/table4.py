"""Table 4: the regions of a core in five layers, by the rule that yields each row.

General rows: max(ceil(I_H / N), F_H) rows of the input at its own width, and the rows of output
that they give without padding. Optimised rows: the tile of `output_tiles`, and what the convolution
sees of the padded image for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from tilewright.ops.window import seen
from tilewright.papers.bwdsp.network import CORES, vgg16_convolution
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Kind, Row, compare
from tilewright.partition.strategies import input_rows, output_tile

TITLE = "regions of a core in five layers"
Region = tuple[int, int, int, int]
"""Rows and columns of the input, rows and columns of the output."""


class PrintedLayer(Struct, frozen=True):
    """One layer's line of the table under one strategy, as extents."""

    layer: str
    strategy: str
    in_rows: int
    in_columns: int
    out_rows: int
    out_columns: int

    @property
    def region(self) -> Region:
        """The four extents."""
        return self.in_rows, self.in_columns, self.out_rows, self.out_columns


def run(lab: Lab) -> Findings:
    """Four rows for each of the table's ten, with what the formulas as printed give."""
    table = lab.published("bwdsp", "table4", PrintedLayer)
    rows: list[Row] = []
    right = {"as printed": 0, "corrected, without rounding to even": 0, "with rounding to even": 0}
    for line in table.rows:
        own, literal, odd = by_rule(line), as_printed(line), without_rounding(line)
        for key, found in zip(right, (literal, odd, own), strict=True):
            right[key] += found == line.region
        rows += _rows(line, own, literal, odd)
    return Findings(
        rows=tuple(rows),
        summary={f"rows of 10 by the formulas {key}": count for key, count in right.items()},
        notes=(
            f"published: {table.source}",
            "general rows count the image as it is, optimised rows with its padding, so that the"
            " loads of the two halves do not compare",
            *_coverage(table.rows),
        ),
    )


def by_rule(line: PrintedLayer) -> Region:
    """The rule that yields all ten rows."""
    op = vgg16_convolution(line.layer)
    if line.strategy == "general":
        return _general(line, max(input_rows(op.height, CORES), op.kernel[0]))
    return _input_region(line, output_tile(op.out_height, op.out_width, CORES))


def without_rounding(line: PrintedLayer) -> Region:
    """The rule's region with as many columns as Eq. 5 has, odd or even."""
    op = vgg16_convolution(line.layer)
    if line.strategy == "general" or op.out_height >= 2 * CORES:
        return by_rule(line)
    return _input_region(line, (2, -(-op.out_height * op.out_width // (2 * CORES))))


def as_printed(line: PrintedLayer) -> Region:
    """Literal result of Eqs. 3 to 5, with the outputs that these inputs have without padding."""
    op = vgg16_convolution(line.layer)
    if line.strategy == "general":
        return _general(line, input_rows(op.height, CORES))
    if op.out_height >= 2 * CORES:
        rows, columns = (
            (extent - 1) // op.stride[0] + op.kernel[0] for extent in (op.out_height, op.out_width)
        )
    else:
        rows = 4
        columns = (op.out_height * op.out_width - 1) // (2 * CORES) + op.kernel[1]
    return rows, columns, rows - op.kernel[0] + 1, columns - op.kernel[1] + 1


def _general(line: PrintedLayer, rows: int) -> Region:
    op = vgg16_convolution(line.layer)
    return rows, op.width, rows - op.kernel[0] + 1, op.out_width


def _input_region(line: PrintedLayer, tile: tuple[int, int]) -> Region:
    op = vgg16_convolution(line.layer)
    rows, columns = (
        seen((0, tile[axis]), (0, op.kernel[axis]), op.stride[axis], op.padding[axis])
        for axis in (0, 1)
    )
    return rows[1] - rows[0], columns[1] - columns[0], *tile


def _rows(line: PrintedLayer, own: Region, literal: Region, odd: Region) -> Iterator[Row]:
    """That widths are even was concluded from the extents that it changes: those are fitted."""
    names = ("input rows", "input columns", "output rows", "output columns")
    extents = zip(names, line.region, own, literal, odd, strict=True)
    for name, printed, found, formula, unrounded in extents:
        kind: Kind = "exact" if found == unrounded else "fitted"
        note = "" if formula == printed else f"the formula as printed gives {formula}"
        yield compare(f"{line.layer} {line.strategy}: {name}", printed, found, kind, note=note)


def _coverage(lines: tuple[PrintedLayer, ...]) -> Iterator[str]:
    """Rows that the printed regions leave out, and cores without a region."""
    for line in lines:
        op = vgg16_convolution(line.layer)
        name = f"{line.layer} {line.strategy}"
        if line.strategy == "general":
            used = min(CORES, -(-op.out_height // line.out_rows))
            if used * line.out_rows < op.out_height:
                yield (
                    f"{name}: {used} cores x {line.out_rows} rows are {used * line.out_rows} of "
                    f"{op.out_height} rows of the output; the rest needs rows of other cores"
                )
            if used < CORES:
                yield f"{name}: {used} of {CORES} cores have rows"
            continue
        across, rest = divmod(op.out_width, line.out_columns)
        tiles = -(-op.out_height // line.out_rows) * (across + bool(rest))
        if tiles < CORES:
            yield f"{name}: {tiles} of {CORES} cores have a tile"
        if rest:
            yield (
                f"{name}: the last tile of a row has {rest} of {line.out_columns} columns, which "
                "the table does not show"
            )
