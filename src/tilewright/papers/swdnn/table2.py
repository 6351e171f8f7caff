"""swDNN Table II: DMA bandwidth of one core group by the size of the contiguous block.

The model is the transaction rule of the machine file (docs/reference/machine.md), whose parameters
were fitted to this table except its smallest blocks: the rows show how well two parameters per
direction fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.cost.timing import TransferShape, stream_bytes_per_second
from tilewright.ir.nodes import Direction
from tilewright.machine import Machine, load_machine
from tilewright.papers.figures import lines
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Kind, Result, Row, compare, deviation_summary

TITLE = "DMA bandwidth of one core group by block size"
_UNIT = "GB/s"
_SMALLEST_FITTED_BYTES = 64
_READ_MODIFY_WRITE = "a put this small reads, changes and writes a whole transaction"
_DIP_BYTES = 384
_DIP = (
    "measured below the trend from 256 to 512 bytes in both directions; two parameters per"
    " direction have no such dip"
)
_DIRECTIONS: tuple[Direction, ...] = ("get", "put")


class BandwidthRow(Struct, frozen=True):
    """One block size and the measured bandwidths."""

    size_bytes: int
    get_gigabytes_per_second: float
    put_gigabytes_per_second: float


def run(lab: Lab) -> Findings:
    """Every size, gets first."""
    table = lab.published("swdnn", "table2", BandwidthRow)
    machine = load_machine("sw26010_cg")
    shipped = lab.rows is None
    rows = {d: [_row(machine, d, s, shipped=shipped) for s in table.rows] for d in _DIRECTIONS}
    return Findings(
        rows=tuple(row for found in rows.values() for row in found),
        summary={
            f"{direction}, fitted sizes, {key}": value
            for direction, found in rows.items()
            for key, value in deviation_summary(_fitted_rows(found, table.rows)).items()
        },
        notes=(
            f"published: {table.source}",
            "puts of the table reach 36.01 GB/s, above the 34.1 GB/s of DDR3-2133; the paper's text"
            " says 36 GB/s per group, its conclusion 128 GB/s for four, which is 32 each",
        ),
    )


def draw(result: Result) -> Figure:
    """Both directions over the size."""
    sizes = [float(row.name.split()[-2]) for row in result.rows if row.name.startswith("get")]
    series = {}
    for direction in _DIRECTIONS:
        rows = [row for row in result.rows if row.name.startswith(direction)]
        series[f"{direction}, published"] = [row.published for row in rows]
        series[f"{direction}, model"] = [row.ours for row in rows]
    return lines(sizes, series, title=TITLE, x_label="bytes of a block", y_label=_UNIT, log_x=True)


def _row(machine: Machine, direction: Direction, measured: BandwidthRow, *, shipped: bool) -> Row:
    size = measured.size_bytes
    ours = stream_bytes_per_second(machine, direction, TransferShape(size))
    small = size < _SMALLEST_FITTED_BYTES
    kind: Kind = "fitted" if shipped and not small else "model"
    note = _READ_MODIFY_WRITE if small and direction == "put" else ""
    published = getattr(measured, f"{direction}_gigabytes_per_second")
    name = f"{direction} of {size} bytes"
    dip = _DIP if size == _DIP_BYTES else ""
    return compare(name, published, float(ours) / 1e9, kind, note=note, unit=_UNIT, explanation=dip)


def _fitted_rows(rows: Sequence[Row], sizes: Sequence[BandwidthRow]) -> Iterator[Row]:
    for row, measured in zip(rows, sizes, strict=True):
        if measured.size_bytes >= _SMALLEST_FITTED_BYTES:
            yield row
