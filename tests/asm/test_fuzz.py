"""Damaged input: the assembler and the object reader succeed or raise AssemblyError, nothing else.

4,000 sources are made from the sample programs by deleting, doubling, swapping and replacing
characters, words and lines; object files are damaged byte by byte. The seeds are fixed, so that a
failure can be repeated. `make fuzz-files` does the same with other seeds for as long as one likes.
"""

from __future__ import annotations

import random
import re
import resource
from pathlib import Path

import pytest

from tilewright.asm import Limits, assemble, assemble_file, disassemble, elf_bytes, link, read_elf
from tilewright.common.errors import AssemblyError
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")
PROGRAMS = [path.read_bytes() for path in sorted((Path(__file__).parent / "programs").glob("*.s"))]
SOURCES = 4_000
WORDS = re.compile(rb"\s+|\w+|.", re.DOTALL)
LINES = re.compile(rb"[^\n]*\n|[^\n]+$")
CHARACTERS = re.compile(rb".", re.DOTALL)


def mutated(source: bytes, chance: random.Random) -> bytes:
    """One to four changes at the level of characters, words or lines."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        pieces = chance.choice((CHARACTERS, WORDS, WORDS, LINES)).findall(source)
        if not pieces:
            return source
        here, there = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        match chance.randrange(4):
            case 0:
                del pieces[here]
            case 1:
                pieces.insert(there, pieces[here])
            case 2:
                pieces[here], pieces[there] = pieces[there], pieces[here]
            case _:
                pieces[here] = chance.randbytes(chance.randrange(1, 4))
        source = b"".join(pieces)
    return source


def test_damaged_sources_are_assembled_or_refused() -> None:
    chance = random.Random(20_000)
    assembled = 0
    refusals: list[AssemblyError] = []
    for _ in range(SOURCES):
        source = mutated(chance.choice(PROGRAMS), chance)
        try:
            assemble(source, CPE)
            assembled += 1
        except AssemblyError as error:
            refusals.append(error)
    assert assembled > SOURCES // 20, "the mutations leave too little intact to test success"
    for error in refusals:
        assert str(error).startswith(
            f"{error.where}: error {error.diagnostics[0].error_code.number}: {error.message}\n"
        )
    messages = {re.sub(r"'.*?'|[0-9]+", "_", error.message) for error in refusals}
    assert len(messages) > 60, "the mutations reach too few of the checks"


def test_damaged_objects_are_read_or_refused() -> None:
    chance = random.Random(3)
    files = [elf_bytes(assemble(program, CPE)) for program in PROGRAMS]
    read = 0
    for _ in range(3000):
        data = bytearray(chance.choice(files))
        for _ in range(chance.choice((1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.1:
            del data[chance.randrange(len(data)) :]
        try:
            source = read_elf(bytes(data), CPE)
            read += 1
            disassemble(source, CPE)
            elf_bytes(source)
            link([source], CPE)
        except AssemblyError:
            continue
    assert read > 300


HOSTILE = {
    "repetitions": '.rept 65536\n.rept 65536\n.ascii "0123456789"\n.endr\n.endr',
    "recursion": ".macro twice x\n.if \\x\ntwice \\x-1\ntwice \\x-1\n.endif\n.endm\ntwice 60",
    "doubling": ".macro long x\nlong \\x\\x\n.endm\nlong 0123456789",
    "space": ".data\n.space 1 << 62",
    "values": "\n".join(f".set a{i}, a{i + 1}" for i in range(20_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_memory_stays_bounded(name: str) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(AssemblyError):
        assemble(HOSTILE[name], CPE, limits=Limits(expanded_lines=50_000))
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after_kib - before_kib < 256 << 10


def test_sample_programs_themselves_are_fine() -> None:
    for path in (Path(__file__).parent / "programs").glob("*.s"):
        assert assemble_file(path, CPE).section(".text").data
