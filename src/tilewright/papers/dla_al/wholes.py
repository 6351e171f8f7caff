"""Block programs of several layers: single-tower AlexNet, VGG16, and a fusion of three layers.

Segments are chosen so that all buffers fit the scratchpads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.papers.dla_al.layers import program_of


def conv_relu_pool(*, fused: bool) -> str:
    """Table 2's conv2 (a convolution of VGG16), its activation, and the pooling after it."""
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
    """AlexNet's inference, with activations fused into their layers and both towers as one."""
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
    """VGG16's inference, with activations and poolings fused; its last layers as in AlexNet."""
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


WHOLES = {"AlexNet": alexnet, "VGG16": vgg16_blocks}
"""Programs of whole networks."""
_VGG = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels of VGG16's images of one side, and the number of layers that produce them."""
_VGG_PARTS = {224: 8, 112: 16, 56: 32, 28: 64, 14: 64, 7: 32}
"""Output channels per segment, by side of the image."""


def _with_last_layers(
    calls: Sequence[str],
    neurons: Sequence[str],
    weights: Sequence[str],
    first: int,
    held: str,
    segment: int,
) -> str:
    """The program with two layers after 4096 features, numbered from `first` on."""
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
