"""The Perfetto view: valid trace events, tracks that state their unit, arrows that hit slices."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from tilewright.common.errors import SimulationError
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.report.perfetto import perfetto_json
from tilewright.simulate.kernel.level import KernelRun, simulate

MACHINE = load_machine("sw26010_cg")

Cycle = Annotated[int, Meta(ge=0)]


class _Strict(Struct, forbid_unknown_fields=True, tag_field="ph"):
    pid: int


class TrackName(_Strict, tag="M"):
    name: Literal["process_name", "thread_name", "thread_sort_index"]
    tid: int
    args: dict[str, str | int]


class Slice(_Strict, tag="X"):
    name: str
    cat: Literal["busy", "stall", "repeated", "omitted", "transfer"]
    tid: int
    ts: Cycle
    dur: Annotated[int, Meta(gt=0)]
    args: dict[str, str | int | None]


class FlowStart(_Strict, tag="s"):
    name: str
    cat: str
    id: int
    tid: int
    ts: Cycle


class FlowEnd(_Strict, tag="f"):
    name: str
    cat: str
    id: int
    tid: int
    ts: Cycle
    bp: Literal["e"]


class Counter(_Strict, tag="C"):
    name: str
    ts: Cycle
    args: dict[str, Cycle]


class Document(Struct, forbid_unknown_fields=True):
    """The part of the Trace Event Format that the view uses."""

    traceEvents: list[TrackName | Slice | FlowStart | FlowEnd | Counter]  # noqa: N815  # the format's
    displayTimeUnit: Literal["ms", "ns"]  # noqa: N815  # the format's name
    otherData: dict[str, str | int]  # noqa: N815  # the format's name


def _run(iterations: int = 40, trace_limit: int = 1000) -> KernelRun:
    program = parse(f"""
        def stream():
            x: tensor("f64", "input", i=64, e=512)
            t: buffer("f64", 8, copies=2)
            u: buffer("f64", 8)
            get(x[0, at(0, 8)], t[0])
            for i in range({iterations}):
                wait(t[i % 2])
                if i + 1 < {iterations}:
                    get(x[i + 1, at(0, 8)], t[(i + 1) % 2])
                copy(u[0](shape=(8,), roles="e"), t[i % 2](shape=(8,), roles="e"))
    """)
    return simulate(program, MACHINE, trace_limit=trace_limit)


def _document(run: KernelRun) -> Document:
    return msgspec.json.decode(perfetto_json(run, MACHINE, "stream"), type=Document)


def _slices(document: Document, thread: int) -> list[Slice]:
    return [e for e in document.traceEvents if isinstance(e, Slice) and e.tid == thread]


def test_tracks_state_their_unit() -> None:
    document = _document(_run())
    names = {
        (e.name, e.tid): e.args.get("name")
        for e in document.traceEvents
        if isinstance(e, TrackName)
    }
    assert names["process_name", 1] == "stream"
    assert names["thread_name", 1] == "core (cycles)"
    assert names["thread_name", 2] == "DMA engine (cycles)"
    assert document.otherData["unit"] == "1 cycle is shown as 1 us"


def test_the_core_track_is_the_whole_run_and_skipped_iterations_are_one_slice() -> None:
    run = _run()
    core = _slices(_document(run), 1)
    assert core[0].ts == 0
    assert all(a.ts + a.dur == b.ts for a, b in pairwise(core))
    assert core[-1].ts + core[-1].dur == run.cycles
    repeated = [e.args["iterations"] for e in core if e.cat == "repeated"]
    copies = [e for e in core if e.name == "copy"]
    assert len(repeated) == 1
    assert len(copies) < 10
    assert len(copies) + int(str(repeated[0])) == 40


def test_first_events_by_hand() -> None:
    """64 cores x 64 bytes: half of a transaction each, 1.89 transactions of 128 bytes to serve."""
    service = -(-64 * 1.89 * 128 / 33.1e9 * 1.45e9 // 1)
    core = [(e.name, e.ts, e.dur) for e in _slices(_document(_run()), 1)[:4]]
    assert core == [
        ("dma issue", 0, 30),
        ("wait latency x", 30, 1595),
        ("wait bandwidth x", 1625, service),
        ("dma issue", 1625 + service, 30),
    ]


def test_each_arrow_leads_from_its_transfer_into_a_slice_of_the_core() -> None:
    document = _document(_run())
    starts = {e.id: e for e in document.traceEvents if isinstance(e, FlowStart)}
    ends = {e.id: e for e in document.traceEvents if isinstance(e, FlowEnd)}
    assert len(starts) > 2
    assert starts.keys() == ends.keys()
    served = {e.ts for e in _slices(document, 2)}
    assert {e.ts for e in starts.values()} <= served
    core = _slices(document, 1)
    for number, end in ends.items():
        assert any(e.ts <= end.ts < e.ts + e.dur for e in core)
        assert end.ts >= starts[number].ts


def test_counters_start_empty_and_return_to_no_transfers() -> None:
    document = _document(_run())
    counters = [e for e in document.traceEvents if isinstance(e, Counter)]
    scratchpad = [e.args["bytes"] for e in counters if e.name == "scratchpad use (bytes)"]
    outstanding = [e.args["transfers"] for e in counters if e.name == "outstanding transfers"]
    assert (scratchpad[0], max(scratchpad)) == (64, 3 * 64)
    assert (outstanding[0], outstanding[-1]) == (1, 0)


def test_a_full_trace_says_what_it_leaves_out() -> None:
    run = _run(trace_limit=5)
    last = _slices(_document(run), 1)[-1]
    assert (last.name, last.cat) == ("not recorded", "omitted")
    assert last.ts + last.dur == run.cycles


def test_a_run_without_a_trace_is_refused() -> None:
    with pytest.raises(SimulationError) as error:
        perfetto_json(_run(trace_limit=0), MACHINE, "stream")
    assert str(error.value) == "the run has no trace; simulate with trace_limit above 0"
