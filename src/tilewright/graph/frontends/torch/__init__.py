"""Reading modules of torch: traced by torch.export, then a network by the ONNX front end.

In: a module and example inputs. Out: a network with the numbers of its parameters. No file is
written: what torch traced is translated operator by operator (`operators`), in terms of the
operators whose meaning the ONNX front end knows. The only package that imports torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import default_decompositions, export

from tilewright.common.errors import GraphError, InternalError
from tilewright.graph.frontends.onnx.check import checked
from tilewright.graph.frontends.onnx.declare import NEWEST_OPSET
from tilewright.graph.frontends.onnx.importing import import_model
from tilewright.graph.frontends.onnx.model import (
    InputDeclaration,
    OnnxModel,
    OnnxNode,
    OutputDeclaration,
)
from tilewright.graph.frontends.torch.operators import OPERATORS
from tilewright.graph.frontends.torch.reader import Reader, kind_of, packet, shape_of
from tilewright.graph.graph import Network
from tilewright.graph.names import safe_name

_LONGEST = 200
"""Characters of torch's own message that are shown."""


def load_module(module: Any, example: Any, dtype: str | None = None) -> Network:
    """The network that `module` computes for inputs of the shapes and types of `example`, one
    tensor or a tuple of tensors; `dtype` is the element type of all floats.

    Dropout and batch normalisation are those of inference. Raises GraphError for a module that
    torch.export does not trace, and for everything in it that is not supported, with its nodes.
    """
    given = example if isinstance(example, tuple | list) else (example,)
    if not isinstance(module, torch.nn.Module):
        raise GraphError(f"a module of torch is wanted, found {type(module).__name__}")
    if not given or not all(isinstance(item, torch.Tensor) for item in given):
        raise GraphError("the example of a module is a tensor, or a tuple of tensors")
    name = safe_name(type(module).__name__)
    try:
        model = _model(_program(module, tuple(given)))
        return import_model(model, name, None, dtype, {})
    except (GraphError, InternalError) as error:
        raise error.at(f"the module {name}") from error.__cause__


def _program(module: Any, given: tuple[Any, ...]) -> Any:
    """The program that torch traces, without changes in place; operators that are not read are
    taken apart where torch can.
    """
    training = {part for part in module.modules() if part.training}
    try:
        module.eval()
        with torch.no_grad():
            program = export(module, given)
            own = default_decompositions()
            for target in [target for target in own if packet(target) in OPERATORS]:
                del own[target]
            return program.run_decompositions(own)
    except Exception as error:
        shown = next(iter(str(error).splitlines()), type(error).__name__)[:_LONGEST]
        raise GraphError(f"torch.export does not trace it: {shown}") from None
    finally:
        for part in training:
            part.training = True


def _model(program: Any) -> OnnxModel:
    reader, inputs = Reader(OPERATORS), []
    signature, stored = program.graph_signature, {**program.constants, **program.state_dict}
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants}  # fmt: skip
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in held:
            reader.known[node] = stored[held[node.name]].detach()
        elif node.op == "placeholder":
            kind = kind_of(node.meta["val"], f"input {node.name}")
            inputs.append(InputDeclaration(node.name, shape_of(node), kind))
            reader.names[node] = node.name
        elif node.op == "call_function":
            reader.read(node)
    nodes = {node.name: node for node in program.graph.nodes}
    outputs = [_output(reader, name, nodes[name]) for name in signature.user_outputs]
    checking = checked(reader.nodes, NEWEST_OPSET, set(reader.constants), outputs)
    declared = [OutputDeclaration(name, None) for name in outputs]
    return OnnxModel(inputs, reader.constants, checking, declared)


def _output(reader: Reader, name: str, node: Any) -> str:
    """The name of a result; an input or a constant is copied."""
    found = reader.name(node)
    if any(found in made.outputs for made in reader.nodes):
        return found
    copy = f"{name}_copy"
    reader.nodes.append(OnnxNode("Identity", "", copy, (found,), (copy,), {}))
    return copy
