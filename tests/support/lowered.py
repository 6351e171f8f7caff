"""Running one nest alone, at the seed stage: by itself, with data for everything it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Call, Program, Tensor, Tile
from tilewright.ir.visit import instantiate, walk

Array: TypeAlias = npt.NDArray[Any]
Mesh = tuple[int, int]


def alone(program: Program, values: Mapping[str, int]) -> Program:
    """The program under values of its parameters, its tensors in no other one's memory; the result
    is what is written last.
    """
    written = [
        s.operands[0].tensor
        for s in walk(program.body)
        if isinstance(s, Call) and isinstance(s.operands[0], Tile)
    ]

    def own(t: Tensor) -> Tensor:
        if t.name in written[:-1] and t.name != written[-1]:
            return replace(t, kind="scratch", storage="")
        return replace(t, kind="output" if t.name == written[-1] else "input", storage="")

    tensors = tuple(own(t) for t in program.tensors)
    return instantiate(replace(program, tensors=tensors), values)


def logical(program: Program) -> dict[str, Array]:
    """Small integers for each input, with dimensions in the tensor's own order."""
    generator = np.random.default_rng(0)
    return {
        t.name: generator.integers(-3, 4, tuple(int(str(e)) for e in t.shape)).astype(np.float64)
        for t in program.tensors
        if t.is_given
    }


def run_alone(
    program: Program, inputs: Mapping[str, Array], dims: Mapping[str, tuple[str, ...]], mesh: Mesh
) -> Array:
    """The program's result; inputs and result have their dimensions in the order of `dims`."""
    stored = {}
    for t in program.tensors:
        if t.is_given:
            order = [dims[t.name].index(d) for d in t.dims]
            stored[t.name] = np.ascontiguousarray(inputs[t.name].transpose(order))
    ((name, result),) = interpret(program, stored, mesh).items()
    order = [program.tensor(name).dims.index(d) for d in dims[name]]
    return result.transpose(order)
