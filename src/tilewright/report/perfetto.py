"""A kernel run as Chrome trace events, for ui.perfetto.dev or chrome://tracing.

In: a `KernelRun` with a trace. Out: the JSON text. One track says what the core does, one what the
DMA engine serves; arrows lead from each transfer to the moment that waited for it; counters show
scratchpad use and outstanding transfers. The viewers know only microseconds: one cycle is shown as
one, which the track names say.

    core (cycles)        | dma issue | wait latency a | wait bandwidth a | gemm | for i x 998 ...
    DMA engine (cycles)              |     get a      |  get a  |
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias, assert_never

from tilewright.common.errors import SimulationError
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import KernelRun
from tilewright.simulate.runs import CoreRun, MeshRun
from tilewright.simulate.trace import (
    Busy,
    CoreEvent,
    Flight,
    Occupancy,
    Omitted,
    Repeated,
    Stall,
    Trace,
)

TraceEvent: TypeAlias = dict[str, Any]

PROCESS, CORE, ENGINE = 1, 1, 2
CORE_TRACK, ENGINE_TRACK = "core (cycles)", "DMA engine (cycles)"
SCRATCHPAD_COUNTER, OUTSTANDING_COUNTER = "scratchpad use (bytes)", "outstanding transfers"


def perfetto_json(run: KernelRun, machine: Machine, name: str) -> str:
    """The trace of `run`, called `name`, as JSON text in the Trace Event Format.

    Raises SimulationError for a run without a trace.
    """
    if run.trace is None:
        raise SimulationError("the run has no trace", fix="simulate with trace_limit above 0")
    document = {
        "traceEvents": [*_tracks(name), *_events(run.trace)],
        "displayTimeUnit": "ns",
        "otherData": {
            "machine": machine.name,
            "clock_hz": machine.clock_hz,
            "cycles": run.cycles,
            "unit": "1 cycle is shown as 1 us",
        },
    }
    return json.dumps(document)


def _tracks(name: str) -> list[TraceEvent]:
    def meta(kind: str, thread: int, **args: object) -> TraceEvent:
        return {"ph": "M", "name": kind, "pid": PROCESS, "tid": thread, "args": args}

    tracks = [meta("process_name", CORE, name=name)]
    for thread, track in ((CORE, CORE_TRACK), (ENGINE, ENGINE_TRACK)):
        tracks.append(meta("thread_name", thread, name=track))
        tracks.append(meta("thread_sort_index", thread, sort_index=thread))
    return tracks


def _events(trace: Trace) -> list[TraceEvent]:
    stalls = {
        (e.buffer, e.slot, e.start_cycle + e.cycles) for e in trace.events if isinstance(e, Stall)
    }
    found: list[TraceEvent] = []
    for number, event in enumerate(trace.events):
        match event:
            case Flight():
                found += [_served(event), *_flow(event, number, stalls)]
            case Occupancy():
                found += _counters(event)
            case _:
                found.append(_core(event))
    return found


def _slice(
    thread: int, start: int, cycles: int, name: str, category: str, **args: object
) -> TraceEvent:
    return {
        "ph": "X",
        "pid": PROCESS,
        "tid": thread,
        "ts": start,
        "dur": cycles,
        "name": name,
        "cat": category,
        "args": args,
    }


def _core(event: CoreEvent) -> TraceEvent:
    start, cycles = event.start_cycle, event.cycles
    match event:
        case Busy(_, _, activity, statement):
            return _slice(CORE, start, cycles, activity, "busy", statement=statement)
        case Stall(_, _, cause, tensor, buffer, slot):
            name = f"wait {cause} {tensor}"
            return _slice(CORE, start, cycles, name, "stall", slot=f"{buffer}[{slot}]")
        case Repeated(_, _, loop, iterations):
            name = f"{loop}: repeated {iterations} times"
            return _slice(CORE, start, cycles, name, "repeated", iterations=iterations)
        case Omitted():
            return _slice(CORE, start, cycles, "not recorded", "omitted")
        case _:
            assert_never(event)


def _served(flight: Flight) -> TraceEvent:
    return _slice(
        ENGINE,
        flight.start_cycle,
        flight.cycles,
        f"{flight.direction} {flight.tensor}",
        "transfer",
        slot=f"{flight.buffer}[{flight.slot}]",
        asked_bytes=flight.asked_bytes,
        issue_cycle=flight.issue_cycle,
        waited_cycle=flight.waited_cycle,
    )


def _flow(flight: Flight, number: int, stalls: set[tuple[str, int, int]]) -> list[TraceEvent]:
    """An arrow from the transfer into the stall that it ended, or to what the core did next."""
    if flight.waited_cycle is None:
        return []
    stalled = (flight.buffer, flight.slot, flight.waited_cycle) in stalls
    base: TraceEvent = {"name": "transfer", "cat": "transfer", "id": number, "pid": PROCESS}
    end = flight.waited_cycle - 1 if stalled else flight.waited_cycle
    return [
        {**base, "ph": "s", "tid": ENGINE, "ts": flight.start_cycle},
        {**base, "ph": "f", "bp": "e", "tid": CORE, "ts": end},
    ]


def _counters(occupancy: Occupancy) -> list[TraceEvent]:
    values = (
        (SCRATCHPAD_COUNTER, {"bytes": occupancy.scratchpad_bytes}),
        (OUTSTANDING_COUNTER, {"transfers": occupancy.outstanding}),
    )
    return [
        {"ph": "C", "pid": PROCESS, "ts": occupancy.cycle, "name": name, "args": args}
        for name, args in values
    ]


# A core's pipeline as Chrome trace events, for ui.perfetto.dev or chrome://tracing.
#
# One track per unit shows what occupied it, one the stalls with cause and register. The viewers
# know only microseconds: one cycle is shown as one, which the track names say.


def pipeline_perfetto_json(run: CoreRun | MeshRun, name: str) -> str:
    """The traced cores of a run as JSON text in the Trace Event Format.

    Raises SimulationError when no core was traced.
    """
    cores = run.cores if isinstance(run, MeshRun) else (run,)
    traced = [core for core in cores if core.issues]
    if not traced:
        raise SimulationError("the run has no trace", fix="simulate with traced_cores")
    events = [event for core in traced for event in _core_events(core, name)]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "machine": traced[0].program.table.name,
            "cycles": run.cycles,
            "complete": all(core.trace_complete for core in traced),
            "unit": "1 cycle is shown as 1 us",
        },
    }
    return json.dumps(document)


def _core_events(run: CoreRun, name: str) -> list[TraceEvent]:
    units = list(run.program.table.units)
    process = run.core + 1
    tracks = [f"{unit} (cycles)" for unit in units] + ["stalls (cycles)"]
    events: list[TraceEvent] = [
        _meta("process_name", process, 0, {"name": f"{name}, core {run.core}"})
    ]
    events += [
        _meta("thread_name", process, thread, {"name": track})
        for thread, track in enumerate(tracks, 1)
    ]
    for issue in run.issues:
        instruction = run.instruction(issue.instruction)
        args = {"instruction": issue.instruction, "latency_cycles": instruction.latency_cycles}
        slice_ = (issue.cycle, instruction.spec.occupancy_cycles, instruction.text())
        events.append(_unit_slice(process, units.index(issue.unit) + 1, slice_, args))
    for span in run.spans:
        label = f"{span.cause} {span.register}".strip()
        waiting = {"waiting": run.instruction(span.instruction).text()}
        slice_ = (span.first_cycle, span.cycles, label)
        events.append(_unit_slice(process, len(tracks), slice_, waiting))
    return events


def _meta(kind: str, process: int, thread: int, args: dict[str, str]) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _unit_slice(
    process: int, thread: int, slice_: tuple[int, int, str], args: dict[str, Any]
) -> TraceEvent:
    start, cycles, name = slice_
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start,
        "dur": cycles,
        "name": name,
        "args": args,
    }
