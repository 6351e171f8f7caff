"""Compile this installation's modules, and prepare cache entries for the first commands.

These are the compiled functions of its simulators and cost models, the emulated SW26010 if there is
a C compiler, software pipelines, code and cycles of routines, and the structures of schedules for
the products of known networks, but no schedule of an operator of a given size. All are made in a
temporary cache and moved beside the installed modules (`common.cache.INSTALLED`); entries of
earlier sources are removed.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

import tilewright
from tilewright.codegen.artifact import READIES
from tilewright.common.cache import INSTALLED
from tilewright.common.cache.entries import entries_below, files_of
from tilewright.common.classes import classes_of_table
from tilewright.common.errors import ToolError
from tilewright.graph.zoo import list_networks, network
from tilewright.machine.load import find_machine
from tilewright.network.planning.products import one_group
from tilewright.partition.promising import Classes, least_costs
from tilewright.tune.prepared import ready_structures
from tilewright.tune.ways import ways

COMMANDS = (
    "compile lenet5 --machine sw26010",
    "compile digits --machine bwdsp-56",
    "compile gemm --m 64 --n 64 --k 64 --machine dla-al",
    "compile lookup --n 4096 --shift 8 --machine cns1-128",
)
KINDS = ("functions", "pipelines", "primitives", "routines", "structures", "sw26010-emulation")
MACHINE = "sw26010"
STRUCTURES = ((MACHINE, "f64", (1, 128), ("",)), ("host", "f32", (1,), ("", "prepacked")))
"""Structures to make: machine, type, batches and algorithms, "" for those that every command tries.
Machines that differ in numbers alone share them.
"""


def main() -> None:
    """Compile everything, and print what is installed."""
    compileall.compile_dir(Path(str(tilewright.__file__)).parent, quiet=1)
    for kind in KINDS:
        shutil.rmtree(INSTALLED / kind, ignore_errors=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for command in COMMANDS:
            line = [sys.executable, "-m", "tilewright", *command.split()]
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        for machine, dtype, batches, algorithms in STRUCTURES:
            for algorithm in algorithms:
                _make_structures(machine, dtype, batches, algorithm)
        classes_of_table(np.zeros((1, 1 << 17), np.int64))  # large tables take the path of hashes
        grids = Classes.among(np.zeros((1, 4), np.int64))  # for many grids, bounds are compiled
        least_costs([np.zeros(1)] * 2, [grids] * 2, {(0, 1, 0): grids}, np.zeros(3))
        with suppress(ToolError):
            READIES.required(find_machine(MACHINE)).make_ready(find_machine(MACHINE))
        made = sorted(entries_below(Path(cache, "tilewright")))
        for kind in KINDS:
            _install([path for path in made if path.parent.name == kind], INSTALLED / kind)


def _make_structures(name: str, dtype: str, batches: Sequence[int], algorithm: str) -> None:
    """Make the structures of each way to compute a product of a known network."""
    machine = find_machine(name)
    networks = [network(known, b, dtype=dtype) for known in list_networks() for b in batches]
    ops = list(dict.fromkeys(op for own in networks for _, op in own.layers()))
    for own in (machine, one_group(machine)):
        every = ways(ops, own, algorithm=algorithm or None, strict=False)
        for part, seed in (way for found in every for way in found):
            for space in seed.spaces:
                ready_structures(own, seed, space, part.piece.dtype)


def _install(entries: Sequence[Path], folder: Path) -> None:
    """Fill the folder with these entries by their keys, each a value or a folder of files."""
    folder.mkdir(parents=True)
    sizes: list[int] = []
    for entry in entries:
        filling, files = folder / f".{entry.name}", files_of(entry)
        sizes += [path.stat().st_size for path in files]
        if [path.name for path in files] == ["value"]:
            shutil.copyfile(files[0], filling)
        else:
            filling.mkdir()
            for path in files:
                shutil.copyfile(path, filling / path.name)
        filling.rename(folder / entry.name)
    print(f"{folder} holds {len(entries)} entries, {sum(sizes):,} bytes")


if __name__ == "__main__":
    main()
