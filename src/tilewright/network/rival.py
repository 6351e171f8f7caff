"""Networks in onnxruntime, for comparison: the user's own file, or the same graph and numbers.

The only module that imports onnxruntime, which nothing else needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.deferred import Deferred
from tilewright.common.errors import ToolError
from tilewright.graph.graph import Network
from tilewright.network.plans import Other
from tilewright.network.results import Comparison, compared

if TYPE_CHECKING:
    from tilewright.graph.frontends.onnx import export
else:  # heavy: onnx
    export = Deferred("tilewright.graph.frontends.onnx.export")

_FLOATS: dict[str, np.dtype[Any]] = {
    "tensor(float16)": np.dtype(np.float16),
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
}
_LONGEST = 200
"""Most characters shown of another program's message."""


@dataclass(frozen=True)
class OnnxRuntime:
    """A session with inputs and results bound; `model` is its file, empty for our own network."""

    version: str
    model: str
    session: Any
    binding: Any
    names: tuple[str, ...]

    def repeat(self, calls: int) -> None:
        for _ in range(calls):
            self.session.run_with_iobinding(self.binding)

    def outputs(self) -> dict[str, Array]:
        return dict(zip(self.names, self.binding.copy_outputs_to_cpu(), strict=True))


def onnxruntime_session(
    network: Network, weights: Arrays, inputs: Arrays, threads: int = 1
) -> OnnxRuntime:
    """The network in onnxruntime on `threads` threads: the file it was read from, else the network
    itself.

    Raises ToolError where onnxruntime is missing or rejects the model.
    """
    try:
        import onnxruntime
    except ImportError:
        raise ToolError(
            "comparing with onnxruntime needs onnxruntime, which is not installed",
            fix="pip install onnxruntime",
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if network.source:
        model = export.original_model(network)
    else:
        model = export.export_onnx(network, weights).SerializeToString()
    try:
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        binding = _bound(session, inputs, network.outputs)
        session.run_with_iobinding(binding)
    except _refusals(onnxruntime) as error:
        reason = next(iter(str(error).splitlines()), "")[:_LONGEST]
        raise ToolError(
            f"onnxruntime {onnxruntime.__version__} does not run the model: {reason}",
            where=network.source,
            fix="compare with the reference",
        ) from None
    return OnnxRuntime(onnxruntime.__version__, network.source, session, binding, network.outputs)


def compare_with_onnxruntime(
    other: OnnxRuntime, outputs: Arrays, bound: float | None
) -> Comparison:
    """Our outputs compared with onnxruntime's; without times."""
    found = compared("onnxruntime", outputs, other.outputs(), bound)
    return structs.replace(found, version=other.version, model=other.model)


def compare_outputs(
    other: Other,
    network: Network,
    weights: Arrays,
    inputs: Arrays,
    outputs: Arrays,
    bound: float | None,
) -> Comparison:
    """Our outputs compared with those of another computation of the network; without times.

    Raises ToolError where onnxruntime is asked for and is missing or rejects the model.
    """
    if other == "reference":
        return compared(other, outputs, network.evaluate({**weights, **inputs}), bound)
    return compare_with_onnxruntime(onnxruntime_session(network, weights, inputs), outputs, bound)


def _bound(session: Any, inputs: Arrays, outputs: Sequence[str]) -> Any:
    """A binding of the inputs, converted to the model's floating type, and of the outputs."""
    binding = session.io_binding()
    types = {value.name: value.type for value in session.get_inputs()}
    for name, array in inputs.items():
        kind = _FLOATS.get(types.get(name, ""), array.dtype)
        binding.bind_cpu_input(name, np.ascontiguousarray(array, kind))
    for name in outputs:
        binding.bind_output(name)
    return binding


def _refusals(onnxruntime: Any) -> tuple[type[Exception], ...]:
    """Exception types that onnxruntime raises for models; they share no base class."""
    state = onnxruntime.capi.onnxruntime_pybind11_state
    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile",
             "NotImplemented", "RuntimeException")  # fmt: skip
    return tuple(getattr(state, name) for name in names)
