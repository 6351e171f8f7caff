"""Compile a network to C, build it with make, and call it from C: network.c is the program."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import tilewright as tw


def made(path: Path) -> Path:
    """A convolution and a classifier on images of 8 x 8."""
    generator = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "w2": (4, 8)}
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
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "tiny", [image], [scores], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


compiled = tw.compile(made(Path("tiny.onnx")), machine="host_avx2")
folder = compiled.write("tiny")
shutil.copy(Path(__file__).with_name("network.c"), folder)
subprocess.run(["make", "-s", "-C", folder], check=True)
command = ["cc", "-o", "main", "network.c", "-L.", "-ltiny", "-Wl,-rpath,$ORIGIN"]
subprocess.run(command, cwd=folder, check=True)
by_c = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True).stdout

image = (np.arange(3 * 8 * 8) % 7 - 3).astype(np.float32).reshape(1, 3, 8, 8)
by_python = compiled.run(image)["scores"][0]
for there, here in zip(by_c.split(), by_python, strict=True):
    print(f"from C {there}, from Python {here:.4f}")
