"""Cycles of recorded calls: the emitted assembly on the simulated cores, with the arguments given.

In: calls, and the files of their artifact. Out: cycles of each. A routine without register
communication runs on a core of its own, one with it on the whole mesh. Nothing that is computed
decides how long code takes, so memory holds zeros besides what the arguments list; an address
counts by its place in a vector.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from support.cross_check.layout import LIST, NUMBER, PLACE, WORDS
from support.cross_check.recording import Call
from tilewright.asm import assemble, link
from tilewright.isa import InstructionTable
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh, Value
from tilewright.simulate.program import AssembledProgram

_WORD_BYTES, _VECTOR_BYTES = 8, 32
_FIRST_ARGUMENT, _REGISTER_ARGUMENTS, _STACK = 16, 6, "$30"
_TOGETHER = re.compile(r"^ +(?:(?:get|put|syn|vld)[rc]|v?ldd(?:er|ec)) ", re.MULTILINE)
"""Instructions of cores that wait for each other."""


@dataclass(frozen=True)
class CallTime:
    """Cycles of a call whose code is in the instruction cache, and the cache lines that it
    executes, by their number in the program.
    """

    cycles: int
    lines: NDArray[np.int64]
    together: bool


@dataclass
class RoutineCycles:
    """The times of calls of one artifact's routines, each simulated once."""

    files: Mapping[str, str]
    table: InstructionTable
    mesh: tuple[int, int]
    known: dict[object, CallTime] = field(default_factory=dict)

    def time(self, call: Call) -> CallTime:
        """The call up to the return of the last core."""
        together = bool(_TOGETHER.search(self._texts[call.routine]))
        key = (call.routine, *(() if together else map(_kind, call.arguments)))
        if key not in self.known:
            self.known[key] = self._simulated(call, together)
        return self.known[key]

    @property
    def routines(self) -> Collection[str]:
        """The names of all routines."""
        return self._texts.keys()

    def first_line(self, routine: str) -> int:
        """The first line of the file of a routine, as files lie one behind the other."""
        return self._programs[self._texts[routine]][1]

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The file of each routine."""
        assembly = [text for name, text in self.files.items() if name.endswith(".S")]
        return {name: text for text in assembly for name in re.findall(r"\.globl (\w+)", text)}

    @cached_property
    def _programs(self) -> dict[str, tuple[AssembledProgram, int]]:
        """The program of each file, and the first line of its place behind the others."""
        warm, line, placed = structs.replace(self.table, instruction_cache=None), 0, {}
        for text in dict.fromkeys(self._texts.values()):
            image = link([assemble(text, self.table)], self.table)
            program = load_image(image, warm).program
            placed[text] = program, line
            line += -(-len(program.instructions) // self._instructions)
        return placed

    @property
    def _instructions(self) -> int:
        """Instructions of a line; of a core without a cache all are one line."""
        cache = self.table.instruction_cache
        return 1 << 30 if cache is None else cache.line_bytes * 8 // self.table.word_bits

    def _simulated(self, call: Call, together: bool) -> CallTime:
        registers, memory = _arguments(call, self.table.local_memory_bytes)
        program, first_line = self._programs[self._texts[call.routine]]
        mesh = SimulatedMesh(*self.mesh) if together else SimulatedMesh(1, 1)
        run = simulate_mesh(
            program,
            mesh,
            entries=call.routine,
            registers=registers,
            local_memory=[memory] * mesh.cores,
        )
        executed = np.flatnonzero(run.cores[0].executed)
        lines = first_line + np.unique(executed // self._instructions)
        return CallTime(run.cycles, lines, together)


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
