"""Reading modules of torch: traced and translated by torch's own exporter, then as an ONNX model.

In: a module and example inputs. Out: a network with the numbers of its parameters. No file is
written: the model stays in memory. Values that depend on known numbers alone, such as masks, index
tables and rearranged weights, become constants. This is the only module that imports torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.onnx

from tilewright.common.errors import GraphError, InternalError
from tilewright.graph.frontends.onnx import read_model
from tilewright.graph.graph import Network
from tilewright.graph.names import safe_name

_LONGEST = 200
"""Most characters of torch's own message that are shown."""


def load_module(module: Any, example: Any, dtype: str | None = None) -> Network:
    """The network that `module` computes for inputs with the shapes and types of `example`, one
    tensor or a tuple of tensors; `dtype` is the element type of all floats.

    Dropout and batch normalisation work as in inference. Raises GraphError for a module that torch
    cannot trace or export, and for everything unsupported in it, with the nodes.
    """
    given = example if isinstance(example, tuple | list) else (example,)
    if not isinstance(module, torch.nn.Module):
        raise GraphError(f"a module of torch is wanted, found {type(module).__name__}")
    if not given or not all(isinstance(item, torch.Tensor) for item in given):
        raise GraphError("the example of a module is a tensor, or a tuple of tensors")
    if any(item.is_complex() for item in given):
        raise GraphError("the example of a module holds complex numbers; a network has real ones")
    name = safe_name(type(module).__name__)
    try:
        return read_model(_exported(module, tuple(given)), Path(name), dtype=dtype)
    except (GraphError, InternalError) as error:
        raise error.at(f"the module {name}") from error.__cause__


def _exported(module: Any, given: tuple[Any, ...]) -> Any:
    """The module in ONNX's operators, in inference mode."""
    training, failed = {part for part in module.modules() if part.training}, "export does not trace"
    try:
        module.eval()
        with torch.no_grad():
            program = torch.export.export(module, given)
            failed = "onnx does not translate"
            return torch.onnx.export(program, dynamo=True, verbose=False).model_proto
    except ModuleNotFoundError:
        raise
    except Exception as error:  # of any exception, the innermost cause is reported
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        shown = next(iter(str(cause).splitlines()), type(cause).__name__)[:_LONGEST]
        raise GraphError(f"torch.{failed} it: {shown}") from None
    finally:
        for part in training:
            part.training = True
