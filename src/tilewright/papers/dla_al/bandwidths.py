"""The bandwidth at which each published ratio of two block orders would hold, if any.

No source states the bandwidth of main memory. A ratio is simulated at several bandwidths, in bytes
per cycle; where the published one lies between neighbouring results, its bandwidth is interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import exp, log
from statistics import fmean

from tilewright.asm import assemble, link
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.papers.dla_al.benchmarks import other_numbers, published_layers
from tilewright.papers.dla_al.layers import run_of_image
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.dla_al.versions import ORDERS, Version, program_of_blocks
from tilewright.papers.dla_al.wholes import WHOLES, conv_relu_pool
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare

TITLE = "the bandwidth that implies each published ratio"
BANDWIDTHS = (16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Bytes per cycle of loads and stores."""
_NOTE = (
    f"simulated at {', '.join(f'{own:g}' for own in BANDWIDTHS)} bytes a cycle; a bandwidth "
    "between two of these is interpolated by its logarithm"
)
_ENGINES = ("get", "put", "get_matrix")
_LAYERS = tuple(layer.name for layer in published_layers())
_SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "mean of ten": _LAYERS[:10],
    "mean of five convolutions": _LAYERS[10:],
    "FC": tuple(name for name in _LAYERS if name.startswith("fc")),
    **{name: (name,) for name in ("conv3", *WHOLES)},
}
"""The layers or networks of each subject; for FC the largest ratio counts."""


def run(lab: Lab) -> Findings:
    """A row for each published ratio of orders, and both ratios of the fusion."""
    asked = [n for n in other_numbers() if n.place == "4.1" and n.subject in _SUBJECTS]
    asked = [n for n in asked if n.against in ORDERS and (not lab.quick or n.subject == "FC")]
    orders = [(n, order) for n in asked for order in ("blocks", n.against)]
    cases = dict.fromkeys(
        Version(s, o, n.direction) for n, o in orders for s in _SUBJECTS[n.subject]
    )
    found = dict(zip(cases, lab.map(_cycles, [*cases]), strict=True))
    rows = list[Row]()
    for number in asked:
        every = list[list[float]]()
        for subject in _SUBJECTS[number.subject]:
            own, blocks = (
                found[Version(subject, order, number.direction)]
                for order in (number.against, "blocks")
            )
            every.append([a / b for a, b in zip(own, blocks, strict=True)])
        of_all = max if number.subject == "FC" else fmean
        name = f"{number.subject}: {number.against} over blocks, {number.direction}"
        value = number.value / (100 if number.unit == "%" else 1)
        rows.append(_row(name, value, [of_all(own) for own in zip(*every, strict=True)]))
    if not lab.quick:
        rows += _fusion(lab)
    return Findings(tuple(rows), notes=(_NOTE,))


def implied(ratios: Sequence[float], published: float) -> float | None:
    """The bandwidth interpolated between neighbours whose ratios enclose the published one; the
    largest if several, None if there is none.

    >>> implied([1.0, 1.0, 1.0, 1.0, 1.2, 1.4], 1.3)
    362.0
    """
    found = None
    pairs = zip(pairwise(BANDWIDTHS), pairwise(ratios), strict=True)
    for (low, high), (first, last) in pairs:
        if min(first, last) <= published <= max(first, last) and first != last:
            share = (published - first) / (last - first)
            found = round(exp(log(low) + share * (log(high) - log(low))))
    return None if found is None else float(found)


def _row(name: str, published: float, ratios: Sequence[float]) -> Row:
    bandwidth = implied(ratios, published)
    values = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    note = f"published {published:g}; {values}" + ("; none implies it" if bandwidth is None else "")
    return compare(name, None, bandwidth, "simulated", note=note, unit="bytes a cycle")


def _machines() -> list[Machine]:
    return [
        load_machine(
            PAPER_MACHINE, {f"engines.io.{name}.bytes_per_cycle": rate for name in _ENGINES}
        )
        for rate in BANDWIDTHS
    ]


def _cycles(version: Version) -> list[int]:
    """Cycles of a block program at each bandwidth."""
    program = program_of_blocks(version.subject, version.direction) + ORDERS[version.order]
    return [cycles for cycles, _ in _times(program)]


def _times(program: str) -> list[tuple[int, int]]:
    """(cycles, transfer cycles) of a program at each bandwidth."""
    machines = _machines()
    table = load_table(machines[0].core.instruction_table or "")
    image = link([assemble(program, table)], table)
    runs = [run_of_image(image, machine) for machine in machines]
    return [(found.cycles, found.unit_busy["TRANSFER"]) for found in runs]


def _fusion(lab: Lab) -> list[Row]:
    """Time of three blocks over that of their fusion, and the share of transfers it saves."""
    texts = [conv_relu_pool(fused=fused) for fused in (False, True)]
    apart, fused = lab.map(_times, texts)
    pairs = [*zip(apart, fused, strict=True)]
    faster, less = (
        [one[0] / other[0] for one, other in pairs],
        [1 - other[1] / one[1] for one, other in pairs],
    )
    numbers = [n for n in other_numbers() if n.against == "not fused"]
    values = [n.value / (100 if n.unit == "%" else 1) for n in numbers]
    named = zip((n.subject for n in numbers), values, (faster, less), strict=True)
    return [_row(*own) for own in named]
