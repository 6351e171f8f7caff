"""Figs. 10 and 11: the paper's layers and networks in four versions, timed on its machine.

Fig. 11 has the five convolutions of Table 3. Fig. 10 has the ten benchmarks forward and backward,
whole networks and a fusion. The bars have no numbers; the text states means, single ratios of FC
and conv3, ratios of whole networks, and the fusion's savings. GPU rows are published alone.

A block program is one version. With `prefetch` 0, tiles are loaded just before use, the paper's
Code #1, which stands for its hand-written order; with 2, each tile is computed in halves beside
half of the next loads, like the paper's hand-optimised code. The automatic version is the
planner's. In all versions the host changes layouts, and backward passes receive forward results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from tilewright.common.progress import silent
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.zoo import network as zoo_network
from tilewright.machine import Machine, load_machine
from tilewright.network.plan import Plan, Stage
from tilewright.network.planned import PlannedNetwork
from tilewright.network.plans import BY_THE_MODEL, NETWORKS
from tilewright.papers.dla_al.backward import BACKWARD, FORWARD, gradient_network
from tilewright.papers.dla_al.benchmarks import paper_network, printed, published_layers
from tilewright.papers.dla_al.layers import LAYERS, run_of_blocks, run_of_image
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.dla_al.wholes import WHOLES, conv_relu_pool
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare, sampled
from tilewright.targets.cambricon.code import CODE, image_of
from tilewright.tune.candidate import Candidate

TITLES = {
    "figure10": "ten benchmarks: hand-written, hand-optimised and automatic over blocks",
    "figure11": "five convolutions: hand-written, hand-optimised and automatic over blocks",
}
DIRECTIONS = ("forward", "backward")
ORDERS = {
    "blocks": "",
    "hand-written": ".static_rw\n@parameter prefetch, 0\n",
    "hand-optimised": ".static_rw\n@parameter prefetch, 2\n",
}
"""Declarations that set each order of a block program."""
AUTOMATIC = "automatic"
UNKNOWN = "the bandwidth, and the segments of most of its programs, are not in the paper"
"""Explanation of all deviations from its numbers."""


class Version(Struct, frozen=True):
    """A layer or network of the paper, in one version."""

    subject: str
    order: str
    direction: str = "forward"


def version_cycles(version: Version) -> int:
    """Cycles on the paper's machine."""
    machine = load_machine(PAPER_MACHINE)
    if version.order != AUTOMATIC:
        program = program_of_blocks(version.subject, version.direction)
        return run_of_blocks(program + ORDERS[version.order], machine).cycles
    if version.subject in WHOLES:
        network = zoo_network(version.subject.lower(), 1)
        made = _planned(FixedPoint(machine.core.elements or "").apply(network), machine)
        return made.simulated.cycles
    plan = layer_plan(version.subject, version.direction, machine)
    return sum(candidate_cycles(s.candidate, machine) for s in counted_stages(plan))


def candidate_cycles(candidate: Candidate, machine: Machine) -> int:
    """Cycles of a candidate's program."""
    artifact = CODE.emit(candidate.program(machine), machine)
    return run_of_image(image_of(artifact, machine), machine).cycles


def program_of_blocks(subject: str, direction: str) -> str:
    """The block program of a layer or network."""
    if subject in WHOLES:
        return WHOLES[subject]()
    return (LAYERS if direction == "forward" else BACKWARD)[subject]


def layer_network(name: str, direction: str, elements: str) -> Network:
    """A layer, or its gradients."""
    layer = next(layer for layer in published_layers() if layer.name == name)
    return (paper_network if direction == "forward" else gradient_network)(layer, elements)


def layer_plan(name: str, direction: str, machine: Machine) -> Plan:
    """The plan of a layer or its gradients that is fastest by the model."""
    return _planned(layer_network(name, direction, machine.core.elements or ""), machine).plan


def counted_stages(plan: Plan) -> Iterator[Stage]:
    """The stages that count: no layout changes, and no forward results that gradients receive."""
    for stage in plan.stages:
        given = stage.work == "layout" or stage.name.startswith(FORWARD)
        if not given and stage.scheduled.candidate:
            yield stage


def _planned(network: Network, machine: Machine) -> PlannedNetwork:
    made = NETWORKS.required(machine).compile(network, machine, BY_THE_MODEL, progress=silent)
    assert isinstance(made, PlannedNetwork)
    return made


def version_rows(
    lab: Lab, subjects: Sequence[str], direction: str = "forward"
) -> tuple[list[Row], Mapping[str, Sequence[float]]]:
    """Time of each version over the block program's, by subject; and these ratios by version."""
    orders = (*ORDERS, AUTOMATIC)
    cases = [Version(subject, order, direction) for subject in subjects for order in orders]
    found = dict(zip(cases, lab.map(version_cycles, cases), strict=True))
    rows, ratios = list[Row](), {order: list[float]() for order in orders[1:]}
    for subject in subjects:
        whole = found[Version(subject, "blocks", direction)]
        for order, own in ratios.items():
            cycles = found[Version(subject, order, direction)]
            own.append(cycles / whole)
            rows.append(
                ratio_row(subject, order, direction, own[-1], f"{cycles} and {whole} cycles")
            )
    return rows, ratios


def ratio_row(subject: str, order: str, direction: str, ours: float, note: str = "") -> Row:
    """A ratio to the block program, beside the paper's if printed."""
    return compare(
        f"{subject}: {order} over blocks, {direction}", printed(subject, order, direction),
        round(ours, 3), "simulated", note=note, explanation=UNKNOWN,
    )  # fmt: skip


_BENCHMARKS = tuple(layer.name for layer in published_layers()[:10])


def figure10(lab: Lab) -> Findings:
    """A row for each benchmark and version, then each number of the text."""
    rows = [row for direction in DIRECTIONS for row in _benchmarks(lab, direction)]
    if not lab.quick:
        rows += version_rows(lab, ("AlexNet", "VGG16"))[0]
        rows += _fusion(lab)
    for subject, direction in (
        ("mean of ten", "forward"),
        ("mean of ten", "backward"),
        ("conv3", "forward"),
    ):
        value = printed(subject, "GPU", direction)
        rows.append(compare(f"{subject} against GPU, {direction}", value, None, "published"))
    return Findings(
        rows=tuple(rows),
        notes=(
            "changes of layout are the host's, and backward what the layer made is given",
            "hand-optimised blocks compute a tile in two, with half of the next loads beside each",
        ),
    )


def _benchmarks(lab: Lab, direction: str) -> Iterator[Row]:
    """All benchmarks' versions, their means, and the text's numbers of FC and the worst case."""
    names = ["fc3"] if lab.quick else list(_BENCHMARKS)
    rows, ratios = version_rows(lab, names, direction)
    yield from rows
    for order, found in ratios.items():
        note = sampled(len(names), len(_BENCHMARKS), "layers")
        yield ratio_row("mean of ten", order, direction, fmean(found), note)
    if direction == "forward":
        own = dict(zip(names, ratios["hand-optimised"], strict=True))
        fully_connected = max(own[name] for name in names if name.startswith("fc"))
        yield ratio_row("FC", "hand-optimised", direction, fully_connected)
        yield ratio_row("worst case", "hand-optimised", direction, min(own.values()))


def _fusion(lab: Lab) -> Iterator[Row]:
    """Share of cycles saved by fusing three blocks."""
    (whole, moving), (fused, less) = lab.map(_fused_cycles, [False, True])
    subject, saving = "Conv-ReLU-Pool fused", "memory access time saved by fusion"
    for name, ours, unit in ((subject, whole / fused, "times"), (saving, 1 - less / moving, "")):
        value = printed(name, "not fused")
        yield compare(name, value, round(ours, 3), "simulated", unit=unit, explanation=UNKNOWN)


def _fused_cycles(fused: bool) -> tuple[int, int]:
    """(cycles, transfer cycles) of the three blocks."""
    run = run_of_blocks(conv_relu_pool(fused=fused), load_machine(PAPER_MACHINE))
    return run.cycles, run.unit_busy["TRANSFER"]


def figure11(lab: Lab) -> Findings:
    """A row for each convolution and version, and the mean stated in the text."""
    every = [layer.name for layer in published_layers() if layer.name.startswith("Table 3")]
    names = lab.some(every, 1)
    rows, ratios = version_rows(lab, names)
    note = sampled(len(names), len(every), "layers")
    rows += [
        ratio_row("mean of five convolutions", order, "forward", fmean(found), note)
        for order, found in ratios.items()
    ]
    return Findings(tuple(rows))
