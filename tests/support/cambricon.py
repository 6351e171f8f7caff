"""Programs of basic statements for Cambricon machines, run on the window executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.ops.gemm import gemm
from tilewright.simulate.window.launch import window_executor
from tilewright.simulate.window.memories import ElementRange
from tilewright.simulate.window.run import WindowRun
from tilewright.targets.cambricon.runtime import Device

TABLE = load_table("cambricon")
TYPES = "q8.8:q48.16:q8.8"
"""Elements, exact sums, and elements again."""


def run(
    text: str,
    machine: Machine,
    memories: Mapping[str, NDArray[Any]] | None = None,
    *,
    values: bool = True,
    read_only: tuple[ElementRange, ...] = (),
) -> WindowRun:
    """Assemble, link and run statements."""
    image = link([assemble(text, TABLE)], TABLE)
    instructions = [placed.instruction for placed in image.instructions]
    return window_executor(
        instructions, TABLE, machine, memories=memories, values=values, read_only=read_only
    ).run()


def names(text: str, run: WindowRun) -> list[str]:
    """The mnemonic of each long operation of a run, with its turn: `vmm0`, `vmm1`."""
    image = link([assemble(text, TABLE)], TABLE)
    seen: dict[str, int] = {}
    found = []
    for event in run.events:
        mnemonic = image.instructions[event.number].instruction.mnemonic.removesuffix("a")
        found.append(f"{mnemonic}{seen.get(mnemonic, 0)}")
        seen[mnemonic] = seen.get(mnemonic, 0) + 1
    return found


def device(source: str, machine: Machine) -> Device:
    """A machine with a program of the language."""
    return Device(link([assemble(source, TABLE)], TABLE), machine)


def launched(source: str, machine: Machine, **arrays: NDArray[Any]) -> Device:
    """The device after a run on the arrays."""
    found = device(source, machine)
    for name, array in arrays.items():
        found.upload(name, array)
    found.launch()
    return found


def saturated(values: NDArray[Any]) -> NDArray[Any]:
    """Values as 16-bit elements."""
    return np.clip(values, -(2**15), 2**15 - 1).astype(np.int16)


def layer(
    weight: NDArray[Any], inputs: NDArray[Any], bias: NDArray[Any] | None, segment: int
) -> NDArray[Any]:
    """A fully-connected layer by the operator's fixed-point reference: one product, rounded once,
    for each segment of inputs, added up with saturation. Vectors in, vector out.
    """
    total = np.zeros(len(weight), np.int64)
    for first in range(0, len(inputs), segment):
        part = np.ascontiguousarray(weight[:, first : first + segment])
        product = gemm(len(weight), 1, part.shape[1], dtype=TYPES)
        partial = product.reference(part, inputs[first : first + segment, None])[:, 0]
        total = saturated(total + partial.astype(np.int64)).astype(np.int64)
    return saturated(total if bias is None else total + bias)
