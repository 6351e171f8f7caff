"""Programs of blocks beside the single layers: gradients, AlexNet of one tower, a fusion.

Segments are chosen so that all buffers fit the scratchpads. `prefetch` as 0 in any of them has
tiles loaded just before they are computed, the paper's Code #1, which stands for its hand-written
order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.papers.dla_al.layers import BlockLayer

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
