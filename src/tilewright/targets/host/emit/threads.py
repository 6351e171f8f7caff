"""Divide the code of a kernel among threads: C text, and the tensors that each thread owns.

A kernel for several threads is a function that each thread calls with its number. Thread t of n
computes the parts t, t + n, ... of a divided loop, so the code is right for any number of threads,
and without OpenMP. Nests are separated by a barrier, TW_MEET, unless one thread computes both: it
is OpenMP's unless the user of the code defines another.
"""

from __future__ import annotations

from tilewright.codegen.c.writer import CWriter
from tilewright.ir.nodes import Call, For, Program, Stmt, Tile, Transfer
from tilewright.ir.visit import walk

PART, THREAD, THREADS, OWN = "tw_part", "tw_thread", "tw_threads", "tw_own"
TEAM = "TW_TEAM"
"""C arguments of each thread in a team: its number and the number of threads."""
MEET = "TW_MEET"
OPENMP_FLAG = "-fopenmp"

_FIRST = """\
/* The first iteration of a part, of so many, of a loop. */
static inline long tw_first(long extent, long part, long parts)
{
    return extent * part / parts;
}

/* The first iteration of a loop, of `extent` of them, that writes behind the beginning of a part of
   an array; iteration i writes from start + i * step on. */
static inline long tw_own(long size, long part, long parts, long start, long step, long extent)
{
    const long first = (tw_first(size, part, parts) - start + step - 1) / step;
    return first < 0 ? 0 : first < extent ? first : extent;
}
"""
_INCLUDE = """\
#ifdef _OPENMP
#include <omp.h>
#define TW_TEAM omp_get_thread_num(), omp_get_num_threads()
#else
#define TW_TEAM 0, 1
#endif
#ifndef TW_MEET
#define TW_MEET _Pragma("omp barrier")
#endif
"""


def thread_functions() -> str:
    """C definitions that divided code needs."""
    return f"{_INCLUDE}\n{_FIRST}"


def emit_team(function: str, parameters: list[str], threads: int, writer: CWriter) -> None:
    """Write the function that starts the threads; `function` is its return type and name."""
    names = [p.split()[-1].lstrip("*") for p in parameters]
    writer.head(function, parameters)
    with writer.block():
        writer.line(f"#pragma omp parallel num_threads({threads})")
        writer.call(f"{function.split()[-1]}_thread", [*names, TEAM])


def parts_inside(body: tuple[Stmt, ...]) -> int:
    """Number of parts into which the loops inside a divided loop's `body` are divided."""
    inner = [s.threads * parts_inside(s.body) for s in body if isinstance(s, For)]
    return max(inner, default=1)


def run_of(extent: str, index: str, parts: int | str, inner: int = 1) -> tuple[str, str]:
    """(first, end), in C, of a divided loop's iterations; `index` numbers its parts times the
    `inner` parts of the loops inside.
    """
    own = f"{index} / {inner}" if inner > 1 else index
    return f"tw_first({extent}, {own}, {parts})", f"tw_first({extent}, {own} + 1, {parts})"


def own_run(size: int, start: int, step: int, extent: int) -> tuple[str, str]:
    """(first, end), in C, of a loop's iterations that write a thread's own part of an array of
    `size` elements; iteration i writes from start + i * step on.
    """
    place = f"{THREADS}, {start}, {step}, {extent}"
    return f"tw_own({size}, {THREAD}, {place})", f"tw_own({size}, {THREAD} + 1, {place})"


def loop_head(name: str, first: str, end: str) -> str:
    """The head of a C loop from `first` up to `end`."""
    return f"for (long {name} = {first}; {name} < {end}; {name}++)"


def shared_tensors(program: Program, threads: int) -> frozenset[str]:
    """Scratch tensors that `threads` share: all except those that a single divided loop uses, of
    which each thread needs its own.
    """
    if threads == 1:
        return frozenset()
    users: dict[str, set[int]] = {}
    for place, body in _shares(program.body):
        for stmt in walk(body):
            match stmt:
                case Call(_, operands):
                    names = [o.tensor for o in operands if isinstance(o, Tile)]
                case Transfer(_, tensor):
                    names = [tensor]
                case _:
                    names = []
            for name in names:
                users.setdefault(program.tensor(name).memory, set()).add(place)
    scratch = frozenset(t.name for t in program.tensors if t.kind == "scratch")
    return scratch - {name for name, places in users.items() if len(places) == 1}


def _shares(body: tuple[Stmt, ...]) -> list[tuple[int, tuple[Stmt, ...]]]:
    """The outermost divided loops and the statements outside them, numbered."""
    found: list[tuple[int, tuple[Stmt, ...]]] = []
    pending = list(body)
    while pending:
        stmt = pending.pop()
        if isinstance(stmt, For) and stmt.threads == 1:
            pending += stmt.body
        else:
            found.append((len(found), (stmt,)))
    return found
