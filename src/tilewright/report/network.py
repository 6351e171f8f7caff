"""What running a whole network gives: its stages one by one, the whole, how it compares.

layer      what               algorithm  ms (model)  ms (measured)  Gflop/s
conv1      conv2d 1x3x224...  direct          0.812          0.799    295.4
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from rich.table import Table

from tilewright.report.table import plain_table

_SHOWN_LABEL = 48


class StageResult(Struct, frozen=True):
    """One stage: `estimate_milliseconds` where the model chose it, the median of its runs."""

    name: str
    label: str
    algorithm: str
    estimate_milliseconds: float | None
    measured_milliseconds: float
    gflops: float


class Comparison(Struct, frozen=True):
    """Another computation of the same: the largest difference over the largest magnitude of an
    output, and where it was timed its time and how many times faster ours is, round by round.
    """

    other: Literal["reference", "onnxruntime"]
    version: str
    largest_difference: float
    milliseconds: float | None = None
    speedup: float | None = None
    spread: float | None = None


class NetworkRun(Struct, frozen=True):
    """The `--json` form of `run` for a network; `milliseconds` is the median of whole runs."""

    network: str
    machine: str
    dtype: str
    stages: tuple[StageResult, ...]
    milliseconds: float
    gflops: float
    clock: Literal["wall", "processor"]
    compile_seconds: float
    constant_bytes: int
    arena_bytes: int
    comparison: Comparison | None = None
    output: str | None = None


def network_table(found: NetworkRun) -> Table:
    """One line per stage."""
    title = f"{found.network} on {found.machine}, {found.dtype}, {len(found.stages)} stages"
    table = plain_table(title)
    for column in ("layer", "what", "algorithm"):
        table.add_column(column, overflow="fold", min_width=9)
    for column in ("ms (model)", "ms (measured)", "Gflop/s"):
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))
    for stage in found.stages:
        estimate = stage.estimate_milliseconds
        table.add_row(
            stage.name,
            stage.label[:_SHOWN_LABEL],
            stage.algorithm,
            "" if estimate is None else f"{estimate:.3f}",
            f"{stage.measured_milliseconds:.3f}",
            f"{stage.gflops:.1f}" if stage.algorithm else "",
        )
    return table


def network_totals(found: NetworkRun) -> str:
    """The lines below the table."""
    chosen = [s for s in found.stages if s.algorithm]
    model = sum(s.estimate_milliseconds or 0.0 for s in chosen)
    measured = sum(s.measured_milliseconds for s in chosen)
    clock = "" if found.clock == "wall" else " (processor time: the computer is busy)"
    lines = [
        f"total {found.milliseconds:.3f} ms measured{clock}, {found.gflops:.1f} Gflop/s; products "
        f"{measured:.3f} ms of it, {model:.3f} ms by the model",
        f"compiled in {found.compile_seconds:.2f} s; {found.constant_bytes / 1e6:.1f} MB of "
        f"constants, {found.arena_bytes / 1e6:.1f} MB of arena",
    ]
    other = found.comparison
    if other is not None:
        name = f"{other.other} {other.version}".strip()
        lines.append(
            f"against {name}: largest difference {other.largest_difference:.2e} of the largest "
            "magnitude"
        )
        if other.milliseconds is not None and other.speedup is not None:
            lines[-1] += (
                f"; {other.milliseconds:.3f} ms, ours is {other.speedup:.2f} times as fast "
                f"(spread {100 * (other.spread or 0.0):.1f} %)"
            )
    return "\n".join(lines)
