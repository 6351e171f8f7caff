"""Networks for this computer under the sanitizers: inputs in, results out.

Every value has forbidden memory around it: constants and arena are poisoned between what lies in
them, arguments are at the edge of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from support.networks import quickly_loaded
from support.sanitized import INPUT_AND_OUTPUT, MAIN, run_sanitized
from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.network.planning.arena import ALIGNMENT_BYTES, Life
from tilewright.targets.host.network import places
from tilewright.targets.host.network.run import NetworkCode
from tilewright.targets.host.vectors.instruction_sets import instruction_set

Region = tuple[int, int]
"""First byte and number of bytes."""

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


def apart(replace: Callable[[Any, str, Any], None]) -> list[Region]:
    """Regions of the arena of the latest network, from now on: a place of its own for each value,
    none beside another. `replace` is `setattr`, for good or for a test.
    """
    arena: list[Region] = []

    def spaced(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
        arena.clear()
        offsets, at = {}, ALIGNMENT_BYTES
        for value, life in lives.items():
            offsets[value] = at
            arena.append((at, life.size_bytes))
            at += (life.size_bytes // ALIGNMENT_BYTES + 2) * ALIGNMENT_BYTES
        return offsets, at

    for placed in ("place", "place_centred"):
        replace(places, placed, spaced)
    return arena


def sanitized_network(
    code: NetworkCode,
    arena: Sequence[Region],
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    flags: Sequence[str] = (),
) -> list[dict[str, Array]]:
    """The outputs with arguments at the end of a page, and at its beginning."""
    sources = {n: t for n, t in code.files.items() if n.endswith((".c", ".h"))}
    sources["main.c"] = caller(code, arena)
    given = [*parts_of(code, weights), *(inputs[name] for name, _ in code.inputs)]
    outputs = [(shape, code.types[name]) for name, shape in code.outputs]
    every = (*instruction_set(code.instruction_set).compiler_flags, *flags)
    found = run_sanitized(sources, every, given, outputs * 2)
    names, count = [name for name, _ in code.outputs], len(outputs)
    return [dict(zip(names, part, strict=True)) for part in (found[:count], found[count:])]


def parts_of(code: NetworkCode, weights: Mapping[str, Array]) -> list[Array]:
    """The constants, one by one."""
    made = quickly_loaded(code).constants(weights)
    parts = made.view(np.uint8)
    return [parts[c.at :][: c.elements * dtype(c.dtype).size_bytes] for c in code.constants]


def caller(code: NetworkCode, arena: Sequence[Region]) -> str:
    """A C program that runs the network on what it reads."""
    constants = [(c.at, c.elements * dtype(c.dtype).size_bytes) for c in code.constants]
    inputs, outputs = (
        [(f"{letter}{i}", prod(shape) * dtype(code.types[name]).size_bytes)
         for i, (name, shape) in enumerate(tensors)]
        for letter, tensors in (("x", code.inputs), ("y", code.outputs))
    )  # fmt: skip
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
