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
from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from tilewright.common.errors import SimulationError
from tilewright.isa import Instruction
from tilewright.machine import Machine
from tilewright.simulate import trace as traces
from tilewright.simulate.kernel.level import KernelRun
from tilewright.simulate.runs import CoreRun, MeshRun
from tilewright.simulate.window.run import WindowRun

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
    events = [*_tracks(name), *_events(run.trace)]
    return _document(events, machine=machine.name, clock_hz=machine.clock_hz, cycles=run.cycles)


def _document(events: list[TraceEvent], **other: object) -> str:
    """The text of a trace, with `other` data as its metadata."""
    other["unit"] = "1 cycle is shown as 1 us"
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other})


def _meta(kind: str, process: int, thread: int, **args: object) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _tracks(name: str) -> list[TraceEvent]:
    tracks = [_meta("process_name", PROCESS, CORE, name=name)]
    for thread, track in ((CORE, CORE_TRACK), (ENGINE, ENGINE_TRACK)):
        tracks.append(_meta("thread_name", PROCESS, thread, name=track))
        tracks.append(_meta("thread_sort_index", PROCESS, thread, sort_index=thread))
    return tracks


def _events(trace: traces.Trace) -> list[TraceEvent]:
    stalls = {
        (e.buffer, e.slot, e.start_cycle + e.cycles)
        for e in trace.events
        if isinstance(e, traces.Stall)
    }
    found: list[TraceEvent] = []
    for number, event in enumerate(trace.events):
        match event:
            case traces.Flight():
                found += [_served(event), *_flow(event, number, stalls)]
            case traces.Occupancy():
                found += _counters(event)
            case _:
                found.append(_core(event))
    return found


def _slice(
    thread: int, start: int, cycles: int, name: str, category: str, **args: object
) -> TraceEvent:
    found = _unit_slice(PROCESS, thread, start, cycles, name)
    return {**found, "cat": category, "args": args}


def _core(event: traces.CoreEvent) -> TraceEvent:
    start, cycles = event.start_cycle, event.cycles
    match event:
        case traces.Busy(_, _, activity, statement):
            return _slice(CORE, start, cycles, activity, "busy", statement=statement)
        case traces.Stall(_, _, cause, tensor, buffer, slot):
            name = f"wait {cause} {tensor}"
            return _slice(CORE, start, cycles, name, "stall", slot=f"{buffer}[{slot}]")
        case traces.Repeated(_, _, loop, iterations):
            name = f"{loop}: repeated {iterations} times"
            return _slice(CORE, start, cycles, name, "repeated", iterations=iterations)
        case traces.Omitted():
            return _slice(CORE, start, cycles, "not recorded", "omitted")
        case _:
            assert_never(event)


def _served(flight: traces.Flight) -> TraceEvent:
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


def _flow(
    flight: traces.Flight, number: int, stalls: set[tuple[str, int, int]]
) -> list[TraceEvent]:
    """An arrow from the transfer to the stall that it ended, or to what the core did next."""
    if flight.waited_cycle is None:
        return []
    stalled = (flight.buffer, flight.slot, flight.waited_cycle) in stalls
    base: TraceEvent = {"name": "transfer", "cat": "transfer", "id": number, "pid": PROCESS}
    end = flight.waited_cycle - 1 if stalled else flight.waited_cycle
    return [
        {**base, "ph": "s", "tid": ENGINE, "ts": flight.start_cycle},
        {**base, "ph": "f", "bp": "e", "tid": CORE, "ts": end},
    ]


def _counters(occupancy: traces.Occupancy) -> list[TraceEvent]:
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
# One track per unit shows the instructions that occupy it; one track shows stalls with cause and
# register. The viewers know only microseconds: one cycle is shown as one, as the track names say.


def pipeline_perfetto_json(run: CoreRun | MeshRun, name: str) -> str:
    """The traced cores of a run as JSON text in the Trace Event Format.

    Raises SimulationError when no core was traced.
    """
    cores = run.cores if isinstance(run, MeshRun) else (run,)
    traced = [core for core in cores if core.issues]
    if not traced:
        raise SimulationError("the run has no trace", fix="simulate with traced_cores")
    events = [event for core in traced for event in _core_events(core, name)]
    complete, machine = all(core.trace_complete for core in traced), traced[0].program.table.name
    return _document(events, machine=machine, cycles=run.cycles, complete=complete)


def _core_events(run: CoreRun, name: str) -> list[TraceEvent]:
    units, process = list(run.program.table.units), run.core + 1
    events = _unit_tracks(process, f"{name}, core {run.core}", units)
    for issue in run.issues:
        instruction = run.instruction(issue.instruction)
        cycles, unit = instruction.spec.occupancy_cycles, units.index(issue.unit) + 1
        own = _unit_slice(process, unit, issue.cycle, cycles, instruction.text())
        args = {"instruction": issue.instruction, "latency_cycles": instruction.latency_cycles}
        events.append({**own, "args": args})
    for span in run.spans:
        label = f"{span.cause} {span.register}".strip()
        own = _unit_slice(process, len(units) + 1, span.first_cycle, span.cycles, label)
        waiting = run.instruction(span.instruction).text()
        events.append({**own, "args": {"waiting": waiting}})
    return events


def _unit_tracks(process: int, name: str, units: Sequence[str]) -> list[TraceEvent]:
    """The tracks of a core: one for each unit, and one for stalls."""
    tracks = [f"{unit} (cycles)" for unit in (*units, "stalls")]
    return [
        _meta("process_name", process, 0, name=name),
        *(_meta("thread_name", process, thread, name=t) for thread, t in enumerate(tracks, 1)),
    ]


def _unit_slice(process: int, thread: int, start: int, cycles: int, name: str) -> TraceEvent:
    return {"ph": "X", "pid": process, "tid": thread, "ts": start, "dur": cycles, "name": name}


def window_perfetto_json(run: WindowRun, instructions: Sequence[Instruction], name: str) -> str:
    """A window run's operations, one track per unit, and its stalls, as JSON text."""
    units = list(dict.fromkeys(event.unit for event in run.events))
    events = _unit_tracks(PROCESS, name, units)
    for event in run.events:
        place, text = units.index(event.unit) + 1, instructions[event.number].text()
        own = _unit_slice(PROCESS, place, event.start, event.end - event.start, text)
        args = {"instruction": event.number, "issue_cycle": event.issue}
        events.append({**own, "args": args})
    for stall in run.stalled:
        cycles, waiting = stall.stop - stall.start, instructions[stall.number].text()
        own = _unit_slice(PROCESS, len(units) + 1, stall.start, cycles, stall.cause.value)
        events.append({**own, "args": {"waiting": waiting}})
    return _document(events, cycles=run.cycles)
