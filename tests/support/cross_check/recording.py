"""Requests of emitted code: the transfers, waits and calls of every core, in order.

In: the files of an artifact. Out: a `Recording`. The code of the cores is compiled unchanged, with
the dispatch of its products, against a runtime that notes each request instead of computing.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.cross_check.layout import CALL, KIND, SUBJECT
from tilewright.codegen.artifact import Artifact
from tilewright.codegen.c.compiler import compiler, run_compiler
from tilewright.codegen.c.writer import CWriter
from tilewright.common.errors import SimulationError

MOST_EVENTS = 4_000_000
"""Statements of all cores together that are recorded: 256 MB."""

_USER = "the cross-check"
_FLAGS = ("-std=gnu11", "-O1", "-w", "-I.")
_EMULATED = ("tw_emulation.h", "slave.h", "dma.h")
_OWN = tuple(Path(__file__).parent / name for name in ("tw_recording.h", "tw_recording.c"))
_ROUTINE = re.compile(r"^ *\.globl (\w+)$", re.MULTILINE)
_PRODUCT = re.compile(r"^void (\w+_gemm_\w+)\(([^)]*)\);$", re.MULTILINE)
_LIST = "const void *const *"
_SECONDS = 120


@dataclass(frozen=True)
class Call:
    """A call of a routine with its arguments: (tag, words) of each, addresses from the start of the
    scratchpad.
    """

    routine: str
    arguments: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, eq=False)
class Recording:
    """Events of all cores, [event, word], core after core; the words of the calls; and the names of
    the routines.
    """

    events: NDArray[np.int64]
    words: NDArray[np.int64]
    routines: tuple[str, ...]

    @cached_property
    def calls(self) -> dict[int, Call]:
        """The distinct calls by number, which is the subject of their events."""
        numbers = np.unique(self.events[self.events[:, KIND] == CALL, SUBJECT])
        return {int(number): self._call(int(number)) for number in numbers}

    def _call(self, at: int) -> Call:
        end, routine = at + int(self.words[at]), int(self.words[at + 1])
        arguments, at = [], at + 2
        while at < end:
            tag, count = map(int, self.words[at : at + 2])
            arguments.append((tag, tuple(map(int, self.words[at + 2 : at + 2 + count]))))
            at += 2 + count
        return Call(self.routines[routine], tuple(arguments))


def record(artifact: Artifact, mesh: tuple[int, int], most_events: int = MOST_EVENTS) -> Recording:
    """Run the code of every core of the mesh without computing.

    Raises SimulationError for code with more than `most_events` statements, for code that touches
    its scratchpad itself, whose time nothing says, and for a product that the dispatch does not
    know; ToolError where it does not compile.
    """
    routines = tuple(_routines(artifact.files))
    sources = {**artifact.files, **_runtime(), "recorded.c": _unit(artifact, routines)}
    flags = (*_FLAGS, f"-DTW_ROWS={mesh[0]}", f"-DTW_COLUMNS={mesh[1]}")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        units = ("recorded.c", "tw_recording.c")
        run_compiler([*compiler(_USER), *flags, *units, "-lm", "-o", "recorded"], Path(folder))
        words = _run([str(Path(folder) / "recorded"), str(most_events)], artifact.name)
    events = int(words[0])
    return Recording(words[2 : 2 + events].reshape(-1, 8), words[2 + events :], routines)


def _run(command: list[str], name: str) -> NDArray[np.int64]:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SimulationError(f"{name}: no end of its statements in {_SECONDS} s") from None
    if done.returncode < 0:
        raise SimulationError(
            f"{name} computes on its scratchpad in C, whose time no instruction says",
            fix="check kernels whose calls are all routines in assembly",
        )
    if done.returncode:
        words = done.stderr.decode("ascii", "replace").strip()
        raise SimulationError(f"{name}: {words}", fix="check a smaller kernel")
    return np.frombuffer(done.stdout, np.int64)


def _routines(files: Mapping[str, str]) -> Iterator[str]:
    for name, text in files.items():
        if name.endswith(".S"):
            yield from _ROUTINE.findall(text)


def _runtime() -> dict[str, str]:
    emulation = Path(str(resources.files("tilewright.targets.sw26010"))) / "emulation"
    found = {path.name: path for path in (*_OWN, *(emulation / name for name in _EMULATED))}
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}


def _unit(artifact: Artifact, routines: tuple[str, ...]) -> str:
    """The cores' code between its headers and its kernel, calls of routines recorded."""
    writer, files, name = CWriter(), artifact.files, artifact.name
    headers = [n for n in files if n.endswith(".h")]
    for header in ("<stdio.h>", "<math.h>", "<slave.h>", '"dma.h"', *(f'"{h}"' for h in headers)):
        writer.line(f"#include {header}")
    writer.line('#include "tw_recording.h"')
    dispatch = files.get("spm_gemm.c", "")
    products = dict(_PRODUCT.findall(dispatch))
    for number, routine in enumerate(routines):
        if routine in products:
            _product(writer, number, routine, products[routine].split(", "))
        else:
            writer.line(f"#define {routine}(...) TW_RECORD({number}, __VA_ARGS__)")
    # The dispatch refuses by a message and an instruction that stops a core; here by a message.
    if dispatch:
        writer.line("int tw_refused(const char *format, ...);")
        writer.lines("#define printf tw_refused\n#define volatile\n#define __asm__ (void)")
        writer.lines('#include "spm_gemm.c"\n#undef printf\n#undef volatile\n#undef __asm__')
    writer.line(f'#include "{name}_slave.c"')
    size = f"sizeof(struct {name}_parameters) / sizeof(void *)" if artifact.tensors else "0"
    writer.line(f"const int tw_tensors = {size};")
    writer.line(f"void tw_kernel(void *parameters) {{ {name}_kernel(parameters); }}")
    return writer.text()


def _product(writer: CWriter, number: int, routine: str, types: Sequence[str]) -> None:
    """A stub with the routine's own name and arguments; the name of a chain tells its links."""
    arguments = [f"{kind} {'abcd'[i]}" for i, kind in enumerate(types)]
    with writer.block(f"void {routine}({', '.join(arguments)})"):
        writer.line(f"tw_call({number});")
        for name, kind in zip("abcd", types, strict=False):
            listed = f"2 * {routine.rpartition('_x')[2]} * sizeof *{name}"
            writer.line(f"tw_list({name}, {listed});" if kind == _LIST else f"tw_place({name}, 0);")
        writer.line("tw_called(0);")
