"""Fig. 10: the ten benchmarks in the hand-written order, as blocks, and by the automatic schedule.

The paper's bars have no numbers; its text has the means and single ratios of FC and conv3, which
stand beside ours, as do those of whole networks and of fusion. The automatic schedule stands for
its hand-optimised code. GPU rows are published alone.

Programs of blocks beside the single layers: gradients, AlexNet of one tower, a fusion.

Segments are chosen so that all buffers fit the scratchpads. `prefetch` as 0 in any of them has
tiles loaded just before they are computed, the paper's Code #1, which stands for its hand-written
order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.machine import Machine, load_machine
from tilewright.papers.dla_al.benchmarks import (
    UNKNOWN,
    mean_row,
    published,
    published_layers,
    ratios,
)
from tilewright.papers.dla_al.layers import LAYERS, BlockLayer, run_of_blocks
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare

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
    for layers, direction in ((LAYERS[:_BENCHMARKS], "forward"), (GRADIENTS, "backward")):
        rows += _hand_written(lab, layers, direction, machine)
    rows += () if lab.quick else _wholes(machine)
    for subject, against, direction in (
        ("mean of ten", "hand-optimised", "backward"),
        ("mean of ten", "GPU", "forward"),
        ("mean of ten", "GPU", "backward"),
        ("conv3", "GPU", "forward"),
        ("VGG16", "hand-written", "forward"),
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
            "backward there are blocks for eight of the ten, whose LRN does not fit, nor an LSTM",
        ),
    )


def _slower(program: str, machine: Machine) -> float:
    """Time of the hand-written order over that of blocks."""
    orders = (run_of_blocks(text, machine).cycles for text in (program + NATURAL, program))
    natural, ahead = orders
    return natural / ahead


def _hand_written(
    lab: Lab, layers: Sequence[BlockLayer], direction: str, machine: Machine
) -> list[Row]:
    """For each layer the time of the hand-written order over that of its block, and the mean."""
    some = lab.some(list(layers), _QUICK)
    found = {layer.name: _slower(layer.program, machine) for layer in some}

    def row(name: str, value: float | None, ours: float, note: str = "") -> Row:
        title = f"{name}: hand-written over blocks, {direction}"
        return compare(title, value, round(ours, 3), "simulated", note=note, explanation=UNKNOWN)

    printed = {"conv3": published("conv3", "hand-written")} if direction == "forward" else {}
    rows = [row(name, printed.get(name), ours) for name, ours in found.items()]
    mean, count = sum(found.values()) / len(found), len(found)
    note = "" if count == _BENCHMARKS else f"of {count} layers"
    return [*rows, row("mean", published("mean of ten", "hand-written", direction), mean, note)]


def _wholes(machine: Machine) -> list[Row]:
    """AlexNet in both orders, and what fusion of three blocks saves."""
    whole, fused = (run_of_blocks(conv_relu_pool(fused=f), machine) for f in (False, True))
    moving, less = (run.unit_busy["TRANSFER"] for run in (whole, fused))
    subject = "Conv-ReLU-Pool fused"
    saved = published("memory access time saved by fusion", "not fused")
    rows = (
        ("AlexNet: hand-written over blocks", published("AlexNet", "hand-written"),
         _slower(alexnet(), machine), ""),
        (f"{subject}: not fused over fused", published(subject, "not fused"),
         whole.cycles / fused.cycles, ""),
        (f"{subject}: memory access time saved", saved, 100 * (1 - less / moving), "%"),
    )  # fmt: skip
    return [
        compare(name, value, round(ours, 3), "simulated", unit=unit, explanation=UNKNOWN)
        for name, value, ours, unit in rows
    ]


NATURAL = ".static_rw\n@parameter prefetch, 0\n"
"""The declaration that gives a program the hand-written order."""


def _program(calls: Sequence[str], data: Sequence[str]) -> str:
    return "\n".join([".code", *calls, ".static_rw", *data]) + "\n"


def _conv_gradient(
    name: str, side: int, channels: tuple[int, int], kernel: int, segments: tuple[int, int]
) -> BlockLayer:
    """Images keep their sides; `segments` are those of input and output channels."""
    (given, made), (depth, part), padding = channels, segments, kernel // 2
    image, taps = f"1, {side}, {side}", f"{kernel}, {kernel}"
    weights = f"{made}, {taps}, {given}, {part}, {taps}, {depth}"
    sized = {"x": (given, depth), "din": (given, depth), "dout": (made, part)}
    data = [f"@neuron {n}, {image}, {c}, {image}, {s}" for n, (c, s) in sized.items()]
    data += [f"@neuron db, 1, 1, 1, {made}, 1, 1, 1, {part}"]
    data += [f"@synapse {n}, {weights}" for n in ("w", "dw")]
    call = f"@conv_bp din, dw, db, dout, x, w, #1, #1, #{padding}, #{padding}"
    return BlockLayer(name, _program([call], data))


def _fc_gradient(name: str, inputs: int, outputs: int) -> BlockLayer:
    part = 256
    sized = {"x": inputs, "din": inputs, "dout": outputs, "db": outputs}
    data = [f"@neuron {n}, 1, 1, 1, {size}, 1, 1, 1, {part}" for n, size in sized.items()]
    weights = f"{outputs}, 1, 1, {inputs}, {part}, 1, 1, {part}"
    data += [f"@synapse {n}, {weights}" for n in ("w", "dw")]
    return BlockLayer(name, _program(["@fc_bp din, dw, db, dout, x, w"], data))


def _pool_gradient(name: str, side: int, channels: int, part: int) -> BlockLayer:
    half = side // 2
    large = f"1, {side}, {side}, {channels}, 1, 2, {side}, {part}"
    small = f"1, {half}, {half}, {channels}, 1, 1, {half}, {part}"
    data = [f"@neuron {n}, {large}" for n in ("x", "din")]
    data += [f"@neuron {n}, {small}" for n in ("y", "dout")]
    return BlockLayer(name, _program(["@maxpool_bp din, dout, x, y, #2, #2, #2, #2"], data))


GRADIENTS = (
    _conv_gradient("conv1", 7, (512, 2048), 1, (128, 128)),
    _conv_gradient("conv2", 14, (512, 512), 3, (32, 64)),
    _conv_gradient("conv3", 13, (256, 384), 3, (32, 64)),
    _pool_gradient("pool1", 28, 512, 64),
    _pool_gradient("pool2", 56, 256, 32),
    _fc_gradient("fc1", 9216, 4096),
    _fc_gradient("fc2", 4096, 4096),
    _fc_gradient("fc3", 4096, 1024),
)
"""Table 2 backward. Its step of LSTM has no block; the gradient of LRN keeps eight rows of all
channels, 55,812 elements where the vector scratchpad has 32,768.
"""


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
    return _program(["@fuse", *calls, "@endfuse"] if fused else calls, data)


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
    for number, (outputs, part) in ((7, (4096, 512)), (8, (1000, 250))):
        y = f"1, 1, 1, {outputs}, 1, 1, 1, {part}"
        calls += [f"@fc_fp f{number}, {held}, w{number}, b{number}"]
        weights += [f"@synapse w{number}, {outputs}, 1, 1, {depth}, {part}, 1, 1, {segment}"]
        weights += [f"@neuron b{number}, {y}"]
        neurons += [f"@neuron f{number}, {y}"]
        if number == 7:
            calls[-1:] = ["@fuse", calls[-1], "@relu_fp r7, f7", "@endfuse"]
            neurons, held = [*neurons, f"@neuron r7, {y}"], "r7"
        depth, segment = outputs, part
    return _program(calls, [*neurons, ".static_ro", *weights])
