"""Run a compiled network in this process: code and weights in, outputs out.

Every file is compiled to an object of its own, kept under a digest of its contents, so that what
two networks or two versions of one share is compiled once. Constants are made when the network is
bound to weights, once.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from msgspec import Struct

from tilewright.codegen.artifact import Array
from tilewright.codegen.c.compiler import (
    compile_into,
    compile_key,
    compiled,
    loaded_library,
)
from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError, ShapeError, ToolError
from tilewright.common.progress import Progress, silent
from tilewright.graph.names import quoted
from tilewright.ops.op import Shape, show_shape
from tilewright.targets.host.instruction_sets import instruction_set
from tilewright.targets.host.memory import address, aligned
from tilewright.targets.host.native import COMPILE_FLAGS, KIND, USER, native_instruction_sets
from tilewright.targets.host.network.constants import Constant, made

Seconds = float


class StageInfo(Struct, frozen=True):
    """A stage as known before it runs: `causes` are the model's, in cycles, `moved_bytes` those of
    all that it reads and writes.
    """

    name: str
    label: str
    algorithm: str
    flops: int
    estimate_seconds: float | None
    work: str = ""
    causes: dict[str, int] = {}
    nodes: tuple[str, ...] = ()
    moved_bytes: int = 0


class NetworkCode(Struct, frozen=True):
    """A network as generated code: all that is needed to run it, given the weights. `flags` are the
    compiler's.

    `inputs`, `outputs` and `weights` are names with shapes, in order; `types` are their element
    types by name, `dtype` is that in which the memory of the network is counted.
    """

    name: str
    dtype: str
    instruction_set: str
    flags: tuple[str, ...]
    threads: int
    files: dict[str, str]
    inputs: tuple[tuple[str, Shape], ...]
    outputs: tuple[tuple[str, Shape], ...]
    weights: tuple[tuple[str, Shape], ...]
    constants: tuple[Constant, ...]
    constant_bytes: int
    arena_bytes: int
    types: dict[str, str]
    stages: tuple[StageInfo, ...]


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A compiled network in this process."""

    code: NetworkCode
    library: ctypes.CDLL

    def constants(self, weights: Mapping[str, Array]) -> Array:
        """The network's constants for these weights, as the function takes them.

        Raises GraphError for a missing weight, ShapeError for one of the wrong shape.
        """
        for name, _ in self.code.weights:
            _require_given("weight", name, weights)
        element = dtype(self.code.dtype)
        memory = aligned(-(-self.code.constant_bytes // element.size_bytes), element)
        for constant in self.code.constants:
            own = dtype(constant.dtype)
            place = memory.view(np.uint8)[constant.at :][: constant.elements * own.size_bytes]
            self._make(constant, weights, place.view(own.numpy))
        return memory

    def bind(self, constants: Array) -> BoundNetwork:
        """The network with memory of its own."""
        element = dtype(self.code.dtype)
        tensors = (*self.code.inputs, *self.code.outputs)
        arrays = [aligned(prod(shape), dtype(self.code.types[name])) for name, shape in tensors]
        arena = aligned(self.code.arena_bytes // element.size_bytes + 1, element)
        return BoundNetwork(self, (*arrays, constants, arena))

    def _make(self, constant: Constant, weights: Mapping[str, Array], place: Array) -> None:
        element, shapes = dtype(constant.dtype), dict(self.code.weights)
        own = {name: weights[name] for name in constant.weights}
        for name, array in own.items():
            _require_shape("weight", name, array, shapes[name])
        elements = made(constant, own, element)
        if not constant.pack:
            place[...] = elements
            return
        plain = aligned(constant.form.elements, element)
        plain[...] = elements
        self.library[constant.pack](address(plain), address(place))


@dataclass(frozen=True, eq=False)
class BoundNetwork:
    """A network with its arrays: inputs, outputs, constants, arena."""

    network: LoadedNetwork
    arrays: tuple[Array, ...]

    @property
    def constants(self) -> Array:
        """The network's constants."""
        return self.arrays[-2]

    def give(self, inputs: Mapping[str, Array]) -> None:
        """Copy inputs to where the network reads them; GraphError or ShapeError if they do not
        fit.
        """
        for name, shape in self.network.code.inputs:
            _require_given("input", name, inputs)
            _require_shape("input", name, inputs[name], shape)
        for (name, _), place in zip(self.network.code.inputs, self.arrays, strict=False):
            place[...] = np.asarray(inputs[name]).reshape(-1)

    def repeat(self, calls: int) -> None:
        """Compute the outputs, again and again."""
        function = self.network.library[f"{self.network.code.name}_run"]
        arguments = [address(array) for array in self.arrays]
        for _ in range(calls):
            function(*arguments)

    def profile(self) -> tuple[Seconds, ...]:
        """Compute the outputs once; the seconds of each stage."""
        code = self.network.code
        seconds = np.zeros(len(code.stages))
        function = self.network.library[f"{code.name}_profile"]
        function(*(address(array) for array in self.arrays), address(seconds))
        return tuple(seconds.tolist())

    def outputs(self) -> dict[str, Array]:
        """Copies of the outputs by name, shaped as declared."""
        code, first = self.network.code, len(self.network.code.inputs)
        return {
            name: self.arrays[first + i].reshape(shape).copy()
            for i, (name, shape) in enumerate(code.outputs)
        }


def load_network(code: NetworkCode, progress: Progress = silent) -> LoadedNetwork:
    """Compile what is not compiled yet, and load it.

    Raises ToolError where there is no compiler, or where this processor lacks the instructions.
    """
    isa = instruction_set(code.instruction_set)
    native = native_instruction_sets()
    if isa not in native:
        raise ToolError(
            f"the code of {code.name!r} needs {isa.name}, this processor has {native[0].name}",
            fix=f"a machine with core.vector_lanes = {native[0].vector_bytes // 8}",
        )
    flags = (*COMPILE_FLAGS, *code.flags)

    def make(folder: Path) -> None:
        objects = _objects(code.files, flags, progress)
        link = ("-shared", *code.flags, "-o", "library.so", *map(str, objects), "-lm")
        compile_into(folder, USER, {}, link)

    key = compile_key(USER, code.files, (*flags, "-shared", "-lm"))
    return LoadedNetwork(code, loaded_library(USER, KIND, key, make))


def _objects(files: Mapping[str, str], flags: Sequence[str], progress: Progress) -> list[Path]:
    """One object per C file, two at a time."""
    headers = {name: text for name, text in files.items() if name.endswith(".h")}
    units = sorted(name for name in files if name.endswith(".c"))

    def one(name: str) -> Path:
        text = files[name]
        used = {h: t for h, t in headers.items() if f'#include "{h}"' in text}
        (path,) = compiled(USER, "object", {name: text, **used}, (*flags, "-c", "-o", "unit.o"))
        return path

    found: list[Path] = []
    with ThreadPoolExecutor(2) as threads:
        for path in threads.map(one, units):
            found.append(path)
            progress("compile", len(found), len(units))
    return found


def give_back() -> None:
    """Return to the system what is gone: values of a search that refer to each other, and what
    arrays have left free, which glibc alone keeps.
    """
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _require_given(what: str, name: str, given: Mapping[str, Array]) -> None:
    if name not in given:
        raise GraphError(f"no numbers are given for the {what} {quoted(name)}")


def _require_shape(what: str, name: str, array: Array, shape: Shape) -> None:
    if array.shape != shape:
        raise ShapeError(
            f"{what} {quoted(name)} has shape {show_shape(array.shape)}, "
            f"expected {show_shape(shape)}"
        )
