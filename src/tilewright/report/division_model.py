"""A divided network as an ONNX model with the division as metadata, which viewers show.

In: a `DividedNetwork` and its result. Out: the model's bytes. The model's metadata name machine and
cores and hold the whole plan as JSON (`plan`); each layer's first node holds the layer's division.
Weights without numbers are inputs.
"""

from __future__ import annotations

import msgspec

from tilewright.graph.frontends.onnx.export import Notes, export_onnx
from tilewright.partition.divided import DividedLayer, DividedNetwork, DividedResult

PREFIX = "tilewright."


def divided_model(divided: DividedNetwork, result: DividedResult) -> bytes:
    """The bytes of the model, whose metadata include the `result`. Raises GraphError for an
    operator that ONNX expresses differently.
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
