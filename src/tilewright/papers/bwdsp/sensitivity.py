"""Sensitivity to the machine's numbers that no source gives: each halved and doubled.

Times are of VGG-16 at batch 1 in single precision, step by step as the paper has it, under its
optimised strategy and under the plan that moves the fewest values. For numbers of a core, the times
of its programs under the latter plan replace the peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from tilewright.graph import network
from tilewright.machine import Machine, load_machine
from tilewright.machine.model import leaves
from tilewright.papers.bwdsp.network import BEST, CORES, NETWORK, OPTIMISED, TILES
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.partition.capability import DIVIDES
from tilewright.partition.clock import finish_cycles
from tilewright.partition.layers import layers_of
from tilewright.partition.objective import core_model
from tilewright.partition.plan import PartitionPlan, fixed_plan, space
from tilewright.partition.timing import layer_times, program_times

TITLE = "time of VGG-16 over the machine's assumed numbers"
MACHINE = "bwdsp-56"
ELEMENT = "f32"
_KEYS = (
    "clock_hz",
    "dma.get.bytes_per_cycle",
    "dma.latency_cycles",
    "fabrics.grid.bytes_per_cycle",
    "fabrics.grid.hop_cycles",
    "fabrics.grid.send_cycles",
)
_CORE_KEYS = (
    "memory.buffers.capacity_bytes",
    "fabrics.grid.bytes_per_cycle",
    "primitives.product.start_cycles",
    "primitives.product.sums_cycles",
    "primitives.vector.load_cycles",
)
_FACTORS = (0.5, 2.0)


class _Times(Struct, frozen=True):
    """Milliseconds of one plan on one machine, step by step and overlapped."""

    strategy: str
    steps_ms: float
    overlapped_ms: float


class CoreTimes(Struct, frozen=True):
    """Milliseconds of all layers: computing at the peak, by the slowest cores' programs, and with
    operands and results passing the ports meanwhile.
    """

    peak_ms: float
    program_ms: float
    streamed_ms: float


def run(lab: Lab) -> Findings:
    """The machine as described, then each number halved and doubled."""
    rows = list(_rows("as described", lab, ""))
    keys = lab.some(_KEYS, 1)
    for key in keys:
        for factor in _FACTORS:
            rows += _rows(f"{key} x {factor:g}", lab, f"{key} {factor}")
    changed = [f"{key} {factor:g}" for key in _CORE_KEYS for factor in _FACTORS]
    for change in lab.some(["", *changed], 1):
        rows += _core_rows(change.replace(" ", " x ") or "as described", lab, change)
    return Findings(
        rows=tuple(rows),
        notes=(
            "computing: the slowest core's programs, layer by layer, on the plan that moves the"
            " fewest values (simulated)",
            "model: cores compute at their peak, an exchange takes as long as its busiest link or"
            " port, weights stream from one main memory; nothing of it was measured",
            "the clock changes what is counted in cycles, links and main memory included",
        ),
    )


def _rows(name: str, lab: Lab, change: str) -> Iterator[Row]:
    (found,) = lab.map(times, [change])
    for one in found:
        note = f"overlapped {one.overlapped_ms:.2f} ms"
        yield compare(f"{name}: {one.strategy}", None, one.steps_ms, "model", note=note, unit="ms")


def _core_rows(name: str, lab: Lab, change: str) -> Iterator[Row]:
    (one,) = lab.map(core_times, [change])
    note = f"at the peak {one.peak_ms:.2f} ms, streamed {one.streamed_ms:.2f} ms"
    row = f"{name}: {BEST}, computing"
    yield compare(row, None, one.program_ms, "simulated", note=note, unit="ms")


def core_times(change: str) -> CoreTimes:
    """Times of the plan of fewest values with one number of the core changed."""
    machine, plan = _changed(change), _plans()[BEST]
    programs, ms = DIVIDES.required(machine).programs(machine, ELEMENT), 1000 / machine.clock_hz
    slowest = [layer.slowest for layer in program_times(plan, programs)[1]]
    peak = sum(layer.compute_cycles for layer in layer_times(plan, core_model(machine, ELEMENT)))
    return CoreTimes(
        peak * ms,
        sum(one.compute_cycles for one in slowest) * ms,
        sum(one.streamed_cycles for one in slowest) * ms,
    )


def times(change: str) -> list[_Times]:
    """Times of both plans with one number of the machine changed: `KEY FACTOR`, or nothing."""
    machine = _changed(change)
    found = []
    for strategy, plan in _plans().items():
        model, ms = core_model(machine, ELEMENT), 1000 / machine.clock_hz
        steps = sum(layer.steps_cycles for layer in layer_times(plan, model)) * ms
        overlapped = finish_cycles(plan, model, overlapped=True)[-1] * ms
        found.append(_Times(strategy, steps, overlapped))
    return found


@cache
def _plans() -> dict[str, PartitionPlan]:
    """Both plans; they depend on no number of the machine."""
    layers = layers_of(network(NETWORK, 1, dtype=ELEMENT))
    return {
        OPTIMISED: fixed_plan(layers, CORES, OPTIMISED),
        BEST: space(layers, CORES, strategies=TILES).best(),
    }


def _changed(change: str) -> Machine:
    machine = load_machine(MACHINE)
    if not change:
        return machine
    key, factor = change.split()
    number = dict(leaves(machine))[key]
    assert isinstance(number, int | float)
    scaled = number * float(factor)
    return load_machine(MACHINE, {key: int(scaled) if isinstance(number, int) else scaled})
