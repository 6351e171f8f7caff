"""Load a linked image into the simulator: a program and the initial local memory.

In: an `Object` from the linker or an ELF file. Out: an `AssembledProgram` at the image's addresses,
and the bytes of local memory, with data sections at their addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.asm import Object, ObjectSection, decode
from tilewright.common.errors import AssemblyError, SimulationError
from tilewright.isa import Instruction, InstructionTable
from tilewright.isa.table import LocalMemory
from tilewright.simulate.launch import Registers, Value
from tilewright.simulate.program import AssembledProgram, encode_program


@dataclass(frozen=True, eq=False)
class LoadedImage:
    """A program, and the bytes of local memory and the registers with which every core starts;
    registers not named are zero.
    """

    program: AssembledProgram
    local_memory: NDArray[np.uint8]
    registers: Registers = field(default_factory=dict)


def load_image(image: Object, table: InstructionTable) -> LoadedImage:
    """The program and the local memory of an image. Errors: as in `instructions_of`."""
    instructions, start = instructions_of(image, table)
    program = encode_program(instructions, table, name=image.file_name, code_address=start)
    return LoadedImage(program, _local_memory(image, table))


def with_data(
    loaded: LoadedImage, image: Object, arrays: Mapping[str, NDArray[Any]]
) -> LoadedImage:
    """The loaded `image` with arrays placed by name: an integer or lanes in a register, bytes from
    the start of a memory or from a symbol's address.

    Errors: SimulationError for other names, and for arrays that do not fit.
    """
    table, memory = loaded.program.table, loaded.local_memory.copy()
    registers = {n: _lanes(n, a) for n, a in arrays.items() if n in table.register_numbers}
    for name, array in ((n, a) for n, a in arrays.items() if n not in registers):
        place, address = _data_place(image, table, name)
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        if address + len(data) > place.capacity_bytes:
            raise SimulationError(
                f"{len(data)} bytes for '{name}' at address {address} lie outside the "
                f"{place.capacity_bytes}-byte {table.memory_title(place)}"
            )
        start = table.memory_origins[place.name] + address
        memory[start : start + len(data)] = data
    return LoadedImage(loaded.program, memory, registers)


def _lanes(name: str, array: NDArray[Any]) -> Value:
    if array.dtype.kind != "f" and array.size != 1:
        raise SimulationError(f"register '{name}' takes one integer, or real numbers as its lanes")
    return array.ravel().tolist() if array.dtype.kind == "f" else int(array.item())


def _data_place(image: Object, table: InstructionTable, name: str) -> tuple[LocalMemory, int]:
    """The memory that `name` denotes or lies in, and the address there."""
    for memory in table.memories:
        if memory.name == name:
            return memory, 0
    code = {section.name for section in image.sections if section.is_code}
    sections = {s.name: s.section for s in image.symbols if s.section and s.section not in code}
    if name in sections:
        memory_name = table.dialect.section_style(sections[name]).memory
        return table.memory(memory_name), image.address_of(name)
    memories = ", ".join(memory.name for memory in table.memories)
    raise SimulationError(
        f"'{name}' is no register, memory or data of the program",
        fix=f"registers: {table.register_names[0]} to {table.register_names[-1]}; "
        f"memories: {memories}; data: {', '.join(sections) or 'none'}",
    )


def instructions_of(image: Object, table: InstructionTable) -> tuple[list[Instruction], int]:
    """The instructions of an image with their labels and source lines, and the first one's address.

    Errors: AssemblyError if it is not linked, has no code, or has words that encode no instruction.
    """
    if not image.is_linked:
        raise AssemblyError("it is not linked", where=image.file_name, fix="link it first")
    code = sorted((s for s in image.sections if s.is_code and s.data), key=lambda s: s.address)
    if not code:
        raise AssemblyError("it has no code", where=image.file_name)
    start = code[0].address
    instructions = [i for place in _filled(code, start) for i in _decoded(image, *place, table)]
    entries = _entries(image, code, start)
    return [replace(i, labels=entries.get(n, ())) for n, i in enumerate(instructions)], start


def _filled(code: list[ObjectSection], start: int) -> list[tuple[ObjectSection, int]]:
    """Each code section with the number of padding bytes before it."""
    places, end = [], start
    for section in code:
        places.append((section, section.address - end))
        end = section.address + len(section.data)
    return places


def _decoded(
    image: Object, section: ObjectSection, padding: int, table: InstructionTable
) -> list[Instruction]:
    """The instructions of one section and of the padding before it, with their source lines."""
    step = image.word_bytes
    lines = {
        line.offset + byte: line.number
        for line in image.lines
        if line.section == section.name
        for byte in range(0, line.size_bytes, step)
    }
    data = bytes(padding) + section.data
    found = []
    for offset in range(0, len(data), step):
        instruction = decode(data[offset : offset + step], table)
        if instruction is None:
            address = section.address - padding + offset
            raise AssemblyError(
                f"the word at address {address} is no instruction of {table.name}",
                where=image.file_name,
            )
        found.append(replace(instruction, line=lines.get(offset - padding, 0)))
    return found


def _entries(image: Object, code: list[ObjectSection], start: int) -> dict[int, tuple[str, ...]]:
    """The labels of each labelled instruction, by its number."""
    sections = {section.name for section in code}
    entries: dict[int, tuple[str, ...]] = {}
    for symbol in image.symbols:
        if symbol.section in sections:
            number = (image.address_of(symbol.name) - start) // image.word_bytes
            entries[number] = (*entries.get(number, ()), symbol.name)
    return entries


def _local_memory(image: Object, table: InstructionTable) -> NDArray[np.uint8]:
    memory = np.zeros(table.local_memory_bytes, np.uint8)
    for section in image.sections:
        if not section.is_code and "a" in section.flags and section.data:
            place = table.memory(table.dialect.section_style(section.name).memory)
            end = section.address + len(section.data)
            if end > place.capacity_bytes:
                raise AssemblyError(
                    f"section {section.name} ends at {end} bytes, the {table.memory_title(place)} "
                    f"has {place.capacity_bytes}",
                    where=image.file_name,
                )
            origin = table.memory_origins[place.name]
            memory[origin + section.address : origin + end] = np.frombuffer(section.data, np.uint8)
    return memory
