"""Networks under the sanitizers, every value with forbidden memory around it, results compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given

from support.examples import examples
from support.native import NATIVE_HOSTS
from support.networks import TOLERANCE, compiled_networks, numbers_for, quickly_loaded
from support.sanitized import INPUT_AND_OUTPUT, MAIN, have_sanitizers, run_sanitized
from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Network
from tilewright.network.planning.arena import ALIGNMENT_BYTES, Life
from tilewright.targets.host.network import places
from tilewright.targets.host.network.run import NetworkCode
from tilewright.targets.host.vectors.instruction_sets import instruction_set

Region = tuple[int, int]
"""First byte and number of bytes."""

pytestmark = [
    pytest.mark.hypothesis,
    pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known"),
    pytest.mark.skipif(not have_sanitizers(), reason="the compiler has no sanitizers"),
]

CALLER = """\
#include "NAME.h"
#include <sanitizer/asan_interface.h>

static char *poisoned(unsigned long bytes, long count, const long (*regions)[2])
{
    char *memory = aligned_alloc(64, bytes / 64 * 64 + 128);
    memset(memory, 0xff, bytes);
    __asan_poison_memory_region(memory, bytes / 64 * 64 + 128);
    for (long i = 0; i < count; i++)
        __asan_unpoison_memory_region(memory + regions[i][0], regions[i][1]);
    return memory;
}

static void call(void)
{
    static const long parts[][2] = {CONSTANTS{0, 1}};
    static const long values[][2] = {ARENA{0, 0}};
    char *constants = poisoned(UPPER_CONSTANT_BYTES, COUNT_CONSTANTS, parts);
    char *arena = poisoned(UPPER_ARENA_BYTES, COUNT_ARENA, values);
    for (long i = 0; i < COUNT_CONSTANTS; i++)
        if (fread(constants + parts[i][0], 1, parts[i][1], given) != (unsigned long)parts[i][1])
            exit(5);
ARGUMENTS
    NAME_run(NAMESconstants, arena);
RESULTS
    free(arena);
    free(constants);
}
"""


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

    monkeypatch.setattr(places, "place", spaced)

    @examples(2)
    @given(compiled_networks(NATIVE_HOSTS))
    def check(pair: tuple[Network, NetworkCode]) -> None:
        network, code = pair
        weights, inputs = numbers_for(network)
        expected = network.evaluate({**weights, **inputs})
        sources = {n: t for n, t in code.files.items() if n.endswith((".c", ".h"))}
        sources["main.c"] = caller(code, arena)
        given = [*parts_of(code, weights), *(inputs[name] for name, _ in code.inputs)]
        outputs = [(shape, code.dtype) for _, shape in code.outputs]
        flags = instruction_set(code.instruction_set).compiler_flags
        results = run_sanitized(sources, flags, given, outputs * 2)
        names = [name for name, _ in code.outputs] * 2
        for name, found in zip(names, results, strict=True):
            scale = max(1.0, float(np.abs(expected[name]).max()))
            error = float(np.abs(found - expected[name]).max())
            assert error <= TOLERANCE[code.dtype] * scale, (name, network)

    check()


def parts_of(code: NetworkCode, weights: Mapping[str, Array]) -> list[Array]:
    """The constants, one by one."""
    made = quickly_loaded(code).constants(weights)
    size = dtype(code.dtype).size_bytes
    return [made[c.at // size : c.at // size + c.elements] for c in code.constants]


def caller(code: NetworkCode, arena: Sequence[Region]) -> str:
    """A C program that runs the network on what it reads."""
    size = dtype(code.dtype).size_bytes
    constants = [(c.at, c.elements * size) for c in code.constants]
    inputs = [(f"x{i}", prod(shape) * size) for i, (_, shape) in enumerate(code.inputs)]
    outputs = [(f"y{i}", prod(shape) * size) for i, (_, shape) in enumerate(code.outputs)]
    arguments = [f"    void *{name} = taken({n});" for name, n in inputs]
    arguments += [f"    void *{name} = unknown({n});" for name, n in outputs]
    results = [f"    shown({name}, {n});" for name, n in outputs]
    results += [f"    release({name}, {n});" for name, n in (*inputs, *outputs)]
    words = {
        "CONSTANTS{": regions(constants) + "{",
        "ARENA{": regions(arena) + "{",
        "COUNT_CONSTANTS": str(len(constants)),
        "COUNT_ARENA": str(len(arena)),
        "ARGUMENTS": "\n".join(arguments),
        "RESULTS": "\n".join(results),
        "NAMES": "".join(f"{name}, " for name, _ in (*inputs, *outputs)),
        "NAME": code.name,
        "UPPER": code.name.upper(),
    }
    text = CALLER
    for word, value in words.items():
        text = text.replace(word, value)
    return "\n".join([INPUT_AND_OUTPUT, text, MAIN.replace("CALLS", "        call();")])


def regions(found: Sequence[Region]) -> str:
    return "".join(f"{{{first}, {count}}}, " for first, count in found)
