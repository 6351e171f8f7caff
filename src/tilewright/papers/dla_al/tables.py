"""Printed numbers other than times: blocks, layers, program lengths, counts, the machine.

Ours are counted in the language, in the networks and programs that are timed, and in the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from tilewright.machine import load_machine
from tilewright.papers.dla_al.benchmarks import (
    LayerRow,
    layer_in_reals,
    other_numbers,
    published_layers,
)
from tilewright.papers.dla_al.layers import program_of
from tilewright.papers.dla_al.loops import PAPER_MACHINE, Tiles, source
from tilewright.papers.dla_al.wholes import WHOLES, conv_relu_pool
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.papers.published import read_published
from tilewright.targets.cambricon.dla.blocks import BLOCKS

TITLE = "Tables 1 to 3, the program of Fig. 2, and numbers of the text that are no times"
TWO_LAYERS_DATA = (
    "@neuron fc1_inp, 1, 1, 1, 1024, 1, 1, 1, 128",
    "@neuron fc1_out, 1, 1, 1, 256, 1, 1, 1, 128",
    "@neuron fc2_out, 1, 1, 1, 128, 1, 1, 1, 128",
    "@neuron fc1_bias, 1, 1, 1, 256, 1, 1, 1, 128",
    "@neuron fc2_bias, 1, 1, 1, 128, 1, 1, 1, 128",
    "@synapse fc1_weight, 256, 1, 1, 1024, 128, 1, 1, 128",
    "@synapse fc2_weight, 128, 1, 1, 256, 128, 1, 1, 128",
)
TWO_LAYERS = program_of(
    (
        "@fc_fp fc1_out, fc1_inp, fc1_weight, fc1_bias",
        "@fc_fp fc2_out, fc1_out, fc2_weight, fc2_bias",
    ),
    TWO_LAYERS_DATA,
)
"""The program of Fig. 2."""
_BASIC = Path(__file__).parent / "listings" / "two_layers.s"
TWO_LAYERS_BASIC = program_of(_BASIC.read_text(encoding="utf-8").splitlines(), TWO_LAYERS_DATA)
"""The two layers in basic statements, segment after segment, like Fig. 3 of the paper."""
_WAYS = {"inference": ("_fp", ""), "training": ("_bp",)}
"""Suffixes of block names for each direction."""


class Algorithm(Struct, frozen=True):
    """A row of Table 1, with the corresponding block here."""

    domain: str
    algorithm: str
    block: str


def run(lab: Lab) -> Findings:
    """A row for each number that is not a time."""
    rows = [*_blocks(), *(r for layer in published_layers() for r in _layer_rows(layer)), *_text()]
    return Findings(tuple(rows))


def _blocks() -> Iterator[Row]:
    """Numbers of Table 1's algorithms that have a block, by domain and direction."""
    every = read_published("dla_al", "blocks", Algorithm).rows
    for domain, printed in Counter(row.domain for row in every).items():
        own = [row for row in every if row.domain == domain]
        for way, ends in _WAYS.items():
            lacking = [r.algorithm for r in own if not any(r.block + end in BLOCKS for end in ends)]
            yield compare(
                f"Table 1: {domain}, {way}", printed, len(own) - len(lacking), "exact",
                unit="blocks", note=f"not {', '.join(lacking)}" if lacking else "",
            )  # fmt: skip


def _layer_rows(layer: LayerRow) -> Iterator[Row]:
    """The numbers of Table 2 or 3 beside those of the network that is timed."""
    network = layer_in_reals(layer)
    op, given = network.nodes[-1].op, [tensor.shape for tensor in network.inputs]
    made = network.tensors[network.outputs[0]].shape
    kernel, stride = (getattr(op, name, (1,)) for name in ("kernel", "stride"))
    ours = {
        "in_maps": given[0][1],
        "out_maps": made[1],
        "in_side": (*given[0], 1)[2],
        "out_side": (*made, 1)[2],
        "kernel": kernel[0],
        "stride": stride[0],
        "hidden": given[-1][1],
    }
    for name, value in asdict(layer).items():
        if name in ours and value is not None:
            yield compare(f"{layer.name}: {name.replace('_', ' ')}", value, ours[name], "exact")


def _text() -> Iterator[Row]:
    """Counts of the text and of Fig. 2; the GPU's numbers stand alone."""
    sizes = [int(row.split(", ")[4]) for row in TWO_LAYERS_DATA[:3]]
    segments = {int(row.split(", ")[-1]) for row in TWO_LAYERS_DATA}
    lines = [len(program.splitlines()) for program in (TWO_LAYERS, TWO_LAYERS_BASIC)]
    (part,) = segments
    issue, names = load_machine(PAPER_MACHINE).issue, [layer.name for layer in published_layers()]
    assert issue is not None
    halves, more = source(Tiles(1, 16, 16), "halved"), [n for n in names if n.startswith("Table 3")]
    ours: dict[tuple[str, str], float] = {
        ("layer 1 inputs", ""): sizes[0],
        ("layer 1 outputs", ""): sizes[1],
        ("layer 2 outputs", ""): sizes[2],
        ("segments of both layers", ""): part,
        ("lines of two FC layers", ""): lines[0],
        ("lines of two FC layers", "Cambricon ISA"): round(lines[1] / lines[0], 2),
        ("depth of the issue queue", ""): issue.in_flight,
        ("instructions issued simultaneously", ""): issue.in_flight,
        ("instructions after splitting a computation", ""): halves.count("mmv"),
        ("benchmarks", ""): len(names) - len(more),
        ("whole networks", ""): len(WHOLES),
        ("more convolutions", ""): len(more),
        ("layers fused", ""): conv_relu_pool(fused=True).count("_fp"),
    }
    for row in other_numbers():
        key = row.subject, row.against
        if not row.direction:
            yield compare(
                f"{row.place}: {row.subject}", row.value, ours.get(key),
                "exact" if key in ours else "published", unit=row.unit,
                note=row.against and f"against {row.against}",
            )  # fmt: skip
