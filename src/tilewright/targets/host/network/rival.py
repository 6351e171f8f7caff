"""Networks in onnxruntime, to compare with: the same graph and numbers, as many threads.

The only module that imports onnxruntime, which is not needed for anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.codegen.artifact import Array
from tilewright.common.errors import ToolError
from tilewright.graph.graph import Network


@dataclass(frozen=True)
class OnnxRuntime:
    """A session with its inputs and results bound beforehand."""

    version: str
    session: Any
    binding: Any
    names: tuple[str, ...]

    def repeat(self, calls: int) -> None:
        """Compute the outputs, again and again."""
        for _ in range(calls):
            self.session.run_with_iobinding(self.binding)

    def outputs(self) -> dict[str, Array]:
        """The outputs by name."""
        return dict(zip(self.names, self.binding.copy_outputs_to_cpu(), strict=True))


def onnxruntime_session(
    network: Network,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    threads: int = 1,
) -> OnnxRuntime:
    """The network in onnxruntime on so many threads; raises ToolError where it is missing."""
    try:
        import onnxruntime
    except ImportError:
        raise ToolError(
            "comparing with onnxruntime needs onnxruntime, which is not installed",
            fix="pip install onnxruntime",
        ) from None
    from tilewright.graph.frontends.onnx_export import export_onnx  # heavy: onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    model = export_onnx(network, weights).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name in network.outputs:
        binding.bind_output(name)
    return OnnxRuntime(onnxruntime.__version__, session, binding, network.outputs)
