"""Mutates machine descriptions and assembly programs: each is used or refused in words.

A machine that loads is printed and ranks the schedules of a small product; a program that assembles
is linked and runs on one core of a SW26010, or on a node of a CNS-1 (`torrent`). A finding is
another exception, a process that dies, takes more than ten seconds of processor time or more than
4 GiB. Exits with 1 where there are any; their files are kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import resource
import sys
import time
import traceback
from collections import Counter
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from tilewright.asm import assemble, link
from tilewright.common.errors import TilewrightError
from tilewright.isa import load_table
from tilewright.machine import describe, load_machine
from tilewright.machine.family import machine_files
from tilewright.ops import gemm
from tilewright.papers.cns1.repaired import repaired_listing
from tilewright.seeds.space import seeds_for
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.targets.cns1.kernels.code import (
    backward_code,
    errors_code,
    forward_code,
    update_code,
)
from tilewright.targets.cns1.node import TABLE, node_table, run_node
from tilewright.tune.search import rank

SECONDS_ALLOWED = 10
SECONDS_WAITED = 120
"""Wall time, which passes while other processes run, too."""
BYTES_ALLOWED = 4 << 30
PIECES = re.compile(rb"\s+|[\w.]+|.", re.DOTALL)
LINES = re.compile(rb"[^\n]*\n|[^\n]+$")
NUMBER = re.compile(rb"-?[0-9][0-9_.e+-]*$")
EXTREMES = (b"0", b"-1", b"1", b"7", b"65536", b"2147483648", b"9223372036854775808", b"1e308")
EXTREMES += (b"nan", b"inf", b"0.5", b"1e-300", b"true", b'""', b"[]", b"99999999999999999999999")
LISTINGS = ("recall", "forward", "errors", "backward", "update")
TORRENT_ARGUMENTS = {"$4": 0, "$5": 256, "$6": 320, "$7": 0, "$9": 128, "$12": 64, "$16": 512}
TORRENT_ARGUMENTS |= {"$17": 768, "$18": 8192, "$19": 2048, "$21": 32768, "$23": 49152, "$25": 256}
TORRENT_ARGUMENTS |= {"$29": 4000}
"""Small arguments, so that most of the originals terminate."""
PROGRAMS = Path(__file__).parents[2] / "tests" / "asm" / "programs"


def originals(kind: str) -> list[bytes]:
    """The files that are mutated."""
    if kind == "machines":
        return [path.read_bytes() for _, (_, path) in sorted(machine_files().items())]
    if kind == "torrent":
        return torrent_programs()
    return [path.read_bytes() for path in sorted(PROGRAMS.glob("*.s"))]


@cache
def torrent_programs() -> list[bytes]:
    """The listings of the report, and tilewright's kernels."""
    machine = load_machine("cns1-128")
    kernels = (
        forward_code(machine, 2, 16, 1 << 15),
        errors_code(machine, 2),
        backward_code(machine, 2),
        update_code(machine, 2),
    )
    listings = (repaired_listing(name) for name in LISTINGS)
    return [text.encode() for text in (*listings, *kernels)]


def mutated(kind: str, seed: int, number: int) -> bytes:
    """An original with one to four numbers, words or lines changed, moved, doubled or dropped."""
    chance = random.Random(f"{kind} {seed} {number}")
    source = chance.choice(originals(kind))
    for _ in range(chance.choice((1, 1, 2, 4))):
        pieces = chance.choice((PIECES, PIECES, LINES)).findall(source)
        here, there = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        numbers = [i for i, piece in enumerate(pieces) if NUMBER.match(piece)]
        match chance.randrange(7):
            case 0:
                del pieces[here]
            case 1:
                pieces.insert(there, pieces[here])
            case 2:
                pieces[here], pieces[there] = pieces[there], pieces[here]
            case 3:
                pieces[here] = chance.randbytes(chance.randrange(1, 4))
            case _ if numbers:
                pieces[chance.choice(numbers)] = chance.choice(EXTREMES)
            case _:
                pieces[here] = pieces[there]
        source = b"".join(pieces)
    return source


def judged(kind: str, source: bytes, folder: Path) -> tuple[str, str]:
    """(outcome, details of a finding)."""
    started, status = time.process_time(), "used"
    try:
        match kind:
            case "machines":
                use_machine(source, folder)
            case "torrent":
                use_torrent(source)
            case _:
                use_program(source)
    except TilewrightError as refusal:
        status = "refused" if str(refusal).strip() else "refused without words"
    except Exception:  # any other exception is a finding
        return "traceback", traceback.format_exc()
    seconds = time.process_time() - started
    return (status, "") if seconds <= SECONDS_ALLOWED else ("slow", f"{seconds:.1f} s")


def use_machine(source: bytes, folder: Path) -> None:
    """Load, print, and rank a small product."""
    path = folder / "mutated.toml"
    path.write_bytes(source)
    machine = load_machine(str(path))
    describe(machine)
    operator = gemm(96, 64, 48)
    rank([(operator, seed) for seed in seeds_for(operator)], machine, keep=1)


def use_program(source: bytes) -> None:
    """Assemble, link, and run on one core."""
    table = load_table("sw26010_cpe")
    image = load_image(link([assemble(source, table)], table), table)
    simulate_core(
        image.program,
        local_memory=image.local_memory,
        ideal_communication=True,
        max_cycles=100_000,
    )


def use_torrent(source: bytes) -> None:
    """Assemble, link, and run on a node."""
    base, table = load_table(TABLE), node_table(load_machine("cns1-128"))
    program = load_image(link([assemble(source, base)], base), table).program
    run_node(
        program, main=np.zeros(1 << 16, np.uint8), registers=TORRENT_ARGUMENTS, max_cycles=100_000
    )


def serve(pipe: Connection, folder: Path) -> None:
    """Judge the mutations requested through the pipe until it is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_ALLOWED, BYTES_ALLOWED))
    try:
        while True:
            kind, seed, number = pipe.recv()
            pipe.send(judged(kind, mutated(kind, seed, number), folder))
    except EOFError:
        pass


class Worker:
    """A process that judges mutations, replaced when it hangs or dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._pipe, other = multiprocessing.Pipe()
        arguments = (other, self._folder)
        self._process = multiprocessing.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        other.close()

    def judged(self, kind: str, seed: int, number: int) -> tuple[str, str]:
        """(outcome, details) of one mutation."""
        self._pipe.send((kind, seed, number))
        try:
            if self._pipe.poll(SECONDS_WAITED):
                status, detail = self._pipe.recv()
                return status, detail
        except EOFError:
            self._start()
            return "died", ""
        self.end()
        self._start()
        return "hung", ""

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.join()


def main() -> int:
    """Judge the mutations and keep the findings; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("machines", "programs", "torrent"))
    parser.add_argument("--count", type=int, default=5_000, help="mutations in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("out/fuzz-files"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    worker, counts = Worker(options.folder), Counter[str]()
    # The first mutation compiles everything that is compiled once, before any is timed.
    worker.judged(options.kind, options.seed, 0)
    for number in range(options.count):
        status, detail = worker.judged(options.kind, options.seed, number)
        counts[status] += 1
        if status not in ("used", "refused"):
            name = options.folder / f"{options.kind}-{options.seed}-{number}-{status}"
            name.write_bytes(mutated(options.kind, options.seed, number))
            name.with_suffix(".txt").write_text(detail, encoding="utf-8")
    worker.end()
    shown = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    print(f"{options.kind}, seed {options.seed}, {options.count} mutations: {shown}")
    return int(bool(set(counts) - {"used", "refused"}))


if __name__ == "__main__":
    sys.exit(main())
