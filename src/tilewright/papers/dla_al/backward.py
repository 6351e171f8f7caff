"""The paper's fifteen layers backward: their blocks, and the networks that the planner schedules.

In: rows of `published/layers.csv`. Out: programs of training blocks, and networks that compute the
gradients of a layer's operands from those of its results.
"""

from __future__ import annotations

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import for_fixed_point
from tilewright.papers.dla_al.benchmarks import LayerRow, layer_in_reals
from tilewright.papers.dla_al.layers import neurons, program_of, synapses

FORWARD = "forward_of_"
"""Prefix of nodes that compute forward results needed by a layer's gradient."""


def gradient_network(layer: LayerRow, elements: str) -> Network:
    """A layer's gradients with respect to images, weights and biases, in fixed point. Nodes named
    `FORWARD` compute the layer's results, which blocks receive; a pooling's result is also an
    output.
    """
    own = layer_in_reals(layer)
    net = NetworkBuilder(f"{own.name}_bp", "f64")
    for tensor in own.inputs:
        net.input(tensor.name, tensor.shape)
    given = {name: net.input(f"of_{name}", own.tensors[name].shape) for name in own.outputs}
    for tensor in own.weights:
        net.weight(tensor.name, tensor.shape)
    for node in own.nodes:
        net.apply(node.op, *node.inputs, name=f"{FORWARD}{node.name}", output=node.output)
    by = [tensor.name for tensor in (*own.inputs, *own.weights)]
    whole, gradients = with_gradients(net.build(own.outputs), given, by)
    found = NetworkBuilder(whole.name, "f64")
    for tensor in whole.inputs:
        found.input(tensor.name, tensor.shape)
    for tensor in whole.weights:
        found.weight(tensor.name, tensor.shape)
    for node in whole.nodes:
        found.apply(node.op, *node.inputs, name=node.name, output=node.output)
    kept = own.outputs if layer.kind == "pool" else ()
    made = found.build(tuple(dict.fromkeys((*gradients.values(), *kept))), whole.values)
    return FixedPoint(elements).apply(simplified(for_fixed_point(made)))


def _convolution(
    sides: tuple[int, int],
    channels: tuple[int, int],
    window: tuple[int, int, int],
    segments: tuple[int, int],
    images: int = 1,
) -> str:
    """Gradient of a convolution: `sides` are height and width, `window` is size, step and padding,
    `segments` are input and output channels. Whole images of a segment stay on chip.
    """
    (given, made), (depth, part), (size, step, padding) = channels, segments, window
    out = [(side + 2 * padding - size) // step + 1 for side in sides]
    shapes = dict.fromkeys(("x", "din"), (*sides, given, depth)) | {"dout": (*out, made, part)}
    data = [
        f"@neuron {n}, {images}, {h}, {w}, {c}, 1, {h}, {w}, {s}"
        for n, (h, w, c, s) in shapes.items()
    ]
    data += [f"@neuron db, 1, 1, 1, {made}, 1, 1, 1, {part}"]
    taps = f"{size}, {size}"
    data += [f"@synapse {n}, {made}, {taps}, {given}, {part}, {taps}, {depth}" for n in ("w", "dw")]
    call = f"@conv_bp din, dw, db, dout, x, w, #{step}, #{step}, #{padding}, #{padding}"
    return program_of([call], data)


def _fully_connected(inputs: int, outputs: int) -> str:
    part = 256
    sized = {"x": inputs, "din": inputs, "dout": outputs, "db": outputs}
    data = [neurons(n, size, part) for n, size in sized.items()]
    data += [synapses(n, outputs, inputs, part, part) for n in ("w", "dw")]
    return program_of(["@fc_bp din, dw, db, dout, x, w"], data)


def _pooling(side: int, channels: int, part: int) -> str:
    half = side // 2
    large = f"1, {side}, {side}, {channels}, 1, 2, {side}, {part}"
    small = f"1, {half}, {half}, {channels}, 1, 1, {half}, {part}"
    data = [f"@neuron {n}, {large}" for n in ("x", "din")]
    data += [f"@neuron {n}, {small}" for n in ("y", "dout")]
    return program_of(["@maxpool_bp din, dout, x, y, #2, #2, #2, #2"], data)


def _norm() -> str:
    """27 x 27 pixels as 81 rows of 9, eight rows at a time; sums run over channels."""
    data = [f"@neuron {n}, 1, 81, 9, 256, 1, 1, 9, 256" for n in ("din", "dout", "x", "y")]
    return program_of(["@lrn_bp din, dout, x, y, #5, #1, #192, #512"], data)


def lstm_gradient(inputs: int, hidden: int, outputs: int, part: int) -> str:
    """Gradients of `layers.lstm_step`, given its results and the gradients of its outputs."""
    calls = ["@fc_bp d_after, dv, dbv, dy, after, v"]
    units = ["after", "d_after", "squashed", "cell", "d_cell_next", "d_cell", "hidden", "d_hidden"]
    sizes = {"x": inputs, "dx": inputs, "dy": outputs, "dbv": outputs}
    matrices = {"v": (outputs, hidden), "dv": (outputs, hidden)}
    units += ["d_o", "d_squashed", "d_inner", "d_sum", "d_f", "d_i", "d_g", "i", "f", "o", "g"]
    calls += ["@vmul d_o, d_after, squashed", "@vmul d_squashed, d_after, o",
              "@tanh_bp d_inner, d_squashed, squashed", "@vadd d_sum, d_inner, d_cell_next",
              "@vmul d_f, d_sum, cell", "@vmul d_cell, d_sum, f",
              "@vmul d_i, d_sum, g", "@vmul d_g, d_sum, i"]  # fmt: skip
    for gate, function in (("i", "sigmoid"), ("f", "sigmoid"), ("o", "sigmoid"), ("g", "tanh")):
        calls += [
            f"@{function}_bp s_{gate}, d_{gate}, {gate}",
            f"@fc_bp dx_{gate}, dw_{gate}, db_{gate}, s_{gate}, x, w_{gate}",
            f"@fc_bp dh_{gate}, du_{gate}, dc_{gate}, s_{gate}, hidden, u_{gate}",
        ]
        units += [f"{kind}_{gate}" for kind in ("s", "db", "dc", "dh")]
        sizes[f"dx_{gate}"] = inputs
        for kind, columns in (("w", inputs), ("u", hidden)):
            matrices |= {f"{way}{kind}_{gate}": (hidden, columns) for way in ("", "d")}
    for total, each in (("dx", "dx"), ("d_hidden", "dh")):
        calls += [f"@vadd {total}, {each}_i, {each}_f", f"@vadd {total}, {total}, {each}_o",
                  f"@vadd {total}, {total}, {each}_g"]  # fmt: skip
    sizes |= dict.fromkeys(units, hidden)
    data = [neurons(name, size, part) for name, size in sizes.items()]
    return program_of(calls, [*data, *(synapses(n, *s, part, part) for n, s in matrices.items())])


BACKWARD = {
    "conv1": _convolution((7, 7), (512, 2048), (1, 1, 0), (128, 128)),
    "conv2": _convolution((14, 14), (512, 512), (3, 1, 1), (32, 64)),
    "conv3": _convolution((13, 13), (256, 384), (3, 1, 1), (32, 64)),
    "pool1": _pooling(28, 512, 64),
    "pool2": _pooling(56, 256, 32),
    "fc1": _fully_connected(9216, 4096),
    "fc2": _fully_connected(4096, 4096),
    "fc3": _fully_connected(4096, 1024),
    "lrn": _norm(),
    "lstm": lstm_gradient(3, 400, 121, 200),
    "Table 3 Conv1": _convolution((11, 227), (3, 96), (11, 4, 0), (3, 96), images=55),
    "Table 3 Conv2": _convolution((27, 27), (96, 256), (5, 1, 1), (12, 16)),
    "Table 3 Conv3": _convolution((56, 56), (128, 256), (3, 1, 1), (2, 4)),
    "Table 3 Conv4": _convolution((56, 56), (256, 256), (3, 1, 1), (2, 4)),
    "Table 3 Conv5": _convolution((28, 28), (512, 512), (3, 1, 1), (8, 16)),
}
"""Tables 2 and 3 backward. An image of Table 3's Conv1 does not fit, so its rows of windows are
separate images; the gradients they share are not summed.
"""
