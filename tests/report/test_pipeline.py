"""The views of a core's pipeline: report values, texts and trace events."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tilewright.common.errors import SimulationError
from tilewright.isa import Instruction, Memory, Operand, Register, SymbolReference, load_table
from tilewright.isa import make_instruction as make
from tilewright.isa.modulo import ModuloSchedule, modulo_schedule
from tilewright.isa.operations import operations_of
from tilewright.machine import load_machine
from tilewright.report.perfetto import pipeline_perfetto_json, window_perfetto_json
from tilewright.report.pipeline import (
    _BAR,
    _Loop,
    _timeline,
    hottest_loop,
    longest_loop,
    minimum_text,
    pipeline_report,
    pipeline_text,
    pressure_text,
    stall_text,
    timeline_text,
    window_report,
    window_text,
)
from tilewright.simulate.instruction_level import simulate_core, simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import encode_program
from tilewright.simulate.runs import CoreRun

CPE = load_table("sw26010_cpe")
ZERO = Register(31)


def _r(number: int) -> Register:
    return Register(number)


def _i(mnemonic: str, *operands: Operand, label: str = "") -> Instruction:
    return make(CPE, mnemonic, operands, labels=(label,) if label else ())


def _straight() -> CoreRun:
    """A load, a multiply-add that waits for it, and a store that waits for both."""
    return simulate_core(
        encode_program(
            [
                _i("vldd", _r(1), Memory(0, ZERO)),
                _i("vmad", _r(1), _r(1), _r(1), _r(2)),
                _i("vstd", _r(2), Memory(32, ZERO)),
            ],
            CPE,
        )
    )


def _nest(outer: int, inner: int) -> CoreRun:
    """Two loops; the inner one takes 7 cycles per iteration because of its sum."""
    return simulate_core(
        encode_program(
            [
                _i("ldi", _r(2), Memory(outer, ZERO)),
                _i("ldi", _r(1), Memory(inner, ZERO), label="outer"),
                _i("vaddd", _r(3), _r(4), _r(3), label="inner"),
                _i("subl", _r(1), 1, _r(1)),
                _i("bne", _r(1), SymbolReference("inner")),
                _i("subl", _r(2), 1, _r(2)),
                _i("bne", _r(2), SymbolReference("outer")),
            ],
            CPE,
        )
    )


def test_the_timeline_shows_waiting_and_execution() -> None:
    assert timeline_text(_straight()).splitlines() == [
        "cycle           0         10",
        "                012345678901",
        "[  0]    P1     eeeE          vldd $1, 0($31)",
        "[  1]    P0      ===eeeeeeE   vmad $1, $1, $1, $2",
        "[  2]    P1          ======E  vstd $2, 32($31)",
    ]


def test_a_part_of_the_timeline_keeps_its_cycle_numbers() -> None:
    assert timeline_text(_straight(), first_cycle=9, cycles=3).splitlines() == [
        "cycle            10",
        "                901",
        "[  2]    P1     ==E  vstd $2, 32($31)",
    ]


@pytest.mark.parametrize(("cycles", "shown"), [(3, "eee"), (4, "eeeE"), (5, "eeeE ")])
def test_what_ends_behind_a_part_of_the_timeline_is_cut(cycles: int, shown: str) -> None:
    row = timeline_text(_straight(), cycles=cycles).splitlines()[2]
    assert row == f"[  0]    P1     {shown}  vldd $1, 0($31)"


def test_the_stall_table_sums_to_the_total() -> None:
    assert stall_text(_straight()).splitlines() == [
        "cause                    cycles       %",
        "issuing                       3    25.0",
        "data_hazard                   9    75.0",
        "total                        12   100.0",
        "waited for registers (cycles): $2 6, $1 3",
        "        6 cycles before [2] vstd $2, 32($31)",
        "        3 cycles before [1] vmad $1, $1, $1, $2",
    ]


def test_pressure_per_unit() -> None:
    assert pressure_text(_straight()).splitlines() == [
        "resource pressure",
        "              P0      P1",
        "busy %       8.3    16.7",
        "[  0]          -    1.00  vldd $1, 0($31)",
        "[  1]       1.00       -  vmad $1, $1, $1, $2",
        "[  2]          -    1.00  vstd $2, 32($31)",
    ]


def test_the_steady_state_of_the_innermost_loop() -> None:
    run = _nest(outer=3, inner=5)
    loop = hottest_loop(run)
    assert loop is not None
    assert (loop.first, loop.last, loop.iterations) == (2, 4, 15)
    assert loop.iteration_cycles == (7, 7, 7, 7)
    report = pipeline_report(run, proven_minimum=7)
    assert json.loads(report.json()) == {
        "machine": "sw26010_cpe",
        "instructions": 3,
        "iterations": 15,
        "cycles_per_iteration": 7.0,
        "total_cycles": run.cycles,
        "stalls": run.stalls,
        "units": {unit: busy / run.cycles for unit, busy in run.unit_busy.items()},
        "proven_minimum": 7,
    }


def test_a_loop_repeats_from_its_second_iteration_on() -> None:
    loop = hottest_loop(_nest(outer=1, inner=2))
    assert loop is not None
    assert (loop.iterations, loop.iteration_cycles) == (2, (7,))
    assert hottest_loop(_nest(outer=1, inner=1)) is None


def test_the_longest_loop_has_no_other_in_it() -> None:
    program = [
        _i("vaddd", _r(3), _r(4), _r(3), label="outer"),
        _i("vaddd", _r(3), _r(4), _r(3), label="inner"),
        _i("bne", _r(1), SymbolReference("inner")),
        _i("subl", _r(2), 1, _r(2)),
        _i("bne", _r(2), SymbolReference("outer")),
        _i("subl", _r(1), 1, _r(1), label="last"),
        _i("subl", _r(2), 1, _r(2)),
        _i("bne", _r(1), SymbolReference("last")),
    ]
    assert longest_loop(encode_program(program[:5], CPE)) == (1, 2)
    assert longest_loop(encode_program(program, CPE)) == (5, 7)
    assert longest_loop(encode_program(program[3:4], CPE)) is None
    again = _i("bne", _r(2), SymbolReference("last"))
    assert longest_loop(encode_program([*program[5:], program[6], again], CPE)) == (0, 2)


def test_a_program_without_a_loop_is_one_iteration() -> None:
    report = pipeline_report(_straight())
    assert (report.instructions, report.iterations, report.cycles_per_iteration) == (3, 1, 12.0)


def _best(*body: Instruction) -> ModuloSchedule:
    return modulo_schedule(operations_of(body), CPE.issue)


def test_the_minimum_comes_with_its_schedule_and_the_reason() -> None:
    sums = [_i("vaddd", _r(1), _r(n), _r(n)) for n in range(2, 11)]
    head, columns, *slots, question, reason = minimum_text(_best(*sums)).splitlines()
    assert (head, columns) == (
        "shortest schedule found: 9 cycles per iteration",
        "slot  iteration",
    )
    assert [line[:4] for line in slots] == [f"{slot:>4}" for slot in range(9)]
    assert question == "why not 8 cycles, with these register names:"
    assert reason == "  the instructions that only P0 can take keep it busy for 9 cycles"
    (*_, reason) = minimum_text(_best(sums[0])).splitlines()
    assert reason == "  a value needs 7 cycles from one iteration to the next"


def test_the_whole_text_has_its_five_parts() -> None:
    best = _best(
        _i("vaddd", _r(3), _r(4), _r(3), label="inner"),
        _i("subl", _r(1), 1, _r(1)),
        _i("bne", _r(1), SymbolReference("inner")),
    )
    parts = pipeline_text(_nest(2, 4), best, timeline_cycles=12).split("\n\n")
    assert [part.splitlines()[0] for part in parts] == [
        "machine               sw26010_cpe",
        "cycle           10        20",
        "cause                    cycles       %",
        "resource pressure",
        "shortest schedule found: 7 cycles per iteration",
    ]
    assert parts[0].splitlines()[1:] == [
        "instructions          3 per iteration",
        "iterations            8",
        "cycles per iteration  7",
        f"total cycles          {_nest(2, 4).cycles}",
        "proven minimum        7 cycles per iteration with these register names",
    ]


def test_trace_events_cover_every_issue_and_every_stall() -> None:
    run = _straight()
    document = json.loads(pipeline_perfetto_json(run, "kernel"))
    events = document["traceEvents"]
    names = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert names == ["kernel, core 0", "P0 (cycles)", "P1 (cycles)", "stalls (cycles)"]
    slices = [(e["tid"], e["ts"], e["dur"], e["name"]) for e in events if e["ph"] == "X"]
    assert slices == [
        (2, 0, 1, "vldd $1, 0($31)"),
        (1, 4, 1, "vmad $1, $1, $1, $2"),
        (2, 11, 1, "vstd $2, 32($31)"),
        (3, 1, 3, "data_hazard $1"),
        (3, 5, 6, "data_hazard $2"),
    ]
    assert document["otherData"]["cycles"] == run.cycles


def test_an_untraced_run_has_no_trace_events() -> None:
    run = simulate_mesh(encode_program([_i("nop")], CPE), SimulatedMesh(1, 2))
    with pytest.raises(SimulationError) as error:
        pipeline_perfetto_json(run, "kernel")
    assert str(error.value) == "the run has no trace; simulate with traced_cores"


def test_operations_of_a_window_take_from_their_start_to_their_end() -> None:
    cause = SimpleNamespace(value="a full window")
    run = SimpleNamespace(
        events=[
            SimpleNamespace(number=1, issue=2, start=5, end=12, unit="MATRIX"),
            SimpleNamespace(number=0, issue=3, start=6, end=7, unit="VECTOR"),
            SimpleNamespace(number=0, issue=4, start=12, end=14, unit="MATRIX"),
        ],
        stalled=[SimpleNamespace(number=1, start=4, stop=10, cause=cause)],
        cycles=14,
    )
    texts = [SimpleNamespace(text=lambda: "one"), SimpleNamespace(text=lambda: "other")]
    document = json.loads(window_perfetto_json(run, texts, "kernel"))  # type: ignore[arg-type]
    events = document["traceEvents"]
    names = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert names == ["kernel", "MATRIX (cycles)", "VECTOR (cycles)", "stalls (cycles)"]
    slices = [(e["tid"], e["ts"], e["dur"], e["name"], e["args"]) for e in events if e["ph"] == "X"]
    assert slices == [
        (1, 5, 7, "other", {"instruction": 1, "issue_cycle": 2}),
        (2, 6, 1, "one", {"instruction": 0, "issue_cycle": 3}),
        (1, 12, 2, "one", {"instruction": 0, "issue_cycle": 4}),
        (3, 4, 6, "a full window", {"waiting": "other"}),
    ]
    assert document["otherData"]["cycles"] == 14


def test_a_run_of_a_window_is_summed_up_by_cause_and_unit() -> None:
    machine = load_machine("dla-al", {"clock_hz": "2e9"})
    idle = {"MATRIX": {"a full window": 4, "nothing left": 1}, "VECTOR": {"nothing left": 13}}
    event = SimpleNamespace(number=0, issue=0, start=0, end=14, unit="VECTOR")
    run = SimpleNamespace(
        events=[event, SimpleNamespace(number=0, issue=1, start=1, end=2, unit="MATRIX"), event],
        instructions=5, cycles=14, issue_cycles=8, stalls={"a full window": 6},
        unit_busy={"MATRIX": 9, "VECTOR": 1, "SCALAR": 3}, idle=idle.get,
    )  # fmt: skip
    report = window_report(run, machine, 4)  # type: ignore[arg-type]
    assert (report.machine, report.instructions, report.executed) == ("dla-al", 4, 5)
    assert report.milliseconds == pytest.approx(7e-6)
    assert window_text(run, report, [], 0) == (  # type: ignore[arg-type]
        "5 instructions on dla-al: 14 cycles simulated, 0.007 us\n"
        "  issuing                    8  57.1 %\n"
        "  a full window              6  42.9 %\n"
        "VECTOR    busy            1   7.1 %; idle: nothing left 13\n"
        "MATRIX    busy            9  64.3 %; idle: a full window 4, nothing left 1\n"
    )


def test_an_operation_of_a_window_waits_as_dots_and_runs_as_the_letter_of_its_unit() -> None:
    """Of as many cycles as the bar has places; an operation takes one place at least."""
    events = [
        SimpleNamespace(number=0, issue=10, start=10, end=12, unit="MATRIX"),
        SimpleNamespace(number=1, issue=11, start=14, end=14, unit="VECTOR"),
        SimpleNamespace(number=0, issue=12, start=16, end=10 + _BAR, unit="MATRIX"),
    ]
    texts = [SimpleNamespace(text=lambda: "one"), SimpleNamespace(text=lambda: "other")]
    rows = _timeline(SimpleNamespace(events=events), texts, 3)  # type: ignore[arg-type]
    assert rows == [
        f"   issue    start      end         cycles 10 to {10 + _BAR}",
        "      10       10       12  one    MM",
        "      11       14       14  other   ...V",
        f"      12       16       {10 + _BAR}  one      ....{'M' * (_BAR - 6)}",
    ]
    (*_, more) = _timeline(SimpleNamespace(events=events), texts, 2)  # type: ignore[arg-type]
    assert more == "1 more operations"


@pytest.mark.parametrize(
    ("cycles", "steady"), [((9, 3, 5, 3, 5), 4), ((9, 2, 2), 2), ((7,), 7), ((1, 2, 6), 3)]
)
def test_the_cycles_of_an_iteration_are_those_of_what_the_last_ones_repeat(cycles, steady):
    assert _Loop(0, 1, len(cycles) + 1, cycles).steady_cycles == steady
