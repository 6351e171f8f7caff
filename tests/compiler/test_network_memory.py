"""Networks under the address sanitizer, every value with forbidden memory around it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from math import prod

import pytest
from hypothesis import given

from support.examples import examples
from support.native import NATIVE_HOSTS, SANITIZED
from support.networks import compiled_networks
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ToolError
from tilewright.compiler.network import memory
from tilewright.graph.graph import Network
from tilewright.targets.c_compiler import compiled
from tilewright.targets.host.instruction_sets import instruction_set
from tilewright.targets.host.network.arena import ALIGNMENT_BYTES, Life
from tilewright.targets.host.network.run import NetworkCode

Region = tuple[int, int]
"""First byte and number of bytes."""

MAIN = """\
#include "NAME.h"
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

static char *fenced(long bytes, long count, const long (*regions)[2])
{
    char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(memory, 0, (bytes + 127) / 64 * 64);
    __asan_poison_memory_region(memory, (bytes + 127) / 64 * 64);
    for (long i = 0; i < count; i++)
        __asan_unpoison_memory_region(memory + regions[i][0], regions[i][1]);
    return memory;
}

int main(void)
{
    static const long constants[][2] = {CONSTANTS{0, 1}};
    static const long arena[][2] = {ARENA{0, 0}};
    NAME_run(ARGUMENTSfenced(UPPER_CONSTANT_BYTES, COUNT_CONSTANTS, constants),
            fenced(UPPER_ARENA_BYTES, COUNT_ARENA, arena));
    return 0;
}
"""


@pytest.fixture(scope="module")
def sanitizers() -> None:
    try:
        compiled("the tests", "asan", {"main.c": "int main(void) { return 0; }\n"}, SANITIZED)
    except ToolError:
        pytest.skip("the compiler has no sanitizers")


@pytest.mark.usefixtures("sanitizers")
@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_no_stage_leaves_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    arena: list[Region] = []

    def spaced(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
        """A place of its own for each value, none beside another."""
        arena.clear()
        offsets, at = {}, ALIGNMENT_BYTES
        for value, life in lives.items():
            offsets[value] = at
            arena.append((at, life.size_bytes))
            at += (life.size_bytes // ALIGNMENT_BYTES + 2) * ALIGNMENT_BYTES
        return offsets, at

    monkeypatch.setattr(memory, "place", spaced)

    @examples(3)
    @given(compiled_networks(NATIVE_HOSTS))
    def check(pair: tuple[Network, NetworkCode]) -> None:
        _, code = pair
        sources = {n: t for n, t in code.files.items() if n.endswith((".c", ".h"))}
        sources["main.c"] = caller(code, arena)
        flags = (*SANITIZED, *instruction_set(code.instruction_set).compiler_flags)
        (program,) = compiled("the tests", "asan", sources, (*flags, "-o", "main", "-lm"))
        calm = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        run = subprocess.run([program], env=calm, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[:3000]

    check()


def caller(code: NetworkCode, arena: Sequence[Region]) -> str:
    """C that runs the network once."""
    size = dtype(code.dtype).size_bytes
    constants = [(c.at, c.elements * size) for c in code.constants]
    tensors = [prod(shape) * size for _, shape in (*code.inputs, *code.outputs)]
    words = {
        "CONSTANTS{": regions(constants) + "{",
        "ARENA{": regions(arena) + "{",
        "COUNT_CONSTANTS": str(len(constants)),
        "COUNT_ARENA": str(len(arena)),
        "ARGUMENTS": "".join(f"calloc(1, {n}), " for n in tensors),
        "NAME": code.name,
        "UPPER": code.name.upper(),
    }
    text = MAIN
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def regions(found: Sequence[Region]) -> str:
    return "".join(f"{{{first}, {count}}}, " for first, count in found)
