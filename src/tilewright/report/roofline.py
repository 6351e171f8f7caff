"""A roofline in text: bandwidth required and available at each level, and what they bound.

In: a `Roofline`. Out: lines of text; the streams of a level stand under it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.cost.roofline import Level, Roofline, Stream
from tilewright.report.explain import columns

_HEAD = ("level", "block", "required GB/s", "available GB/s", "share", "Gflop/s", "squared")


def roofline_text(r: Roofline, threads: int = 1) -> str:
    """The whole roofline, ended by what bounds the program; of several threads that of each."""
    return "\n".join([*_head(r, threads), *columns([_HEAD, *_rows(r)]), *_verdict(r)]) + "\n"


def _head(r: Roofline, threads: int) -> Iterator[str]:
    whose = "one core group" if threads == 1 else f"one of {threads} threads"
    yield (
        f"roofline of {whose} (model): peak {r.peak_flops / 1e9:.1f} Gflop/s, "
        f"execution efficiency {100 * r.execution_efficiency:.1f} %"
    )


def _rows(r: Roofline) -> Iterator[tuple[str, ...]]:
    for level in r.levels:
        yield _row(level)
        if len(level.streams) > 1:
            yield from map(_stream, level.streams)
    yield _row(r.direct)


def _row(level: Level) -> tuple[str, ...]:
    return (
        level.name,
        "",
        _giga(level.required_bytes_per_second),
        _giga(level.available_bytes_per_second),
        f"{level.share:.3g}",
        _giga(level.roofline_flops),
        _giga(level.squared_flops),
    )


def _stream(stream: Stream) -> tuple[str, ...]:
    return (
        f"  {stream.name}",
        f"{stream.block_bytes:.0f}" if stream.block_bytes else "",
        _giga(stream.required_bytes_per_second),
        _giga(stream.available_bytes_per_second),
        *[""] * 3,
    )


def _verdict(r: Roofline) -> Iterator[str]:
    least = min(r.levels, key=lambda level: level.share)
    computing = least.share > r.execution_efficiency
    cause = "the primitives" if computing else f"the bandwidth of {least.name}"
    yield f"bound by {cause}: {_giga(r.roofline_flops)} Gflop/s if all overlaps, " + (
        f"{_giga(r.squared_flops)} by the squared shares of swDNN III-D"
    )
    if r.useful_fraction < 1:
        yield f"{100 * (1 - r.useful_fraction):.1f} % of the operations are padding, not counted"


def _giga(value: float) -> str:
    return f"{value / 1e9:.1f}" if value >= 1e8 else f"{value / 1e9:.2g}"
