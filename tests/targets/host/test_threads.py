"""Kernels and networks for several threads compute the same on any number of them, and no two
threads touch an element without a barrier in between.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOST_ALGORITHMS, Case, cases
from support.examples import examples, one_in
from support.native import (
    THREADED_HOSTS,
    assert_exact,
    emitted,
    flags_for,
    native_results,
)
from tilewright.codegen.artifact import Artifact
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ToolError
from tilewright.compiler.checking import random_operands
from tilewright.ir.nodes import Barrier, For, If, Stmt, Transfer, Wait
from tilewright.ir.printer import print_head
from tilewright.ir.threads import parts_of
from tilewright.targets.host.emit.header import stored_elements
from tilewright.targets.host.emit.threads import OPENMP_FLAG

pytestmark = one_in(3)


BATCH = 5
RACES = ("-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-pthread")
TEAM = """\
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_barrier_t barrier;
void meet(void) { pthread_barrier_wait(&barrier); }
"""


@pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)
def test_threads_compute_what_one_computes(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, THREADED_HOSTS), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert_exact(c, o, y)

    check()


def undivided(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements that all threads run."""
    for stmt in body:
        match stmt:
            case For(_, _, inner, 1):
                yield from undivided(inner)
            case If(_, then, orelse):
                yield from undivided((*then, *orelse))
            case For():
                pass
            case _:
                yield stmt


@pytest.mark.parametrize("algorithm", ["direct", "gemm", "explicit", "winograd4"])
def test_what_all_threads_run_only_fetches(algorithm: str) -> None:
    @examples(4)
    @given(cases(algorithm, THREADED_HOSTS))
    def check(case: Case) -> None:
        for stmt in undivided(case.candidate.program(case.machine).body):
            gets = isinstance(stmt, Transfer) and stmt.direction == "get"
            assert gets or isinstance(stmt, Wait | Barrier), print_head(stmt)

    check()


def caller(artifact: Artifact, threads: int) -> str:
    """C of a function that each thread calls once with its number, on arguments that all share."""
    lines, arguments = [f'#include "{artifact.name}.h"'], []
    lines.append(f"void call_{artifact.name}(long thread)\n{{")
    public = [t for t in artifact.tensors if t.kind != "scratch"]
    sizes = [stored_elements(t) * dtype(t.dtype).size_bytes for t in public] + [
        artifact.scratchpad_bytes
    ]
    for number, count in enumerate(sizes):
        lines.append(f"    static void *p{number};\n    if (thread == 0)")
        lines.append(f"        p{number} = calloc({max(1, count)}, 1);")
        arguments.append(f"p{number}")
    given = ", ".join([*arguments, "thread", str(threads)])
    return "\n".join([*lines, f"    meet();\n    {artifact.name}_thread({given});\n}}"])


def team_main(names: list[str], threads: int) -> str:
    """C that runs each kernel on a team of its own, whose barriers the sanitizer understands."""
    parts = [
        f"void *team_{n}(void *t)\n{{\n    call_{n}((long)t);\n    return 0;\n}}" for n in names
    ]
    parts.append(f"int main(void)\n{{\n    pthread_t team[{threads}];")
    parts.append(f"    pthread_barrier_init(&barrier, 0, {threads});")
    for name in names:
        parts.append(f"    for (long t = 0; t < {threads}; t++)")
        parts.append(f"        pthread_create(team + t, 0, team_{name}, (void *)t);")
        parts.append(f"    for (long t = 0; t < {threads}; t++)")
        parts.append("        pthread_join(team[t], 0);")
    return "\n".join([*parts, "    return 0;\n}\n"])


@pytest.mark.parametrize("algorithm", ["gemm", "direct", "winograd2", "explicit"])
def test_no_two_threads_race(algorithm: str) -> None:
    try:
        empty = {"program.c": "int main(void) { return 0; }\n"}
        compiled_files("the tests", "races", empty, (*RACES, "-o", "program"))
    except ToolError:
        pytest.skip("the compiler has no thread sanitizer")
    threads = 3
    machines = type(THREADED_HOSTS)(m for m in THREADED_HOSTS if m.thread_count == threads)

    @examples(1)
    @given(st.lists(cases(algorithm, machines), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        code = [artifact for _, artifact in emitted(batch)]
        sources = {n: t for a in code for n, t in a.files.items() if n.endswith((".c", ".h"))}
        calls = [caller(a, threads) for a in code]
        sources["main.c"] = "\n".join([TEAM, *calls, team_main([a.name for a in code], threads)])
        flags = [f for f in flags_for([c.machine for c in batch]) if f != OPENMP_FLAG]
        meeting = ("-DTW_MEET=meet();", "-include", "team.h")
        sources["team.h"] = "void meet(void);\n"
        command = (*RACES, *flags, *meeting, "-o", "program")
        (path,) = compiled_files("the tests", "races", sources, command)
        done = subprocess.run([path], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{done.stderr[:3000]}\n{batch!r}"

    check()


counts = st.lists(st.integers(1, 70), min_size=1, max_size=5)


@given(counts, st.data(), st.integers(0, 2), st.sampled_from([1, 2, 3, 8, 64]))
def test_the_rule_of_one_candidate_is_that_of_many(
    found: list[int], data: st.DataObject, together: int, threads: int
) -> None:
    able = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    alone = [int(p) for p in parts_of(found, able, together, threads)]
    many = parts_of([np.array([n, 1, 64]) for n in found], able, together, threads)
    assert alone == [int(np.broadcast_to(p, 3)[0]) for p in many]
    assert np.prod(alone) <= threads
    assert all(p == 1 or a for p, a in zip(alone, able, strict=True))
