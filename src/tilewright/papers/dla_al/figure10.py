"""Fig. 10: the ten benchmarks in the hand-written order, as blocks, and by the automatic schedule.

The paper's bars have no numbers; its text has the means and single ratios of FC and conv3, which
stand beside ours, as do those of whole networks and of fusion. The automatic schedule stands for
its hand-optimised code. GPU rows are published alone.

Programs of blocks beside the single layers: AlexNet of one tower, VGG16, a fusion.

Segments are chosen so that all buffers fit the scratchpads. `prefetch` as 0 in any of them has
tiles loaded just before they are computed, the paper's Code #1, which stands for its hand-written
order; as 2 it computes each in two, which stands for its hand-optimised code.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.common.progress import silent
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.zoo import network as zoo_network
from tilewright.machine import Machine, load_machine
from tilewright.network.plans import NETWORKS
from tilewright.network.search import BY_THE_MODEL
from tilewright.papers.dla_al.backward import (
    BACKWARD,
    FORWARD,
    HALVED,
    gradient_network,
    plan_by_model,
    program_of,
)
from tilewright.papers.dla_al.benchmarks import (
    UNKNOWN,
    LayerRow,
    mean_row,
    published,
    published_layers,
    ratios,
)
from tilewright.papers.dla_al.layers import LAYERS, BlockLayer, cycles_by_blocks, run_of_blocks
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare
from tilewright.targets.cambricon.code import CODE

TITLE = "ten benchmarks: hand-written order, blocks, the automatic schedule"
_BENCHMARKS, _QUICK = 10, 1


def run(lab: Lab) -> Result:
    """A row for each benchmark and each of its versions, then each number of the text."""
    machine = load_machine(PAPER_MACHINE)
    every = published_layers()[:_BENCHMARKS]
    rows, found = ratios(lab, every if not lab.quick else [x for x in every if x.name == "fc3"],
                         _QUICK)  # fmt: skip
    if found.keys() == {layer.name for layer in every}:
        fc = max(found[name] for name in ("fc1", "fc2", "fc3"))
        rows.append(mean_row("mean, forward", list(found.values()),
                             published("mean of ten", "hand-optimised"), ""))  # fmt: skip
        for name, ours in (("FC", fc), ("conv3", found["conv3"])):
            value = published(name, "hand-optimised")
            rows.append(compare(f"{name} against hand-optimised", value, round(ours, 3),
                                "simulated", explanation=UNKNOWN))  # fmt: skip
    rows += _backward(lab, every, machine)
    for layers, direction in ((LAYERS, "forward"), (BACKWARD, "backward")):
        rows += _orders(lab, layers[:_BENCHMARKS], direction, machine)
    rows += () if lab.quick else _wholes(machine)
    for subject, against, direction in (
        ("mean of ten", "GPU", "forward"),
        ("mean of ten", "GPU", "backward"),
        ("conv3", "GPU", "forward"),
    ):
        value = published(subject, against, direction)
        rows.append(compare(f"{subject} against {against}, {direction}", value, None, "published"))
    return Result(
        paper="dla_al",
        experiment="figure10",
        title=TITLE,
        rows=tuple(rows),
        summary={},
        notes=(
            "the automatic schedule stands for hand-optimised code, which the paper does not print",
            "changes of layout are the host's, as they are for blocks",
            "hand-optimised blocks compute a tile in two, with half of the next loads beside each",
        ),
    )


def _backward(lab: Lab, every: Sequence[LayerRow], machine: Machine) -> list[Row]:
    """For each layer the time of its planned gradients over that of the block's, and the mean."""
    blocks = {layer.name: layer for layer in BACKWARD}
    chosen = [x for x in every if x.name == "fc3"] if lab.quick else list(every)
    rows, found = list[Row](), list[float]()
    for layer in chosen:
        network = gradient_network(layer, machine.core.elements or "")
        ours, block = _planned(network, machine), cycles_by_blocks(blocks[layer.name], machine)
        found.append(ours / block)
        rows.append(compare(f"{layer.name}: automatic over blocks, backward", None,
                            round(ours / block, 3), "simulated",
                            note=f"{ours} and {block} cycles"))  # fmt: skip
    if len(found) == _BENCHMARKS:
        value = published("mean of ten", "hand-optimised", "backward")
        rows.append(mean_row("mean, backward", found, value, ""))
    return rows


def _planned(network: Network, machine: Machine) -> int:
    """Cycles of the planned gradients, without changes of layout and what the layer made."""
    plan = plan_by_model(network, machine)
    counted = (
        stage.candidate.program(machine)
        for stage in plan.stages
        if stage.work != "layout" and not stage.name.startswith(FORWARD)
    )
    return sum(CODE.simulate(program, machine).cycles for program in counted)


def _over_blocks(program: str, order: str, machine: Machine) -> float:
    """Time of another order over that of blocks."""
    own, ahead = (run_of_blocks(text, machine).cycles for text in (program + order, program))
    return own / ahead


def _orders(lab: Lab, layers: Sequence[BlockLayer], direction: str, machine: Machine) -> list[Row]:
    """For each layer the time of the hand-written and of the hand-optimised order over that of its
    block, and the mean of the former.
    """
    some, rows, found = lab.some(list(layers), _QUICK), list[Row](), list[float]()
    printed = {"conv3": published("conv3", "hand-written")} if direction == "forward" else {}
    for layer in some:
        for name, order in (("hand-written", NATURAL), ("hand-optimised", HALVED)):
            ours = _over_blocks(layer.program, order, machine)
            own = printed.get(layer.name) if order == NATURAL else None
            found += [ours] if order == NATURAL else []
            rows.append(compare(f"{layer.name}: {name} over blocks, {direction}", own,
                                round(ours, 3), "simulated", explanation=UNKNOWN))  # fmt: skip
    value, count = published("mean of ten", "hand-written", direction), len(found)
    note = "" if count == _BENCHMARKS else f"of {count} layers"
    title = f"mean: hand-written over blocks, {direction}"
    mean = round(sum(found) / count, 3)
    return [*rows, compare(title, value, mean, "simulated", note=note, explanation=UNKNOWN)]


def _wholes(machine: Machine) -> list[Row]:
    """AlexNet and VGG16 in all versions, and what fusion of three blocks saves."""
    whole, fused = (run_of_blocks(conv_relu_pool(fused=f), machine) for f in (False, True))
    moving, less = (run.unit_busy["TRANSFER"] for run in (whole, fused))
    subject = "Conv-ReLU-Pool fused"
    saved = published("memory access time saved by fusion", "not fused")
    rows: list[tuple[str, float | None, float, str]] = [
        (f"{subject}: not fused over fused", published(subject, "not fused"),
         whole.cycles / fused.cycles, ""),
        (f"{subject}: memory access time saved", saved, 100 * (1 - less / moving), "%"),
    ]  # fmt: skip
    for name, zoo, program in (
        ("AlexNet", "alexnet", alexnet()),
        ("VGG16", "vgg16", vgg16_blocks()),
    ):
        blocks = run_of_blocks(program, machine).cycles
        network = FixedPoint(machine.core.elements or "").apply(zoo_network(zoo, 1))
        made = NETWORKS.required(machine).compile(network, machine, BY_THE_MODEL, progress=silent)
        versions = {
            "hand-written": run_of_blocks(program + NATURAL, machine).cycles,
            "hand-optimised": run_of_blocks(program + HALVED, machine).cycles,
            "automatic": made.simulated.cycles,
        }
        for version, cycles in versions.items():
            printed = published(name, version) if version == "hand-written" else None
            rows.append((f"{name}: {version} over blocks", printed, cycles / blocks, ""))
    return [
        compare(name, value, round(ours, 3), "simulated", unit=unit, explanation=UNKNOWN)
        for name, value, ours, unit in rows
    ]


NATURAL = ".static_rw\n@parameter prefetch, 0\n"
"""The declaration that gives a program the hand-written order."""


def conv_relu_pool(*, fused: bool) -> str:
    """Table 2's conv2, a convolution of VGG16, its activation and the pooling behind it."""
    calls = [
        "@conv_fp c, x, w, #1, #1, #1, #1",
        "@relu_fp r, c",
        "@maxpool_fp p, r, #2, #2, #2, #2",
    ]
    data = [f"@neuron {n}, 1, 14, 14, 512, 1, {rows}, 14, 64" for n, rows in (("x", 14), ("c", 2))]
    data += ["@neuron r, 1, 14, 14, 512, 1, 2, 14, 64", "@neuron p, 1, 7, 7, 512, 1, 1, 7, 64"]
    data += [".static_ro", "@synapse w, 512, 3, 3, 512, 64, 3, 3, 64"]
    return program_of(["@fuse", *calls, "@endfuse"] if fused else calls, data)


def alexnet() -> str:
    """AlexNet's inference: activations fused behind their layers, the towers taken as one."""
    calls, neurons, weights = list[str](), ["@neuron x, 1, 227, 227, 3"], list[str]()
    side, depth, segment, held = 227, 3, 3, "x"
    conv_rows = (
        (96, 11, 4, 0, 24, 3), (256, 5, 1, 2, 64, 1), (384, 3, 1, 1, 64, 0), (384, 3, 1, 1, 64, 0),
        (256, 3, 1, 1, 64, 6), (4096, 6, 1, 0, 32, 0),
    )  # fmt: skip
    for number, (maps, kernel, step, padding, part, pooled) in enumerate(conv_rows, 1):
        side = (side + 2 * padding - kernel) // step + 1
        y, taps = f"{side}, {side}, {maps}, 1, 1, {side}, {part}", f"{kernel}, {kernel}"
        call = f"@conv_fp c{number}, {held}, w{number}, b{number}, #{step}, #{step}"
        calls += ["@fuse", f"{call}, #{padding}, #{padding}", f"@relu_fp r{number}, c{number}"]
        calls += ["@endfuse"]
        weights += [f"@synapse w{number}, {maps}, {taps}, {depth}, {part}, {taps}, {segment}"]
        weights += [f"@neuron b{number}, 1, 1, 1, {maps}, 1, 1, 1, {part}"]
        kinds, held = ["c", "r"], f"r{number}"
        if number < 3:
            calls += [f"@lrn_fp n{number}, {held}, #5, #1, #192, #512"]
            kinds, held = [*kinds, "n"], f"n{number}"
        neurons += [f"@neuron {kind}{number}, 1, {y}" for kind in kinds]
        if pooled:
            side = (side - 3) // 2 + 1
            calls += [f"@maxpool_fp p{number}, {held}, #3, #3, #2, #2"]
            pool = f"{side}, {side}, {maps}, 1, {pooled}, {side}, {part}"
            neurons, held = [*neurons, f"@neuron p{number}, 1, {pool}"], f"p{number}"
        depth, segment = maps, part
    return _with_last_layers(calls, neurons, weights, 7, held, segment)


def vgg16_blocks() -> str:
    """VGG16's inference, activations and poolings fused behind their layers; the last layers as in
    AlexNet.
    """
    calls, neurons, weights = list[str](), ["@neuron x, 1, 224, 224, 3"], list[str]()
    side, depth, segment, held = 224, 3, 3, "x"
    layers = [(maps, 3, pooled) for maps, count in _VGG for pooled in (*[0] * (count - 1), 1)]
    for number, (maps, kernel, pooled) in enumerate([*layers, (4096, 7, 0)], 1):
        padding = 1 if kernel == 3 else 0
        part = _VGG_PARTS[side]
        side += 2 * padding - kernel + 1
        call = f"@conv_fp c{number}, {held}, w{number}, b{number}, #1, #1, #{padding}, #{padding}"
        calls += ["@fuse", call, f"@relu_fp r{number}, c{number}"]
        taps = f"{kernel}, {kernel}"
        weights += [f"@synapse w{number}, {maps}, {taps}, {depth}, {part}, {taps}, {segment}",
                    f"@neuron b{number}, 1, 1, 1, {maps}, 1, 1, 1, {part}"]  # fmt: skip
        y = f"{side}, {side}, {maps}, 1, {min(2, side)}, {side}, {part}"
        neurons += [f"@neuron {kind}{number}, 1, {y}" for kind in "cr"]
        held, depth, segment = f"r{number}", maps, part
        if pooled:
            calls += [f"@maxpool_fp p{number}, {held}, #2, #2, #2, #2"]
            side, held = side // 2, f"p{number}"
            pool = f"{side}, {side}, {maps}, 1, 1, {side}, {part}"
            neurons += [f"@neuron {held}, 1, {pool}"]
        calls += ["@endfuse"]
    return _with_last_layers(calls, neurons, weights, len(layers) + 2, held, segment)


_VGG = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels of VGG16's images of one side, and how many layers make them."""
_VGG_PARTS = {224: 8, 112: 16, 56: 32, 28: 64, 14: 64, 7: 32}
"""Output channels of a segment by the side of an image."""


def _with_last_layers(
    calls: Sequence[str],
    neurons: Sequence[str],
    weights: Sequence[str],
    first: int,
    held: str,
    segment: int,
) -> str:
    """The program with two layers behind 4096 features, numbered from `first` on."""
    calls, neurons, weights, depth = [*calls], [*neurons], [*weights], 4096
    for number, (outputs, part) in enumerate(((4096, 512), (1000, 250)), first):
        y = f"1, 1, 1, {outputs}, 1, 1, 1, {part}"
        call = f"@fc_fp f{number}, {held}, w{number}, b{number}"
        weights += [f"@synapse w{number}, {outputs}, 1, 1, {depth}, {part}, 1, 1, {segment}"]
        weights += [f"@neuron b{number}, {y}"]
        neurons += [f"@neuron f{number}, {y}"]
        if number == first:
            calls += ["@fuse", call, f"@relu_fp r{number}, f{number}", "@endfuse"]
            neurons, held = [*neurons, f"@neuron r{number}, {y}"], f"r{number}"
        else:
            calls += [call]
        depth, segment = outputs, part
    return program_of(calls, [*neurons, ".static_ro", *weights])
