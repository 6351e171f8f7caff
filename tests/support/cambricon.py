"""Programs of basic statements for Cambricon machines, run on the window executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.simulate.window.launch import simulate_window
from tilewright.simulate.window.memories import Range
from tilewright.simulate.window.run import WindowRun

TABLE = load_table("cambricon")


def run(
    text: str,
    machine: Machine,
    memories: Mapping[str, NDArray[Any]] | None = None,
    *,
    values: bool = True,
    read_only: tuple[Range, ...] = (),
) -> WindowRun:
    """Assemble, link and run statements."""
    image = link([assemble(text, TABLE)], TABLE)
    instructions = [placed.instruction for placed in image.instructions]
    return simulate_window(
        instructions, TABLE, machine, memories=memories, values=values, read_only=read_only
    )


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
