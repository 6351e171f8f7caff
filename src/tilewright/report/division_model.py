"""A divided network as an ONNX model whose metadata say how it is divided; viewers show them.

In: a `DividedNetwork` and its result. Out: the model's bytes. The model says machine, cores and, as
JSON, the whole plan (`plan`); the first node of each layer says how that layer is divided. Weights
without numbers are inputs.
"""

from __future__ import annotations

import msgspec

from tilewright.graph.frontends.onnx.export import Notes, export_onnx
from tilewright.partition.divided import DividedLayer, DividedNetwork, DividedResult

PREFIX = "tilewright."


def divided_model(divided: DividedNetwork, result: DividedResult) -> bytes:
    """The bytes of the model, which tells of the `result`, too. Raises GraphError for an operator
    that ONNX writes otherwise.
    """
    plan = msgspec.json.encode(divided.layer_plans()).decode()
    about = {
        "machine": result.machine,
        "cores": str(result.cores),
        "objective": result.objective,
        "moved_values": str(result.moved_values),
        "plan": plan,
    }
    nodes = {layer.name: _prefixed(_of_layer(layer)) for layer in result.layers}
    model = export_onnx(divided.network, {}, notes=Notes(_prefixed(about), nodes))
    content: bytes = model.SerializeToString()
    return content


def _of_layer(layer: DividedLayer) -> dict[str, str]:
    return {
        "strategy": layer.strategy,
        "grid": layer.grid,
        "tile": "x".join(map(str, layer.tile)),
        "busy_cores": str(layer.busy_cores),
        "moved_values": str(layer.activations + layer.inputs + layer.weights + layer.sums),
    }


def _prefixed(texts: dict[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{key}": text for key, text in texts.items()}
