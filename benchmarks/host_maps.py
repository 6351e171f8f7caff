"""Maps on this computer, against a copy of the same bytes.

    PYTHONPATH=src:tests python benchmarks/host_maps.py [NAME ...] [--quick] [--csv FILE]

Each map is a network of one stage, compiled as any, on tensors of 256 KiB and 16 MiB; beside it
`memcpy` moves as many bytes as the map reads and writes. One thread, interleaved, processor time,
least ones.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Iterator
from dataclasses import replace
from math import isqrt, prod

import numpy as np
from shared.output import text_table
from shared.results import add_csv_option, write_results

from support.definitions import network_of
from tilewright.common.dtypes import dtype
from tilewright.graph.frontends.notation import define
from tilewright.machine import find_machine
from tilewright.ops.definition import Definition
from tilewright.targets.host.native import address, page_aligned
from tilewright.targets.host.network.native import compile_network

MAPS = {
    "relu": ("y[i] = max(x[i], 0)", "f32 f64 i32"),
    "exp": ("y[i] = exp(x[i])", "f32"),
    "sin": ("y[i] = sin(x[i])", "f32"),
    "sigmoid": ("y[i] = sigmoid(x[i])", "f32"),
    "clip": ("y[i] = min(max(x[i], 0), 6)", "f32 f64 i32 u8"),
    "scale": ("y[i] = 2 * x[i] + 1", "f32 f64 i32 u8"),
    "add": ("y[i] = x[i] + z[i]", "f32 f64 i32 u8"),
    "where": ("y[i] = x[i] if c[i] > 0 else z[i]", "f32 f64 i32 u8"),
    "step": ("y[i] = x[2*i]", "f32"),
    "slice": ("y[r,c] = x[r+3,c+5]", "f32 u8"),
    "rows": ("y[r,c] = x[r,c] + z[c]", "f32 i32"),
    "columns": ("y[r,c] = x[r,c] + z[r]", "f32"),
    "across": ("y[c,r] = x[r,c]", "f32 f64 u8"),
    "channels": ("y[a,c,r] = x[a,r,c]", "f32"),
}
SIZES, IMAGES, MEBIBYTE = (1 << 18, 1 << 24), 16, 1 << 20


def defined(text: str, kind: str, total: int) -> Definition:
    """The map on `total` bytes, half of them in the result."""
    count = total // 2 // dtype(kind).size_bytes
    places = {"i": count}
    if "[i]" not in text:
        images = IMAGES if "a," in text else 1
        rows = 1 << (isqrt(count // images).bit_length() - 1)
        every = {"a": images, "r": rows, "c": count // images // rows}
        places = {axis: n for axis, n in every.items() if axis != "a" or images > 1}
    op = define(text, **places)
    assert isinstance(op, Definition)
    return replace(op, dtype=op.dtype.replace("f64", kind))


def measured(op: Definition, rounds: int) -> tuple[int, float, float]:
    """(bytes moved, seconds of the map, seconds of the copy)."""
    network = compile_network(network_of(op, "map"), find_machine("host"))
    bound, moved = network.loaded.bind(network.loaded.constants({})), 0
    for name, shape in (*network.code.inputs, *network.code.outputs):
        bound.memory(name)[...] = np.arange(prod(shape)) % 7
        moved += bound.memory(name).nbytes
    ends = [page_aligned(moved // 16, dtype("f64")) for _ in range(2)]
    for array in ends:
        array[...] = 1
    into, out_of = map(address, ends)
    count, turns = ctypes.c_size_t(ends[0].nbytes), max(1, 16 * MEBIBYTE // moved)
    copy, own, other = ctypes.CDLL(None).memcpy, list[float](), list[float]()
    for _ in range(rounds):
        begun = time.process_time()
        bound.repeat(turns)
        between = time.process_time()
        for _ in range(turns):
            copy(into, out_of, count)
        own.append((between - begun) / turns)
        other.append((time.process_time() - between) / turns)
    return moved, min(own), min(other)


def rows(names: list[str], rounds: int) -> Iterator[dict[str, object]]:
    """One row for each map, type and size."""
    for name in names:
        text, kinds = MAPS[name]
        for kind in kinds.split():
            for total in SIZES:
                moved, own, copy = measured(defined(text, kind, total), rounds)
                yield {"map": name, "type": kind, "moved_mebibytes": f"{moved / MEBIBYTE:.2f}",
                       "gigabytes_per_second": f"{moved / own / 1e9:.1f}",
                       "speed_over_copy": f"{copy / own:.2f}"}  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(MAPS)}; all unless given")
    parser.add_argument("--quick", action="store_true", help="one map, few rounds")
    add_csv_option(parser)
    asked = parser.parse_args()
    names = asked.name or (["where"] if asked.quick else [*MAPS])
    found = list(rows(names, 5 if asked.quick else 31))
    print(text_table([*found[0]], [[str(x) for x in row.values()] for row in found]))
    write_results(asked.csv, found, title="Maps", kind="measured",
                  conditions="one thread, interleaved, least processor times")  # fmt: skip


if __name__ == "__main__":
    main()
