"""Tables 2 and 3: the paper's layers, one block each and LSTM of blocks, in cycles on its machine.

The paper gives ratios of these layers to code of its own and no cycles; what is compared here is
the matrix unit's share of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
"""The gradients of Table 3's convolutions take billions."""
_GATES = {"i": "sigmoid", "f": "sigmoid", "o": "sigmoid", "g": "tanh"}


@dataclass(frozen=True)
class BlockLayer:
    """A layer: its blocks, its data, and the segments that fit the scratchpads."""

    name: str
    program: str


def _convolution(
    name: str,
    side: int,
    channels: tuple[int, int],
    window: tuple[int, int, int],
    segments: tuple[int, int, int],
) -> BlockLayer:
    """`channels`: in and out; `window`: size, step, padding; `segments`: input channels, output
    channels, output rows.
    """
    (given, made), (size, step, padding), (depth, part, rows) = channels, window, segments
    out = (side + 2 * padding - size) // step + 1
    call = f"@conv_fp y, x, w, #{step}, #{step}, #{padding}, #{padding}"
    return BlockLayer(
        name,
        f"""
.code
{call}
.static_rw
@neuron x, 1, {side}, {side}, {given}, 1, {side}, {side}, {depth}
@neuron y, 1, {out}, {out}, {made}, 1, {rows}, {out}, {part}
.static_ro
@synapse w, {made}, {size}, {size}, {given}, {part}, {size}, {size}, {depth}
""",
    )


def _fully_connected(name: str, inputs: int, outputs: int, segments: tuple[int, int]) -> BlockLayer:
    depth, part = segments
    return BlockLayer(
        name,
        f"""
.code
@fc_fp y, x, w
.static_rw
@neuron x, 1, 1, 1, {inputs}, 1, 1, 1, {depth}
@neuron y, 1, 1, 1, {outputs}, 1, 1, 1, {part}
.static_ro
@synapse w, {outputs}, 1, 1, {inputs}, {part}, 1, 1, {depth}
""",
    )


def _on_images(name: str, call: str, extents: Callable[[str], str]) -> BlockLayer:
    return BlockLayer(
        name, f".code\n@{call}\n.static_rw\n@neuron x, {extents('x')}\n@neuron y, {extents('y')}\n"
    )


def _pooling(name: str, side: int, channels: int, part: int) -> BlockLayer:
    sizes = {"x": (side, 2), "y": (side // 2, 1)}

    def extents(data: str) -> str:
        width, rows = sizes[data]
        return f"1, {width}, {width}, {channels}, 1, {rows}, {width}, {part}"

    return _on_images(name, "maxpool_fp y, x, #2, #2, #2, #2", extents)


def lstm_step(inputs: int, hidden: int, outputs: int, part: int) -> str:
    """A step of LSTM and the layer on its result. Gates in the usual order: input, forget, output,
    candidate. `part` hidden units are a segment.
    """
    vectors = ["hidden", "cell", "kept", "taken", "cell_next", "squashed", "hidden_next"]
    calls, weights, biases = [], [], []
    for gate, activation in _GATES.items():
        vectors += [f"{gate}_x", f"{gate}_h", f"{gate}_sum", gate]
        biases.append(f"@neuron b_{gate}, 1, 1, 1, {hidden}, 1, 1, 1, {part}")
        weights += [
            f"@synapse w_{gate}, {hidden}, 1, 1, {inputs}, {part}, 1, 1, {inputs}",
            f"@synapse u_{gate}, {hidden}, 1, 1, {hidden}, {part}, 1, 1, {part}",
        ]
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
    data = [f"@neuron {name}, 1, 1, 1, {hidden}, 1, 1, 1, {part}" for name in vectors]
    data += [f"@neuron x, 1, 1, 1, {inputs}", f"@neuron y, 1, 1, 1, {outputs}"]
    weights.append(f"@synapse v, {outputs}, 1, 1, {hidden}, {outputs}, 1, 1, {part}")
    rows = [".code", *calls, ".static_rw", *data, ".static_ro", *weights, *biases]
    return "\n".join(rows) + "\n"


LAYERS = (
    _convolution("conv1", 7, (512, 2048), (1, 1, 0), (128, 64, 7)),
    _convolution("conv2", 14, (512, 512), (3, 1, 1), (64, 64, 2)),
    _convolution("conv3", 13, (256, 384), (3, 1, 1), (64, 128, 3)),
    _pooling("pool1", 28, 512, 128),
    _pooling("pool2", 56, 256, 64),
    _fully_connected("fc1", 9216, 4096, (384, 512)),
    _fully_connected("fc2", 4096, 4096, (256, 512)),
    _fully_connected("fc3", 4096, 1024, (256, 512)),
    _on_images(
        "lrn", "lrn_fp y, x, #5, #1, #192, #512", lambda data: "1, 27, 27, 256, 1, 1, 27, 256"
    ),
    BlockLayer("lstm", lstm_step(3, 400, 121, 200)),
    _convolution("Table 3 Conv1", 227, (3, 96), (11, 4, 0), (3, 24, 1)),
    _convolution("Table 3 Conv2", 27, (96, 256), (5, 1, 1), (24, 64, 1)),
    _convolution("Table 3 Conv3", 56, (128, 256), (3, 1, 1), (32, 64, 2)),
    _convolution("Table 3 Conv4", 56, (256, 256), (3, 1, 1), (32, 64, 2)),
    _convolution("Table 3 Conv5", 28, (512, 512), (3, 1, 1), (64, 64, 2)),
)


def run_of_blocks(program: str, machine: Machine) -> WindowRun:
    """A program of blocks, timed, without its events."""
    table = load_table(TABLE)
    return run_of_image(link([assemble(program, table)], table), machine)


def run_of_image(image: Object, machine: Machine) -> WindowRun:
    """A program, timed, without its events: turns of loops that repeat are skipped."""
    device = Device(image, machine)
    return device.launch(values=False, max_cycles=_MOST_CYCLES, keeps_events=False)


def run(lab: Lab) -> Findings:
    """Cycles of each layer on the paper's machine."""
    machine, table = load_machine(PAPER_MACHINE), load_table(TABLE)
    runtime, rows = RUNTIMES.required(machine), list[Row]()
    for layer in lab.some(list(LAYERS), _QUICK):
        image = link([assemble(layer.program, table)], table)
        found = runtime.run(image, machine, {}, values=False).run
        share = 100 * found.unit_busy.get("MATRIX", 0) / found.cycles
        count = len(image.instructions)
        rows.append(
            compare(
                layer.name, None, float(found.cycles), "simulated", unit="cycles",
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
