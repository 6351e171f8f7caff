"""Cost of the first run of an ONNX file on this computer: seconds, cold and warm, and memory.

    PYTHONPATH=src python benchmarks/host_compile.py [vgg16 | resnet50 | yolov2 ...]
        [--machine host] [--json] [--csv FILE]

The network is first written as an ONNX file. Fresh processes then read it, compile it and run it
once: "cold" with an empty cache folder, "warm" with the cache that the cold one left. Seconds are
wall time and the time of all processors together, including C compilers; "start" is Python with its
imports, which the other columns exclude. Memory is the growth of the process from before reading
the file to after its first run; the network itself needs constants and arena.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from shared.output import note, processor, show, text_table
from shared.results import add_csv_option, write_results

MEBIBYTE = 2**20
HEADERS = (
    "network", "cache", "start, s", "compile, s", "of processors", "first run, s", "of processors",
)  # fmt: skip
MEMORY_HEADERS = (
    "network", "cache", "constants, MiB", "arena, MiB", "held after a run, MiB", "more, MiB",
)  # fmt: skip


def now() -> tuple[float, float]:
    """(wall, processor) seconds, children included."""
    own, children = (
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return time.perf_counter(), own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def held_bytes() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def measured(path: str, machine: str) -> dict[str, Any]:
    """Compile and run the file once in this process; returns seconds and bytes by name."""
    import numpy as np

    from tilewright.cli.output import OutputOptions, progress_bar
    from tilewright.graph.frontends.onnx import load_onnx
    from tilewright.machine import find_machine
    from tilewright.targets.host.network.native import compile_network

    target = find_machine(machine)
    before, begun = held_bytes(), now()
    with progress_bar(OutputOptions()) as progress:
        network = load_onnx(path)
        compiled = compile_network(network, target, progress=progress)
    done = now()
    shapes = {t.name: t.shape for t in network.inputs}
    del network
    compiled.run(**{name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    ran = now()
    gc.collect()
    return {
        "compile_seconds": done[0] - begun[0],
        "compile_processor_seconds": done[1] - begun[1],
        "first_run_seconds": ran[0] - done[0],
        "first_run_processor_seconds": ran[1] - done[1],
        "constant_bytes": compiled.code.constant_bytes,
        "arena_bytes": compiled.code.arena_bytes,
        "held_bytes": held_bytes() - before,
    }


def in_fresh_process(path: Path, machine: str, cache: Path) -> dict[str, Any]:
    """The figures of one fresh process, with the seconds that it took to start."""
    command = [sys.executable, __file__, "--file", str(path), "--machine", machine]
    started = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"compiling {path.name} failed")
    found: dict[str, Any] = json.loads(done.stdout)
    whole = time.perf_counter() - started
    return {**found, "start_seconds": whole - found["compile_seconds"] - found["first_run_seconds"]}


def figures(name: str, machine: str) -> dict[str, Any]:
    """The cold and the warm figures of one network."""
    import onnx

    from tilewright.graph import network
    from tilewright.graph.frontends.onnx.export import export_onnx
    from tilewright.graph.weights import random_weights

    known = network(name, 1, dtype="f32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(export_onnx(known, random_weights(known)), path)
        runs = {}
        for cache in ("cold", "warm"):
            note(f"{name}, {cache}")
            runs[cache] = in_fresh_process(path, machine, Path(folder) / "cache")
    return {"name": name, **runs}


def tables(found: Sequence[dict[str, Any]]) -> str:
    """The table of seconds, then that of memory."""
    keys = ("start", "compile", "compile_processor", "first_run", "first_run_processor")
    seconds = [
        [one["name"], cache, *(f"{one[cache][f'{key}_seconds']:.2f}" for key in keys)]
        for one, cache in product(found, ("cold", "warm"))
    ]
    memory = []
    for one, cache in product(found, ("cold", "warm")):
        parts = [one[cache][f"{key}_bytes"] for key in ("constant", "arena", "held")]
        parts.append(parts[2] - parts[1] - parts[0])
        memory.append([one["name"], cache, *(f"{part / MEBIBYTE:.0f}" for part in parts)])
    return f"{text_table(HEADERS, seconds)}\n\n{text_table(MEMORY_HEADERS, memory)}"


def csv_rows(found: Sequence[dict[str, Any]]) -> list[dict[str, object]]:
    """One row for each network, cold and warm."""
    rows = []
    for one, cache in product(found, ("cold", "warm")):
        row: dict[str, object] = {"network": one["name"], "cache": cache}
        for name, value in one[cache].items():
            in_bytes = name.endswith("_bytes")
            name = name.replace("_bytes", "_mebibytes")
            row[name] = round(value / MEBIBYTE, 1) if in_bytes else round(value, 2)
        rows.append(row)
    return rows


def keep(arguments: argparse.Namespace, found: Sequence[dict[str, Any]]) -> None:
    """Write the CSV file, if one was requested."""
    write_results(
        arguments.csv,
        csv_rows(found),
        title="From an ONNX file to the first run",
        kind="measured",
        machine=arguments.machine,
        conditions=f"fresh processes, batch 1, f32, one thread; {os.cpu_count()} processors",
        meanings={
            "cache": "cold: empty; warm: what the first process left",
            "held_mebibytes": "what the process holds after its first run more than before",
        },
    )


def main() -> None:
    """Measure the chosen networks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="*", help="of the zoo; resnet50 unless given")
    parser.add_argument("--machine", default="host", help="compiled for this one")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    if arguments.file:
        print(json.dumps(measured(arguments.file, arguments.machine)))
        return
    found = [figures(name, arguments.machine) for name in arguments.network or ["resnet50"]]
    text = f"{processor()}, {os.cpu_count()} processors\n{tables(found)}"
    keep(arguments, found)
    show({"processor": processor(), "networks": found}, text, arguments.json)


if __name__ == "__main__":
    main()
