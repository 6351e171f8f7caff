"""Checkpoints: the states of a training step after an epoch, in one file written atomically.

In: states by name and the epochs so far. Out: an .npz file, from which both are read back, or an
error if it belongs to another network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from tilewright.codegen.arrays import read_arrays
from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.common.files import new_file
from tilewright.graph.graph import Network, Tensor
from tilewright.graph.names import quoted
from tilewright.ops.op import show_shape

_FORMAT = "tilewright checkpoint 1"
_HEADER = "header"


class Epoch(Struct, frozen=True):
    """One epoch, counted from 1: the mean loss of its batches, the accuracy in training and on the
    test examples, and its seconds.
    """

    number: int
    loss: float
    accuracy: float
    test_accuracy: float
    seconds: float


class _Header(Struct, frozen=True):
    format: str
    network: str
    states: tuple[str, ...]
    seed: int
    epochs: tuple[Epoch, ...]


def write_checkpoint(
    path: Path, step: Network, states: Arrays, seed: int, epochs: Sequence[Epoch]
) -> None:
    """Write the states after these epochs, atomically. Raises OSError."""
    names = tuple(state.tensor for state in step.states)
    header = _Header(_FORMAT, step.name, names, seed, tuple(epochs))
    arrays = {f"state{i}": states[name] for i, name in enumerate(names)}
    text = np.frombuffer(msgspec.json.encode(header), np.uint8)
    with new_file(path) as file:
        np.savez(file, allow_pickle=False, **{_HEADER: text}, **arrays)


def read_checkpoint(
    path: Path, step: Network, seed: int
) -> tuple[dict[str, Array], tuple[Epoch, ...]]:
    """(states by name, epochs that led to them).

    Raises GraphError for a file that is no checkpoint, has another network or seed, or holds
    non-finite numbers; ShapeError for a damaged file, OSError for one that cannot be read.
    """
    arrays = read_arrays(path)
    try:
        header = msgspec.json.decode(arrays.pop(_HEADER).tobytes(), type=_Header)
        found = {name: arrays[f"state{i}"] for i, name in enumerate(header.states)}
    except (KeyError, msgspec.MsgspecError):
        raise GraphError("is no checkpoint of tilewright", where=str(path)) from None
    if header.format != _FORMAT:
        raise GraphError(f"is a {header.format!r}, expected {_FORMAT!r}", where=str(path))
    _require_same(path, step, header, found)
    if header.seed != seed:
        raise GraphError(
            f"was trained with the seed {header.seed}, found {seed}",
            where=str(path),
            fix=f"--seed {header.seed}",
        )
    return found, header.epochs


def _require_same(path: Path, step: Network, header: _Header, found: Arrays) -> None:
    """Raise GraphError unless the states are the network's, and finite."""
    where, names = str(path), tuple(state.tensor for state in step.states)
    if header.network != step.name or header.states != names:
        other = sorted(set(header.states) ^ set(names))
        differ = f": only one of both has {quoted(other[0])}" if other else ""
        raise GraphError(
            f"is a checkpoint of {quoted(header.network)} with {len(header.states)} states, not of "
            f"{quoted(step.name)} with {len(names)}{differ}",
            where=where,
        )
    for name, array in found.items():
        require_state(step.tensors[name], array, where)


def require_state(tensor: Tensor, array: Array, where: str = "") -> None:
    """Raise GraphError unless a state's array has its shape and type and is finite."""
    kind = dtype(tensor.dtype).numpy
    if array.shape != tensor.shape or array.dtype != kind:
        raise GraphError(
            f"{quoted(tensor.name)} is {show_shape(array.shape)} {array.dtype}, the network has "
            f"{show_shape(tensor.shape)} {kind}",
            where=where,
        )
    if wrong := int(array.size - np.isfinite(array).sum()):
        raise GraphError(
            f"{quoted(tensor.name)} has {wrong} of {array.size} elements that are not finite",
            where=where,
        )
