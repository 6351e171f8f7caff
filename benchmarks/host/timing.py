"""Timing contenders against each other: checked first, then interleaved, the peak among them.

With one thread all run in this process; `workers` has them in a process each.
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
"""Largest error, as a fraction of the largest result, of a contender that may take part."""

PEAK = "FMA peak"


@dataclass(frozen=True)
class Entry:
    """One way of one contender that computes the right thing."""

    name: str
    algorithm: str
    error: float
    contender: Contender


@dataclass(frozen=True)
class Standing:
    """How one way of one contender did; `ratio` is the speed of the first entry over its own."""

    name: str
    algorithm: str
    flops_per_second: float
    ratio: Ratio
    error: float
    timing: Timing


def find_contestants(threads: int, machine: str) -> list[Contestant | Missing]:
    """Ours first, compiled for `machine`, then the rivals, each as it is installed here."""
    return [
        find_compiled(threads, machine),
        BareGemm(threads),
        find_onednn(),
        find_onednn2(),
        find_onnxruntime(threads),
        find_torch(threads),
    ]


def checked(name: str, prepared: Prepared, workload: Workload) -> float:
    """The error of a contender's first result; ends the program where it is simply wrong."""
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
    """Rates, and how much faster the first entry is than each other."""
    found = []
    for entry in entries:
        timing, first = timings[entry.contender.name], timings[entries[0].contender.name]
        rate, ratio = workload.op.flops / timing.seconds, ratio_of_speeds(first, timing)
        found.append(Standing(entry.name, entry.algorithm, rate, ratio, entry.error, timing))
    return found
