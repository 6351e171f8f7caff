"""Run a compiled network in this process: code and weights in, outputs out.

Every file is compiled to an object of its own, kept under a digest of its contents, so that what
two networks or two versions of one share is compiled once. Constants are made when the network is
bound to weights, once.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from msgspec import Struct

from tilewright.codegen.artifact import Array, Arrays
from tilewright.codegen.c.compiler import (
    compile_into,
    compile_key,
    compiled_files,
    is_gcc,
    loaded_library,
)
from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import GraphError, ShapeError, ToolError
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Case, State
from tilewright.graph.names import quoted
from tilewright.ir.scalar import parse_scalar
from tilewright.network.planning.form import Form
from tilewright.network.results import StageResult
from tilewright.ops.op import Shape, show_shape
from tilewright.targets.host.native import (
    COMPILE_FLAGS,
    GCC_STAGE_FLAGS,
    KIND,
    USER,
    address,
    native_instruction_sets,
    page_aligned,
)
from tilewright.targets.host.vectors.functions import SEPARATE, own_flags
from tilewright.targets.host.vectors.instruction_sets import instruction_set


class PlacedConstant(Struct, frozen=True):
    """A constant that starts at byte `at`, in a form: an expression over the elements of `weights`,
    or known `numbers`; `pack` names the C function that packs it, if any.
    """

    at: int
    elements: int
    form: Form
    made: str
    weights: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    pack: str = ""
    dtype: str = "f64"


def made(constant: PlacedConstant, weights: Arrays, kind: DType) -> Array:
    """The elements of a constant in the order of its form, computed in double precision."""
    if constant.made == "x0":
        found = np.asarray(weights[constant.weights[0]])
    elif constant.made:
        operands = [np.asarray(weights[name], np.float64) for name in constant.weights]
        with np.errstate(all="ignore"):  # infinities and what is no number are constants, too
            found = np.asarray(parse_scalar(constant.made).value(operands))
    else:
        found = np.array(constant.numbers)
    elements = np.asarray(found.reshape(constant.form.shape), kind.numpy)
    return constant.form.stored(elements)


Seconds = float


class NetworkCode(Struct, frozen=True):
    """A network as generated code: all that is needed to run it, given the weights. `flags` are the
    compiler's.

    `inputs`, `outputs` and `weights` are names with shapes, in order, those of all `cases` where
    there are some; `types` are their element types by name, `dtype` is that in which the memory of
    the network is counted; `states` are the names of inputs that the code keeps in the memory of
    outputs, with theirs. Where there are some, the other outputs are `complete` after so many of
    the `stages`, which are as known before they run, of so many `flops` each: their causes are the
    model's, in cycles.
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
    constants: tuple[PlacedConstant, ...]
    constant_bytes: int
    arena_bytes: int
    types: dict[str, str]
    stages: tuple[StageResult, ...]
    flops: tuple[int, ...]
    states: tuple[tuple[str, str], ...] = ()
    complete: dict[str, int] = {}
    cases: tuple[Case, ...] = ()
    live_bytes: int = 0

    @property
    def given(self) -> tuple[str, ...]:
        """Names of inputs as a caller knows them: those of one case where there are some."""
        return tuple(name for name, _ in (self.cases[0].inputs if self.cases else self.inputs))

    @property
    def state_bytes(self) -> int:
        """Bytes of the states that are written in place."""
        held = {name for name, _ in self.states}
        elements = sum(prod(shape) for name, shape in self.inputs if name in held)
        return elements * dtype(self.dtype).size_bytes

    @property
    def tensors(self) -> tuple[tuple[str, Shape], ...]:
        """Names and shapes of inputs and outputs that have memory of their own."""
        held = {name for name, _ in self.states}
        return (*((n, shape) for n, shape in self.inputs if n not in held), *self.outputs)


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A compiled network in this process."""

    code: NetworkCode
    library: ctypes.CDLL

    def constants(self, weights: Arrays) -> Array:
        """The network's constants for these weights, as the function takes them.

        Raises GraphError for a missing weight, ShapeError for one of the wrong shape.
        """
        for name, _ in self.code.weights:
            _require_given("weight", name, weights)
        element = dtype(self.code.dtype)
        memory = page_aligned(-(-self.code.constant_bytes // element.size_bytes), element)
        for constant in self.code.constants:
            own = dtype(constant.dtype)
            place = memory.view(np.uint8)[constant.at :][: constant.elements * own.size_bytes]
            self._make(constant, weights, place.view(own.numpy))
        return memory

    def bind(self, constants: Array) -> BoundNetwork:
        """The network with memory of its own."""
        element = dtype(self.code.dtype)
        tensors = self.code.tensors
        arrays = [
            page_aligned(prod(shape), dtype(self.code.types[name])) for name, shape in tensors
        ]
        arena = page_aligned(self.code.arena_bytes // element.size_bytes + 1, element)
        return BoundNetwork(self, (*arrays, constants, arena))

    def _make(self, constant: PlacedConstant, weights: Arrays, place: Array) -> None:
        element, shapes = dtype(constant.dtype), dict(self.code.weights)
        own = {name: weights[name] for name in constant.weights}
        for name, array in own.items():
            _require_shape("weight", name, array, shapes[name])
        elements = made(constant, own, element)
        if not constant.pack:
            place[...] = elements
            return
        plain = page_aligned(constant.form.elements, element)
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

    def give(self, inputs: Arrays) -> None:
        """Copy inputs to where the network reads them; GraphError or ShapeError for wrong ones."""
        self._require(inputs)
        for name, _ in self.network.code.inputs:
            self.memory(name)[...] = np.asarray(inputs[name]).reshape(-1)

    def computed(self, inputs: Arrays) -> dict[str, Array]:
        """Outputs of these inputs, which are read where they are if they lie as the network reads
        them, in new arrays; GraphError or ShapeError if inputs do not fit.
        """
        code = self.network.code
        if code.states:
            self.give(inputs)
            self.repeat(1)
            return self.outputs()
        self._require(inputs)
        given = [
            np.require(inputs[n], dtype(code.types[n]).numpy, ("C", "A")) for n, _ in code.inputs
        ]
        made = {
            name: np.empty(shape, dtype(code.types[name]).numpy) for name, shape in code.outputs
        }
        arrays = (*given, *made.values(), *self.arrays[-2:])
        self.network.library[f"{code.name}_run"](*map(address, arrays))
        return made

    def _require(self, inputs: Arrays) -> None:
        for name, shape in self.network.code.inputs:
            _require_given("input", name, inputs)
            _require_shape("input", name, inputs[name], shape)

    def memory(self, name: str) -> Array:
        """The elements of an input or output, where the code has them."""
        code = self.network.code
        name = dict(code.states).get(name, name)
        return self.arrays[[own for own, _ in code.tensors].index(name)]

    def until(self, output: str) -> None:
        """Run the stages up to an output, which is no state; all where there are no states."""
        code = self.network.code
        if output not in code.complete:
            self.repeat(1)
            return
        function = self.network.library[f"{code.name}_part"]
        function(*map(address, self.arrays), ctypes.c_long(code.complete[output]))

    def repeat(self, calls: int) -> None:
        """Compute the outputs, again and again."""
        function = self.network.library[f"{self.network.code.name}_run"]
        arguments = [address(array) for array in self.arrays]
        for _ in range(calls):
            function(*arguments)

    def for_shapes(self, inputs: Arrays) -> dict[str, Array]:
        """Outputs of the case for the shapes of these inputs; ShapeError where there is none."""
        code = self.network.code
        for number, case in enumerate(code.cases):
            shapes = {public: dict(code.inputs)[own] for public, own in case.inputs}
            if all(n in inputs and np.shape(inputs[n]) == s for n, s in shapes.items()):
                for public, own in case.inputs:
                    self.memory(own)[...] = np.asarray(inputs[public]).reshape(-1)
                names = [own for _, own in (*case.inputs, *case.outputs)]
                arrays = [*map(self.memory, names), *self.arrays[-2:]]
                self.network.library[f"{code.name}_case{number}"](*map(address, arrays))
                return {public: self._output(own) for public, own in case.outputs}
        shown = ", ".join(f"{quoted(n)} {show_shape(np.shape(a))}" for n, a in inputs.items())
        raise ShapeError(
            f"{code.name} has no code for {shown or 'no input'}",
            fix=f"it was compiled for {', '.join(case.name for case in code.cases)}",
        )

    def profile(self) -> tuple[Seconds, ...]:
        """Compute the outputs once; the seconds of each stage."""
        code = self.network.code
        seconds = np.zeros(len(code.stages))
        function = self.network.library[f"{code.name}_profile"]
        function(*(address(array) for array in self.arrays), address(seconds))
        return tuple(seconds.tolist())

    def outputs(self) -> dict[str, Array]:
        """Copies of the outputs by name, shaped as declared."""
        return {name: self._output(name) for name, _ in self.network.code.outputs}

    def _output(self, name: str) -> Array:
        return self.memory(name).reshape(dict(self.network.code.outputs)[name]).copy()


class HostSession:
    """A `Session` in the memory of a bound network."""

    def __init__(self, bound: BoundNetwork, states: Sequence[State], numbers: Arrays) -> None:
        code = bound.network.code
        self._bound, held = bound, {state.next for state in states}
        self._places = {
            name: bound.memory(name).reshape(shape) for name, shape in (*code.inputs, *code.outputs)
        }
        self._states = states
        self._results = [name for name, _ in code.outputs if name not in held]
        self.give(numbers)

    def step(self, inputs: Arrays) -> dict[str, Array]:
        """Run once: the outputs that are no states, in the network's memory."""
        self.give(inputs)
        self._bound.repeat(1)
        for state in self._states:
            if self._places[state.tensor].base is not self._places[state.next].base:
                self._places[state.tensor][...] = self._places[state.next]
        return {name: self._places[name] for name in self._results}

    def until(self, output: str, inputs: Arrays) -> Array:
        """An output, in the network's memory, by the stages up to it."""
        self.give(inputs)
        self._bound.until(output)
        return self._places[output]

    def states(self) -> dict[str, Array]:
        """Copies of the states as they are now."""
        return {state.tensor: self._places[state.tensor].copy() for state in self._states}

    def give(self, states: Arrays) -> None:
        """Replace states, or other inputs; GraphError and ShapeError for what does not fit."""
        for name, array in states.items():
            if name not in self._places:
                raise GraphError(f"{self._bound.network.code.name} has no input {quoted(name)}")
            _require_shape("input", name, array, self._places[name].shape)
            self._places[name][...] = array


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
        objects = _objects(code, flags, progress)
        link = ("-shared", *code.flags, "-o", "library.so", *map(str, objects), "-lm")
        compile_into(folder, USER, {}, link)

    key = compile_key(USER, code.files, (*flags, *_stage_flags(), "-shared", "-lm"))
    return LoadedNetwork(code, loaded_library(USER, KIND, key, make))


def _objects(code: NetworkCode, flags: Sequence[str], progress: Progress) -> list[Path]:
    """One object per C file, two at a time, the longest first: the last one ends alone."""
    files = code.files
    headers = {name: text for name, text in files.items() if name.endswith(".h")}
    units = sorted((-len(text), name) for name, text in files.items() if name.endswith(".c"))

    def one(name: str) -> Path:
        text = files[name]
        used = {h: t for h, t in headers.items() if f'#include "{h}"' in text}
        own = _stage_flags() if name == f"{code.name}.c" else own_flags(text)
        every = (*flags, *own, "-c", "-o", "unit.o")
        (path,) = compiled_files(USER, "object", {name: text, **used}, every)
        return path

    found: list[Path] = []
    with ThreadPoolExecutor(2) as threads:
        for path in threads.map(one, [name for _, name in units]):
            found.append(path)
            progress("compile", len(found), len(units))
    return found


def _stage_flags() -> tuple[str, ...]:
    """The compiler flags of the file of a network's loops and calls, beyond those of all files."""
    return (SEPARATE, *GCC_STAGE_FLAGS) if is_gcc(USER) else (SEPARATE,)


def give_back() -> None:
    """Return to the system what is gone: values of a search that refer to each other, and what
    arrays have left free, which glibc alone keeps.
    """
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _require_given(what: str, name: str, given: Arrays) -> None:
    if name not in given:
        raise GraphError(f"no numbers are given for the {what} {quoted(name)}")


def _require_shape(what: str, name: str, array: Array, shape: Shape) -> None:
    if array.shape != shape:
        raise ShapeError(
            f"{what} {quoted(name)} has shape {show_shape(array.shape)}, "
            f"expected {show_shape(shape)}"
        )
