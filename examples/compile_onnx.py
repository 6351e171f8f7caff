"""Compile the layers of an ONNX file and write their code: `python compile_onnx.py [FILE.onnx]`.

Without a file a small network is made first. Every layer is chosen, generated and simulated, and
its code is run on the host and compared with the reference.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import tilewright as tw


def made(path: Path) -> Path:
    """A convolution and a classifier on images of 16 x 16."""
    generator = np.random.default_rng(0)
    shapes = {"w1": (32, 16, 3, 3), "w2": (10, 32)}
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["a"], "features", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "w2"], ["scores"], "classes", transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 16, 16, 16])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "small", [image], [scores], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


path = Path(sys.argv[1]) if len(sys.argv) > 1 else made(Path("small.onnx"))
network = tw.load(path, batch=32)
compiled = tw.compile(network, machine="sw26010", layers=True, check="each layer")
for name, kernel in compiled.plan.kernels.items():
    layer = kernel.result
    print(f"{name:8} {layer.algorithm:9} {layer.milliseconds:.3f} ms simulated, code {layer.check}")
print(f"written to {compiled.write('out')}")
