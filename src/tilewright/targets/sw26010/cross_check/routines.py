"""Cycles of recorded calls: the emitted assembly on the simulated cores, with the arguments given.

In: calls, and the files of their artifact. Out: cycles of each. A routine without register
communication runs on a core of its own, one with it on the whole mesh. Nothing that is computed
decides how long code takes, so memory holds zeros besides what the arguments list; an address
counts by its place in a vector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.isa import InstructionTable
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import Mesh, Value
from tilewright.simulate.program import Program
from tilewright.targets.sw26010.cross_check.recording import (
    LIST,
    NUMBER,
    PLACE,
    WORDS,
    Call,
)

_WORD_BYTES, _VECTOR_BYTES = 8, 32
_FIRST_ARGUMENT, _REGISTER_ARGUMENTS, _STACK = 16, 6, "$30"
_TOGETHER = re.compile(r"^ +(?:(?:get|put|syn|vld)[rc]|v?ldd(?:er|ec)) ", re.MULTILINE)
"""Instructions of cores that wait for each other."""


@dataclass
class RoutineCycles:
    """The cycles of calls of one artifact's routines, each simulated once."""

    files: Mapping[str, str]
    table: InstructionTable
    mesh: tuple[int, int]
    known: dict[object, int] = field(default_factory=dict)

    def cycles(self, call: Call) -> int:
        """Cycles from the call to the return of the last core."""
        key = (
            call.routine if self.is_together(call) else (call.routine, *map(_kind, call.arguments))
        )
        if key not in self.known:
            self.known[key] = self._simulated(call)
        return self.known[key]

    def signed_cycles(self, call: Call) -> int:
        """The cycles of a call, negative where the cores do it together."""
        return -self.cycles(call) if self.is_together(call) else self.cycles(call)

    def is_together(self, call: Call) -> bool:
        """True if the cores do the call together."""
        return bool(_TOGETHER.search(self._texts[call.routine]))

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The file of each routine."""
        assembly = [text for name, text in self.files.items() if name.endswith(".S")]
        return {name: text for text in assembly for name in re.findall(r"\.globl (\w+)", text)}

    @cached_property
    def _programs(self) -> dict[str, Program]:
        return {}

    def _program(self, routine: str) -> Program:
        text = self._texts[routine]
        if text not in self._programs:
            image = link([assemble(text, self.table)], self.table)
            self._programs[text] = load_image(image, self.table).program
        return self._programs[text]

    def _simulated(self, call: Call) -> int:
        registers, memory = _arguments(call, self.table.local_memory_bytes)
        mesh = Mesh(*self.mesh) if self.is_together(call) else Mesh(1, 1)
        run = simulate_mesh(
            self._program(call.routine),
            mesh,
            entries=call.routine,
            registers=registers,
            local_memory=[memory] * mesh.cores,
        )
        return run.cycles


def _kind(argument: tuple[int, tuple[int, ...]]) -> object:
    """All of an argument that the time may depend on."""
    tag, words = argument
    if tag in (PLACE, LIST):
        return tag, *(place % _VECTOR_BYTES for place in words)
    return tag if tag == NUMBER else argument


def _arguments(call: Call, memory_bytes: int) -> tuple[dict[str, Value], NDArray[np.int64]]:
    """Registers and memory at the entry: arrays lie at the end of the memory, where the caller's
    stack is, arguments beyond the sixth on top of the stack.
    """
    memory = np.zeros(memory_bytes // _WORD_BYTES, np.int64)
    top, values = len(memory), list[tuple[int, int]]()
    for tag, words in call.arguments:
        if tag in (WORDS, LIST):
            top -= len(words)
            memory[top : top + len(words)] = words
            values.append((tag, top * _WORD_BYTES))
        else:
            values.append((tag, words[0]))
    beyond = values[_REGISTER_ARGUMENTS:]
    unit = _VECTOR_BYTES // _WORD_BYTES
    top = (top - len(beyond)) // unit * unit
    memory[top : top + len(beyond)] = [value for _, value in beyond]
    registers: dict[str, Value] = {_STACK: top * _WORD_BYTES}
    for place, (tag, value) in enumerate(values[:_REGISTER_ARGUMENTS]):
        given = float(np.int64(value).view(np.float64)) if tag == NUMBER else value
        registers[f"${_FIRST_ARGUMENT + place}"] = given
    return registers, memory
