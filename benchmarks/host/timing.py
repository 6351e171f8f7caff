"""Time contenders against each other: checked first, then interleaved, with the peak among them.

On one thread all run in this process; on several, `workers` runs each in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from host.bare_gemm import BareGemm
from host.compiled import find_compiled
from host.contest import Contestant, Missing, Prepared, Workload
from host.onednn import find_onednn
from host.onednn2 import find_onednn2
from host.onnx_runtime import find_onnxruntime
from host.torch_eager import find_torch
from tilewright.common.dtypes import F32
from tilewright.targets.host.calibrating.probes import load_probes, peak_flops_per_call
from tilewright.targets.host.native import native_instruction_sets
from tilewright.tune.sampling import (
    DEFAULT_PROTOCOL,
    Contender,
    Protocol,
    Ratio,
    Timing,
    interleaved,
    ratio_of_speeds,
)

TOLERANCE = 1e-3
"""Largest accepted error of a contender, as a fraction of the largest result."""

PEAK = "FMA peak"


@dataclass(frozen=True)
class Entry:
    """One algorithm of one contender, with a correct result."""

    name: str
    algorithm: str
    error: float
    contender: Contender


@dataclass(frozen=True)
class Standing:
    """Figures of one algorithm of a contender; `ratio` is the first entry's speed over its own."""

    name: str
    algorithm: str
    flops_per_second: float
    ratio: Ratio
    error: float
    timing: Timing


def find_contestants(threads: int, machine: str) -> list[Contestant | Missing]:
    """Our contender, compiled for `machine`, then the rivals, installed or `Missing`."""
    return [
        find_compiled(threads, machine),
        BareGemm(threads),
        find_onednn(),
        find_onednn2(),
        find_onnxruntime(threads),
        find_torch(threads),
    ]


def checked(name: str, prepared: Prepared, workload: Workload) -> float:
    """The error of a contender's first result; exits if that exceeds `TOLERANCE`."""
    prepared(1)
    error = workload.error(prepared.result())
    if not error <= TOLERANCE:
        raise SystemExit(f"{name} is wrong on {workload.name}: error {error:.1e}")
    return error


def time_workload(
    workload: Workload, contestants: Sequence[Contestant], protocol: Protocol = DEFAULT_PROTOCOL
) -> list[Standing]:
    """The standings on one workload in this process, on one thread."""
    ways = [(c.name, p) for c in contestants for p in c.prepare(workload)]
    entries = [
        Entry(name, way.algorithm, checked(name, way, workload), Contender(str(number), way))
        for number, (name, way) in enumerate(ways)
    ]
    isa = native_instruction_sets()[0]
    peak = load_probes(isa).peak(F32)
    timings = interleaved([*(e.contender for e in entries), peak], protocol)
    peak_timing = timings.pop(peak.name)
    first = Standing(
        PEAK,
        "",
        peak_flops_per_call(isa, F32) / peak_timing.seconds,
        Ratio(1, 0, 0),
        0.0,
        peak_timing,
    )
    return [first, *standings(workload, entries, timings)]


def standings(
    workload: Workload, entries: Sequence[Entry], timings: Mapping[str, Timing]
) -> list[Standing]:
    """The standing of each entry, with its ratio to the first one."""
    found = []
    for entry in entries:
        timing, first = timings[entry.contender.name], timings[entries[0].contender.name]
        rate, ratio = workload.op.flops / timing.seconds, ratio_of_speeds(first, timing)
        found.append(Standing(entry.name, entry.algorithm, rate, ratio, entry.error, timing))
    return found
