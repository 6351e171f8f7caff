"""A network of torchvision or timm as an ONNX file, and as a torch module with the same weights.

    python -m host.torchvision_model FOLDER BATCH NAME...

Weights are drawn from a fixed seed, and statistics of normalisation are those of a few noise
images, so that activations neither grow nor vanish. The files are NAME.onnx and NAME.pt (weights).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torchvision

_SIZES = {"inception_v3": 299}
_SIZE = 224
_IMAGES = 2


def module(name: str) -> Any:
    """The model for inference, with weights drawn from the seed."""
    torch.manual_seed(0)
    if name not in torchvision.models.list_models():
        import timm  # optional: it has networks that torchvision has not

        return timm.create_model(name).eval()
    more = {"transform_input": False, "init_weights": True} if name == "inception_v3" else {}
    return torchvision.models.get_model(name, weights=None, **more).eval()


def loaded(name: str, folder: Path) -> Any:
    """The model with the weights of its file."""
    model = module(name)
    model.load_state_dict(torch.load(folder / f"{name}.pt"))
    return model


def export(name: str, folder: Path, batch: int) -> None:
    """Write the model as an ONNX file, and its weights."""
    model, size = module(name), _SIZES.get(name, _SIZE)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None
    with torch.no_grad():
        model.train()(torch.randn(_IMAGES, 3, size, size))
    model.eval()
    torch.save(model.state_dict(), folder / f"{name}.pt")
    images = (torch.randn(batch, 3, size, size),)
    names = {"input_names": ["x"], "output_names": ["y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # This exporter needs no further package.
        torch.onnx.export(model, images, str(folder / f"{name}.onnx"), dynamo=False, **names)


if __name__ == "__main__":
    for one in sys.argv[3:]:
        export(one, Path(sys.argv[1]), int(sys.argv[2]))
