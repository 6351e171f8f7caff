"""A function of the table needs no other line: here `mish`, and one that the test enters by a line
of expression and one of translation.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from support.native import NATIVE_HOSTS
from support.plans import GROUP
from tilewright.codegen.c.compiler import compiled_files
from tilewright.compiler.explanation import stage_routines
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.operators import OPERATORS
from tilewright.graph.graph import Network
from tilewright.ir.scalar import FUNCTIONS, composite, derivative
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.plans import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Unary
from tilewright.targets.host.native import FLAGS
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.run import LoadedNetwork
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, emit_network

SHAPE = (3, 5, 32)
X = np.random.default_rng(11).normal(size=SHAPE) * 4
MEANT = X * np.tanh(np.log1p(np.exp(X)))


def read_from_onnx(folder: Path) -> Network:
    tensors = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, SHAPE) for n in ("x", "y")]
    nodes = [helper.make_node("Mish", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "mish", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = folder / "mish.onnx"
    onnx.save(model, path)
    return load_onnx(path)


@pytest.fixture(params=["mish", "own"])
def network(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Network:
    if request.param == "own":
        expression = composite("own", 1, "x0 * tanh(log1p(exp(x0)))")
        translation = Operator("Mish", lambda at: at.emit(Unary("own", SHAPE), at.operand(0)))
        monkeypatch.setitem(FUNCTIONS, "own", expression)
        monkeypatch.setitem(OPERATORS, "Mish", translation)
    return read_from_onnx(tmp_path)


def require_meant(found: dict[str, np.ndarray]) -> None:
    (array,) = found.values()
    np.testing.assert_allclose(array, MEANT, rtol=1e-13, atol=1e-15)


def test_it_runs_everywhere_and_is_priced(network: Network) -> None:
    require_meant(network.evaluate({"x": X}))
    plan = build_plan(network, GROUP, Search(keep=1))
    require_meant(interpret_plan(plan, {"x": X}, {}))
    artifact = emit_network(plan, GROUP)
    require_meant(run_emulated(artifact, {"x": X, artifact.block: constant_block(plan, {})}))
    ((routine, *_),) = stage_routines(plan)
    assert "compiled C" not in routine.call
    assert simulate_plan(plan).runs[0].cycles == pytest.approx(
        plan.stages[0].candidate.cycles, rel=0.1
    )
    assert routine.priced_cycles == routine.simulated_cycles > 0


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")
def test_it_runs_on_this_computer(network: Network) -> None:
    code = generated(network, NATIVE_HOSTS[0], Search(keep=1))
    sources = {n: t for n, t in code.files.items() if n.endswith((".c", ".h"))}
    (path,) = compiled_files("the tests", "host-tests", sources, (*FLAGS, *code.flags, "-lm"))
    loaded = LoadedNetwork(code, ctypes.CDLL(str(path)))
    bound = loaded.bind(loaded.constants({}))
    bound.give({"x": X})
    bound.repeat(1)
    require_meant(bound.outputs())


def test_it_has_a_derivative(network: Network) -> None:
    (node,) = network.nodes
    assert isinstance(node.op, Unary)
    step = 1e-5
    there, here = (network.evaluate({"x": X + s}) for s in (step, -step))
    (slope,) = ((there[name] - here[name]) / (2 * step) for name in there)
    found = derivative(node.op.scalar, 0).value([X])
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-8)
