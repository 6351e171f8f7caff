"""Time every candidate of a space on this computer: quickly, and the slow ones only roughly.

In: a machine and all candidates of one algorithm. Out: seconds of each. Some hundred candidates are
compiled at once; shared functions are compiled once, and equal code is timed once. Micro-kernels,
transforms and copies are optimised as usual, the loops that call them only lightly, which halves
the compiler's time and costs some cycles per call. Seconds are the least processor time of a call.
Candidates near the best are timed again in later passes, since other programs disturb a sample for
some milliseconds. The best ones must be timed once more, in one interleaved run.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path

from host.memory import Array, Memory, on_huge_pages
from tilewright.codegen.artifact import Artifact, TensorInfo
from tilewright.codegen.c.compiler import compiler, run_compiler
from tilewright.machine import Machine
from tilewright.targets.host.code import CODE
from tilewright.targets.host.emit.header import stored_elements
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.native import FLAGS
from tilewright.tune.candidate import Candidate

TOGETHER = 250
"""Most candidates in one call of the compiler."""
PASSES = (float("inf"), 2.0, 1.4, 1.2, 1.1)
"""Per pass over a batch: largest ratio to the best time so far at which candidates are timed."""
HOPELESS = 4.0
"""Ratio to the best time beyond which a candidate is not sampled again."""
SAMPLES, SAMPLE_SECONDS = 2, 3e-4
LOOPS = '#pragma GCC optimize("O1")'
NOT_INLINED = "static __attribute__((noinline)) void tw_"
_MOST_CONSTANT_BYTES = 1 << 31
_NAME = re.compile(r"\btw_\w+")
_DEFINED = re.compile(r"^static [^;\n=]*?\b(tw_\w+)\(", re.MULTILINE)

Form = tuple[str, str]
Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Sifted:
    """A candidate with the least processor time of a call."""

    candidate: Candidate
    seconds: float


@dataclass(frozen=True, eq=False)
class Source:
    """Code that some candidates share: static functions, the packing of constants, the kernel."""

    candidates: list[Candidate]
    artifact: Artifact
    functions: tuple[str, ...]
    packing: str
    own: str

    @property
    def form(self) -> Form:
        """Key of sources that pack their constants alike."""
        return self.artifact.name, self.packing

    def numbered(self, number: int, *, packs: bool) -> str:
        """The kernel, and with `packs` the packing, with names made unique by `number`."""
        name = self.artifact.name
        text = self.packing + self.own if packs else self.own
        return text.replace(f"\nvoid {name}", f"\nvoid {name}_{number}")


@dataclass(frozen=True)
class Functions:
    """Static functions of many files, each text once: `names` maps a text to its function's name.

    Functions with one name but several texts are numbered; their callers are renamed accordingly.
    """

    names: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def shared(self, text: str) -> tuple[tuple[str, ...], dict[str, str]]:
        """(functions of a file under their common names, new names by old ones)."""
        renamed: dict[str, str] = {}
        found = []
        for part in text.split("\n}\n")[:-1]:
            body = with_names(part, renamed)
            defined = _DEFINED.findall(body)
            if defined:
                own = defined[-1]
                name = self.names.setdefault(body, self._unused(own))
                self.used.add(name)
                renamed[own] = name
                body = with_names(body, {own: name})
            found.append(f"{body}\n}}\n")
        return tuple(found), {old: new for old, new in renamed.items() if old != new}

    def _unused(self, name: str) -> str:
        number, found = 0, name
        while found in self.used:
            number += 1
            found = f"{name}_v{number}"
        return found


def with_names(text: str, renamed: Mapping[str, str]) -> str:
    """The text with functions renamed."""
    return _NAME.sub(lambda match: renamed.get(match[0], match[0]), text) if renamed else text


def split_source(artifact: Artifact) -> tuple[str, str, str]:
    """(static functions of the file, functions that pack constants, kernel)."""
    text = artifact.files[f"{artifact.name}.c"]
    text = text.replace(f'#include "{artifact.name}.h"\n', "")
    head, mark, public = text.partition(f"\nvoid {artifact.name}")
    packing, begin, kernel = (mark + public).partition(f"\nvoid {artifact.name}(")
    return head.replace("static void tw_", NOT_INLINED), packing, begin + kernel


def sources(candidates: Sequence[Candidate], machine: Machine) -> list[Source]:
    """The code of all candidates, equal code once, in the order of its first candidate."""
    found: dict[tuple[str, ...], Source] = {}
    functions, heads = Functions(), dict[str, tuple[tuple[str, ...], dict[str, str]]]()
    for candidate in candidates:
        artifact = CODE.emit(candidate.program(machine), machine)
        head, *public = split_source(artifact)
        if head not in heads:
            heads[head] = functions.shared(head)
        used, renamed = heads[head]
        code = (head, *public)
        if code in found:
            found[code].candidates.append(candidate)
        else:
            texts = [with_names(text, renamed) for text in public]
            found[code] = Source([candidate], replace(artifact, files={}), used, *texts)
    return list(found.values())


@dataclass(eq=False)
class Sieve:
    """Times candidates of one operator; `best` is the least time so far, over all algorithms."""

    machine: Machine
    best: float = float("inf")
    memory: Memory = field(default_factory=Memory)
    packed: dict[Form, Array] = field(default_factory=dict)
    clock: Callable[[], float] = time.thread_time

    def __call__(self, candidates: Sequence[Candidate], advance: Advance) -> list[Sifted]:
        """Every candidate with its time, fastest first; reports the number done to `advance`."""
        found: list[Sifted] = []
        every = sources(candidates, self.machine)
        for source in every:
            self.memory.reserve(source.artifact)
        for start in range(0, len(every), TOGETHER):
            if sum(array.nbytes for array in self.packed.values()) > _MOST_CONSTANT_BYTES:
                self.packed.clear()
            found += self._timed(every[start : start + TOGETHER])
            advance(len(found))
        self.packed.clear()
        return sorted(found, key=lambda sifted: sifted.seconds)

    def _timed(self, batch: Sequence[Source]) -> Iterator[Sifted]:
        with tempfile.TemporaryDirectory() as folder:
            library = self._compiled(batch, Path(folder))
            runs = [self._bound(source, i, library) for i, source in enumerate(batch)]
            seconds = [float("inf")] * len(batch)
            for tolerance in PASSES:
                for i, run in enumerate(runs):
                    if seconds[i] <= tolerance * self.best:
                        seconds[i] = min(seconds[i], self._least_seconds(run))
                        self.best = min(self.best, seconds[i])
            _close(library)
        for source, least in zip(batch, seconds, strict=True):
            yield from (Sifted(candidate, least) for candidate in source.candidates)

    def _compiled(self, batch: Sequence[Source], folder: Path) -> ctypes.CDLL:
        functions = dict.fromkeys(part for source in batch for part in source.functions)
        text, packs = [*functions, LOOPS], set(self.packed)
        for number, source in enumerate(batch):
            text.append(source.numbered(number, packs=source.form not in packs))
            packs.add(source.form)
        (folder / "batch.c").write_text("\n".join(text), encoding="utf-8")
        flags = (*FLAGS, "-fno-ipa-cp", *instruction_set_of(self.machine).compiler_flags)
        run_compiler((*compiler("the benchmark"), *flags, "batch.c"), folder)
        return ctypes.CDLL(str(folder / "library.so"))

    def _bound(self, source: Source, number: int, library: ctypes.CDLL) -> Callable[[], object]:
        """A function that calls the kernel on its arrays."""
        artifact = source.artifact
        given = [self._array(t, source, number, library) for t in artifact.tensors]
        places = [*(array for array in given if array is not None), self.memory.workspace(artifact)]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in places]
        return partial(library[f"{artifact.name}_{number}"], *pointers)

    def _least_seconds(self, run: Callable[[], object]) -> float:
        """Least seconds per call of a few samples; the first call warms up, and sets the number of
        calls in a sample.
        """
        start = self.clock()
        run()
        least = self.clock() - start
        calls = max(1, round(SAMPLE_SECONDS / max(least, 1e-6)))
        for _ in range(SAMPLES):
            if least > HOPELESS * self.best:
                break
            start = self.clock()
            for _ in range(calls):
                run()
            least = min(least, (self.clock() - start) / calls)
        return least

    def _array(
        self, info: TensorInfo, source: Source, number: int, library: ctypes.CDLL
    ) -> Array | None:
        """The array of a tensor, None for scratch; constants are packed once per form."""
        if info.kind == "scratch":
            return None
        if not info.is_packed:
            return self.memory(info.kind, stored_elements(info))
        if source.form not in self.packed:
            place = on_huge_pages(stored_elements(info))
            plain = self.memory("constant", prod(info.shape))
            pack = library[f"{source.artifact.name}_{number}_pack_{info.identifier}"]
            pack(ctypes.c_void_p(plain.ctypes.data), ctypes.c_void_p(place.ctypes.data))
            self.packed[source.form] = place
        return self.packed[source.form]


def _close(library: ctypes.CDLL) -> None:
    """Unload a library; otherwise hundreds would stay in memory."""
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))
