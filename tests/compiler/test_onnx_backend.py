"""The conformance models that come with the onnx package, with the outputs that stand beside them.

Those whose operators the front end reads, with a few of the many convolutions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from support.native import NATIVE_HOSTS
from support.networks import quickly_loaded
from tilewright.codegen.artifact import Array
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.network.plans import Search
from tilewright.targets.host.network.generate import generated

pytestmark = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = {
    "pytorch-converted": """
        AvgPool1d AvgPool1d_stride AvgPool2d AvgPool2d_stride BatchNorm1d_3d_input_eval
        BatchNorm2d_eval BatchNorm2d_momentum_eval BatchNorm3d_eval BatchNorm3d_momentum_eval
        Conv2d Conv2d_depthwise_with_multiplier Conv2d_dilated ELU LeakyReLU
        LeakyReLU_with_negval Linear
        Linear_no_bias MaxPool2d PoissonNLLLLoss_no_reduce ReLU Sigmoid Softmax Softmin Softplus
        Softsign Tanh softmax_functional_dim3 softmax_lastdim""",
    "pytorch-operator": """
        operator_add_broadcast operator_add_size1_broadcast operator_add_size1_right_broadcast
        operator_add_size1_singleton_broadcast operator_addconstant operator_addmm operator_basic
        operator_clip operator_concat2 operator_exp operator_flatten operator_max operator_min
        operator_params operator_sqrt operator_symbolic_override_nested operator_view""",
    "simple": "single_relu_model",
}
FOLDERS = [DATA / kind / f"test_{name}" for kind, names in MODELS.items() for name in names.split()]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_computes_what_stands_beside_the_model(folder: Path) -> None:
    if not folder.is_dir():
        pytest.skip("this version of onnx does not have it")
    network = load_onnx(folder / "model.onnx")
    loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], Search(keep=1)))
    names = [tensor.name for tensor in network.inputs]
    inputs = dict(zip(names, tensors(folder, "input"), strict=True))
    bound = loaded.bind(loaded.constants(network.values))
    bound.give(inputs)
    bound.repeat(1)
    for found, expected in zip(bound.outputs().values(), tensors(folder, "output"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def tensors(folder: Path, kind: str) -> list[Array]:
    """The inputs or outputs of the model's data set, in order."""
    files = sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"))
    found = [onnx.TensorProto.FromString(file.read_bytes()) for file in files]
    return [numpy_helper.to_array(tensor) for tensor in found]
