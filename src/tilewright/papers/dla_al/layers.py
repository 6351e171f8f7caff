"""Tables 2 and 3: the paper's layers, one block each and LSTM of several, in cycles on its machine.

The paper compares these layers with its own code, by ratios without cycles. The number compared
here is the matrix unit's share of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.asm import Object, assemble, link
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.papers.dla_al.loops import PAPER_MACHINE, TABLE
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.simulate.window.hosted import RUNTIMES
from tilewright.simulate.window.run import WindowRun
from tilewright.targets.cambricon.runtime import Device

TITLE = "the layers of Tables 2 and 3 as blocks, timing only"
_QUICK = 1
_MOST_CYCLES = 1 << 34
"""The gradients of Table 3's convolutions take billions of cycles."""
_GATES = {"i": "sigmoid", "f": "sigmoid", "o": "sigmoid", "g": "tanh"}


def program_of(calls: Sequence[str], data: Sequence[str]) -> str:
    """A program of blocks; all its data is writable except data after `.static_ro`."""
    return "\n".join([".code", *calls, ".static_rw", *data]) + "\n"


def neurons(name: str, size: int, part: int) -> str:
    """Data of `size` elements, in segments of at most `part`."""
    return f"@neuron {name}, 1, 1, 1, {size}, 1, 1, 1, {min(part, size)}"


def synapses(name: str, rows: int, columns: int, part: int, depth: int) -> str:
    """Weights in segments of at most `part` rows and `depth` columns."""
    segments = f"{min(part, rows)}, 1, 1, {min(depth, columns)}"
    return f"@synapse {name}, {rows}, 1, 1, {columns}, {segments}"


def _convolution(
    side: int, channels: tuple[int, int], window: tuple[int, int, int],
    segments: tuple[int, int, int],
) -> str:  # fmt: skip
    """`channels` in, out; `window` size, step, padding; `segments` in, out, rows."""
    (given, made), (size, step, padding), (depth, part, rows) = channels, window, segments
    out, taps = (side + 2 * padding - size) // step + 1, f"{size}, {size}"
    data = [f"@neuron x, 1, {side}, {side}, {given}, 1, {side}, {side}, {depth}"]
    data += [f"@neuron y, 1, {out}, {out}, {made}, 1, {rows}, {out}, {part}", ".static_ro"]
    data += [f"@synapse w, {made}, {taps}, {given}, {part}, {taps}, {depth}"]
    return program_of([f"@conv_fp y, x, w, #{step}, #{step}, #{padding}, #{padding}"], data)


def _fully_connected(inputs: int, outputs: int, segments: tuple[int, int]) -> str:
    depth, part = segments
    weights = synapses("w", outputs, inputs, part, depth)
    data = [neurons("x", inputs, depth), neurons("y", outputs, part), ".static_ro", weights]
    return program_of(["@fc_fp y, x, w"], data)


def _pooling(side: int, channels: int, part: int) -> str:
    half = side // 2
    data = [f"@neuron x, 1, {side}, {side}, {channels}, 1, 2, {side}, {part}"]
    data += [f"@neuron y, 1, {half}, {half}, {channels}, 1, 1, {half}, {part}"]
    return program_of(["@maxpool_fp y, x, #2, #2, #2, #2"], data)


def _norm() -> str:
    data = [f"@neuron {name}, 1, 27, 27, 256, 1, 1, 27, 256" for name in ("x", "y")]
    return program_of(["@lrn_fp y, x, #5, #1, #192, #512"], data)


def lstm_step(inputs: int, hidden: int, outputs: int, part: int) -> str:
    """A step of LSTM and the layer on its result. Gates are in the usual order: input, forget,
    output, candidate. A segment has `part` hidden units.
    """
    vectors = ["hidden", "cell", "kept", "taken", "cell_next", "squashed", "hidden_next"]
    calls, weights, biases = [], [], []
    for gate, activation in _GATES.items():
        vectors += [f"{gate}_x", f"{gate}_h", f"{gate}_sum", gate]
        biases.append(neurons(f"b_{gate}", hidden, part))
        weights.append(synapses(f"w_{gate}", hidden, inputs, part, inputs))
        weights.append(synapses(f"u_{gate}", hidden, hidden, part, part))
        calls += [
            f"@fc_fp {gate}_x, x, w_{gate}, b_{gate}",
            f"@fc_fp {gate}_h, hidden, u_{gate}",
            f"@vadd {gate}_sum, {gate}_x, {gate}_h",
            f"@{activation}_fp {gate}, {gate}_sum",
        ]
    calls += [
        "@vmul kept, f, cell",
        "@vmul taken, i, g",
        "@vadd cell_next, kept, taken",
        "@tanh_fp squashed, cell_next",
        "@vmul hidden_next, o, squashed",
        "@fc_fp y, hidden_next, v",
    ]
    data = [neurons(name, hidden, part) for name in vectors]
    data += [f"@neuron x, 1, 1, 1, {inputs}", f"@neuron y, 1, 1, 1, {outputs}"]
    weights.append(synapses("v", outputs, hidden, outputs, part))
    return program_of(calls, [*data, ".static_ro", *weights, *biases])


LAYERS = {
    "conv1": _convolution(7, (512, 2048), (1, 1, 0), (128, 64, 7)),
    "conv2": _convolution(14, (512, 512), (3, 1, 1), (64, 64, 2)),
    "conv3": _convolution(13, (256, 384), (3, 1, 1), (64, 128, 3)),
    "pool1": _pooling(28, 512, 128),
    "pool2": _pooling(56, 256, 64),
    "fc1": _fully_connected(9216, 4096, (384, 512)),
    "fc2": _fully_connected(4096, 4096, (256, 512)),
    "fc3": _fully_connected(4096, 1024, (256, 512)),
    "lrn": _norm(),
    "lstm": lstm_step(3, 400, 121, 200),
    "Table 3 Conv1": _convolution(227, (3, 96), (11, 4, 0), (3, 24, 1)),
    "Table 3 Conv2": _convolution(27, (96, 256), (5, 1, 1), (24, 64, 1)),
    "Table 3 Conv3": _convolution(56, (128, 256), (3, 1, 1), (32, 64, 2)),
    "Table 3 Conv4": _convolution(56, (256, 256), (3, 1, 1), (32, 64, 2)),
    "Table 3 Conv5": _convolution(28, (512, 512), (3, 1, 1), (64, 64, 2)),
}
"""Block programs by layer, with segments that fit the scratchpads."""


def run_of_blocks(program: str, machine: Machine) -> WindowRun:
    """A timed run of a block program, without events."""
    table = load_table(TABLE)
    return run_of_image(link([assemble(program, table)], table), machine)


def run_of_image(image: Object, machine: Machine) -> WindowRun:
    """A timed run, without events; repeated loop iterations are skipped."""
    device = Device(image, machine)
    return device.launch(values=False, max_cycles=_MOST_CYCLES, keeps_events=False)


def run(lab: Lab) -> Findings:
    """Cycles of each layer on the paper's machine."""
    machine, table = load_machine(PAPER_MACHINE), load_table(TABLE)
    runtime, rows = RUNTIMES.required(machine), list[Row]()
    for name in lab.some(list(LAYERS), _QUICK):
        image = link([assemble(LAYERS[name], table)], table)
        found = runtime.run(image, machine, {}, values=False).run
        share = 100 * found.unit_busy.get("MATRIX", 0) / found.cycles
        count = len(image.instructions)
        rows.append(
            compare(
                name, None, float(found.cycles), "simulated", unit="cycles",
                note=f"{count} instructions; the matrix unit works {share:.0f} % of the time",
            )
        )  # fmt: skip
    return Findings(
        rows=tuple(rows),
        notes=(
            "lstm is one step, of 22 blocks: the paper does not say how many it takes",
            "the paper compares with code of its own and a GPU, and prints no cycles",
        ),
    )
