"""Run a compiled network in this process: code and weights in, outputs out.

Every file is compiled to an object of its own, cached under a digest of its contents, so that files
that two networks or versions of one share are compiled once. Constants are made once, when the
network is bound to weights.
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
    """A constant at byte `at`, in a form: the expression `made` over the elements of `weights`, or
    known `numbers`; `pack` names the C function that packs it, if any.
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
        with np.errstate(all="ignore"):  # infinities and NaNs are constants, too
            found = np.asarray(parse_scalar(constant.made).value(operands))
    else:
        found = np.array(constant.numbers)
    elements = np.asarray(found.reshape(constant.form.shape), kind.numpy)
    return constant.form.stored(elements)


Seconds = float


class NetworkCode(Struct, frozen=True):
    """A network as generated code: everything needed to run it, given the weights and compiled with
    `flags`.

    `inputs`, `outputs` and `weights` are (name, shape) in order, over all `cases` if there are
    some; `types` has their element types by name, `dtype` is the type in which the network's memory
    is counted. `states` are (input, output) of states that the code updates in place; with states,
    `complete` says after how many stages each other output is complete. `stages` are results before
    any run, with causes in cycles of the model; `flops` are the operations of each stage.
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
        """Names of inputs as a caller knows them: if there are cases, those of one case."""
        return tuple(name for name, _ in (self.cases[0].inputs if self.cases else self.inputs))

    @property
    def state_bytes(self) -> int:
        """Bytes of the states that are updated in place."""
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
        """The network's constants for these weights, in the layout of the network's function.

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
        """The network bound to these constants, with memory of its own."""
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
        """Copy inputs into the network's memory. Raises GraphError or ShapeError for wrong ones."""
        self._require(inputs)
        for name, _ in self.network.code.inputs:
            self.memory(name)[...] = np.asarray(inputs[name]).reshape(-1)

    def computed(self, inputs: Arrays) -> dict[str, Array]:
        """Outputs for these inputs, in new arrays. Inputs of the network's type and layout are read
        in place. Raises GraphError or ShapeError for inputs that do not fit.
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
        """The elements of an input or output, in the network's memory."""
        code = self.network.code
        name = dict(code.states).get(name, name)
        return self.arrays[[own for own, _ in code.tensors].index(name)]

    def until(self, output: str) -> None:
        """Run the stages up to an output that is no state; all stages if there are no states."""
        code = self.network.code
        if output not in code.complete:
            self.repeat(1)
            return
        function = self.network.library[f"{code.name}_part"]
        function(*map(address, self.arrays), ctypes.c_long(code.complete[output]))

    def repeat(self, calls: int) -> None:
        """Compute the outputs `calls` times."""
        function = self.network.library[f"{self.network.code.name}_run"]
        arguments = [address(array) for array in self.arrays]
        for _ in range(calls):
            function(*arguments)

    def for_shapes(self, inputs: Arrays) -> dict[str, Array]:
        """Outputs of the case for the inputs' shapes. Raises ShapeError if there is none."""
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
        """Compute the outputs once; returns the seconds of each stage."""
        code = self.network.code
        seconds = np.zeros(len(code.stages))
        function = self.network.library[f"{code.name}_profile"]
        function(*(address(array) for array in self.arrays), address(seconds))
        return tuple(seconds.tolist())

    def outputs(self) -> dict[str, Array]:
        """Copies of the outputs by name, in their declared shapes."""
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
        """Run once; returns the outputs that are no states, in the network's memory."""
        self.give(inputs)
        self._bound.repeat(1)
        for state in self._states:
            # equal bases: the code has updated the state in place
            if self._places[state.tensor].base is not self._places[state.next].base:
                self._places[state.tensor][...] = self._places[state.next]
        return {name: self._places[name] for name in self._results}

    def until(self, output: str, inputs: Arrays) -> Array:
        """Run only the stages up to an output; returns it, in the network's memory."""
        self.give(inputs)
        self._bound.until(output)
        return self._places[output]

    def states(self) -> dict[str, Array]:
        """Copies of the present states."""
        return {state.tensor: self._places[state.tensor].copy() for state in self._states}

    def give(self, states: Arrays) -> None:
        """Replace states or other inputs. Raises GraphError or ShapeError for wrong ones."""
        for name, array in states.items():
            if name not in self._places:
                raise GraphError(f"{self._bound.network.code.name} has no input {quoted(name)}")
            _require_shape("input", name, array, self._places[name].shape)
            self._places[name][...] = array


def load_network(code: NetworkCode, progress: Progress = silent) -> LoadedNetwork:
    """Compile the files that are not cached, and load the network.

    Raises ToolError if there is no compiler, or if this processor lacks the instructions.
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
    """One object per C file, compiled two at a time, the longest first to end at the same time."""
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
    """Compiler flags of the file with a network's loops and calls, besides those of all files."""
    return (SEPARATE, *GCC_STAGE_FLAGS) if is_gcc(USER) else (SEPARATE,)


def give_back() -> None:
    """Return free memory to the system: cyclic garbage of a search, and the memory of freed arrays,
    which glibc would keep.
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
