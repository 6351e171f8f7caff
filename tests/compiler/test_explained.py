"""What an explanation says of copies and of candidates that lost, from made-up stages."""

import math
from types import SimpleNamespace

import pytest
from msgspec import Struct

from tilewright.compiler import compiled, explanation, kernel
from tilewright.compiler.alone import CompiledAlone
from tilewright.compiler.explanation import _why, arranging_copies, lower_bounds, rejected_options
from tilewright.compiler.kernel import Kernel
from tilewright.compiler.settings import Settings
from tilewright.compiler.whole import _largest_deviation
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.report.view import TrafficRow

MACHINE = load_machine("sw26010")


class Changed(Struct, frozen=True):
    """An explanation of which only the changes are looked at."""

    changes: tuple[str, ...] = ()


def stage(estimate: float, simulated: int) -> SimpleNamespace:
    """A stage of so many cycles by the model and by the simulation."""
    program = SimpleNamespace(cycles=simulated)
    return SimpleNamespace(candidate=SimpleNamespace(cycles=estimate, program=lambda _: program))


def test_copies_take_as_long_as_those_of_the_slowest_group(monkeypatch):
    monkeypatch.setattr(explanation, "simulated", lambda own, on: own.program(on))
    groups = ((stage(10.0, 12), stage(20.0, 25)), (stage(40.0, 35),), ())
    cut = SimpleNamespace(name="x", shared=False, moved_bytes=600, stages=groups)
    work = SimpleNamespace(groups=3, operands=(), result=cut)
    (found,) = arranging_copies(work, MACHINE)
    assert (found.estimate_cycles, found.cycles) == (40, 37)


@pytest.mark.parametrize(
    ("own", "measured", "text"),
    [
        ((10, 20), None, "no part is larger by the model; it is equally fast"),
        ((9, 20), 40, "no part is larger by the model; its simulation takes 40 cycles"),
        ((11, 20), None, "computing takes 1 cycles more"),
        ((10, 21), None, "waiting for transfers takes 1 cycles more"),
        ((15, 20), None, "computing takes 5 cycles more"),
        ((10, 27), None, "waiting for transfers takes 7 cycles more"),
        ((15, 22), None, "computing takes 5 cycles more, waiting for transfers 2 more"),
        ((15, 17), None, "computing takes 5 cycles more, waiting for transfers 3 less"),
        ((11, 27), None, "waiting for transfers takes 7 cycles more, computing 1 more"),
        ((5, 27), None, "waiting for transfers takes 7 cycles more, computing 5 less"),
    ],
)
def test_a_candidate_lost_by_the_larger_part(own, measured, text):
    assert _why(own, (10, 20), measured) == text


@pytest.mark.parametrize(("error", "bound"), [(None, None), (1e-9, None), (0.002, 0.02)])
def test_a_network_of_less_exact_layers_may_deviate_ten_times_as_far(error, bound):
    assert _largest_deviation(Settings(max_error=error)) == bound


def test_a_row_of_traffic_counts_all_of_its_transfers(monkeypatch):
    monkeypatch.setattr(explanation, "copy_cycles", lambda *_: 7.5)
    monkeypatch.setattr(explanation, "moved_bytes", lambda *_: 3 * MACHINE.cores)
    group = SimpleNamespace(
        stmt=SimpleNamespace(tensor="x", direction="get"), count=4,
        shape=SimpleNamespace(asked_bytes=8, requests=2),
    )  # fmt: skip
    assert explanation._traffic(group, MACHINE) == TrafficRow("x", "get", 32, 12, 8, 30)


def test_only_a_simulated_kernel_says_what_the_fitted_machine_takes(monkeypatch):
    monkeypatch.setattr(kernel, "simulated_option", lambda *_: SimpleNamespace(cycles=2900))
    fitted = load_machine("sw26010_measured")
    for simulated, expected in ((None, None), ("a run", 2.9e6 / fitted.clock_hz)):
        made = SimpleNamespace(simulated=simulated, machine=MACHINE, option=None)
        assert Kernel.fitted_milliseconds.func(made) == expected


@pytest.mark.parametrize("simulated", [None, "a run"])
@pytest.mark.parametrize("what_if", [False, True])
def test_changes_are_looked_for_on_request_where_a_run_was_simulated(
    simulated, what_if, monkeypatch
):
    monkeypatch.setattr(kernel, "explanation", lambda *_: Changed())
    monkeypatch.setattr(kernel, "changes_that_help", lambda *_: ("a change",))
    part = SimpleNamespace(piece=None)
    made = SimpleNamespace(
        result=None, choice=None, machine=MACHINE, account=None, programs=(), is_driven=False,
        option=SimpleNamespace(partition=part, algorithm="gemm"), simulated=simulated,
    )  # fmt: skip
    found = Kernel.explanation(made, what_if=what_if)
    assert found.changes == (("a change",) if what_if and simulated else ())


def test_threads_share_what_a_group_needs_at_least() -> None:
    op = gemm(1000, 1000, 1000, dtype="f32")
    alone, four = (
        lower_bounds(op, load_machine("host_avx2", {"threads.count": count}), op.flops)
        for count in (1, 4)
    )
    assert [-(-cycles // 4) for cycles in alone] == list(four)


def test_each_operand_is_moved_once_with_the_peak_of_its_direction() -> None:
    compute, transfers = lower_bounds(gemm(100, 200, 50), MACHINE, 1000)
    get, put = (MACHINE.dma.get, MACHINE.dma.put)
    read, written = 8 * (100 * 50 + 50 * 200), 8 * 100 * 200
    seconds = read / get.peak_bytes_per_second + written / put.peak_bytes_per_second
    assert transfers == math.ceil(seconds * MACHINE.clock_hz)
    assert compute == math.ceil(1000 / (MACHINE.cores * MACHINE.core.peak_flops_per_cycle("f64")))


def test_three_candidates_that_lost_are_shown_one_of_each_kind_first(monkeypatch) -> None:
    monkeypatch.setattr(explanation, "schedule_text", lambda candidate: "")

    def option(algorithm: str, cycles: float) -> SimpleNamespace:
        candidate = SimpleNamespace(nests=(SimpleNamespace(compute_cycles=cycles),))
        return SimpleNamespace(
            algorithm=algorithm, partition=SimpleNamespace(kind="rows"), cycles=cycles,
            candidate=candidate, adding=None, measured_cycles=None,
        )  # fmt: skip

    kinds = [("a", 10.0), ("a", 11.0), ("a", 11.0), ("a", 12.0), ("b", 20.0), ("c", 30.0)]
    every = [option(*kind) for kind in kinds]
    found = rejected_options(SimpleNamespace(options=every), every[0])
    assert [(one.algorithm, one.estimate_cycles) for one in found] == [
        ("a", 11), ("b", 20), ("c", 30),
    ]  # fmt: skip
    every[5] = option("b", 21.0)
    found = rejected_options(SimpleNamespace(options=every), every[0])
    assert [one.estimate_cycles for one in found] == [11, 12, 20]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (
            "sw26010",
            [
                "dma.get.peak_bytes_per_second=66200000000 "
                "dma.put.peak_bytes_per_second=74800000000",
                "dma.latency_cycles=797",
                "dma.issue_cycles=15",
                "memory.spm.capacity_bytes=131072",
            ],
        ),
        (
            "dla-al",
            [
                "engines.io.get.bytes_per_cycle=512 engines.io.put.bytes_per_cycle=512 "
                "engines.io.get_matrix.bytes_per_cycle=512",
                "engines.io.latency_cycles=50",
                "memory.vector.capacity_bytes=131072 memory.matrix.capacity_bytes=1572864",
            ],
        ),
    ],
)
def test_changes_are_twice_the_speed_half_the_cycles_and_twice_the_room(
    name, settings, monkeypatch
):
    """Settings are those of the machine that was simulated; with more room the first program is
    chosen anew. No cycles are not halved.
    """
    seen, steps = [], []
    again = SimpleNamespace(program=lambda machine: "chosen anew")
    chosen = SimpleNamespace(best=SimpleNamespace(candidate=again))
    monkeypatch.setattr(explanation, "_cycles", lambda *given: seen.append(given) or len(seen))
    monkeypatch.setattr(explanation, "choose", lambda *_, **__: (chosen,))
    found = explanation.changes_that_help(
        gemm(8, 8, 8),
        "g",
        ["first", "second"],
        load_machine(name),
        lambda *step: steps.append(step),
    )
    assert steps == [("changes", done, len(settings)) for done in range(len(settings) + 1)]
    assert [" ".join(change.settings) for change in found] == settings
    more = len(settings) - 1
    assert [(change.cycles, change.retuned) for change in found] == [
        *((number, False) for number in range(1, more + 1)),
        (more + 1, True),
    ]
    first = ["first"] * more + ["chosen anew"]
    assert [programs for programs, _ in seen] == [[own, "second"] for own in first]
    for (_, machine), change in zip(seen, found, strict=True):
        said = dict(setting.split("=") for setting in change.settings)
        expected = load_machine(name, said)
        assert machine.transfer_engines == expected.transfer_engines
        assert machine.memory == expected.memory
        assert machine.groups.count == (1 if change.retuned else expected.groups.count)


def test_routines_of_a_folder_and_of_a_text_are_not_simulated(monkeypatch) -> None:
    """That takes seconds: only an explanation that is asked for by itself does it."""
    monkeypatch.setattr(kernel, "routines_of", lambda *_, simulated: simulated)
    made = SimpleNamespace(program=None, machine=MACHINE)
    assert Kernel.priced_routines.func(made) is False
    asked = []
    monkeypatch.setattr(compiled, "figures_text", lambda figures, machine: figures)
    monkeypatch.setattr(CompiledAlone, "_explained", lambda _, own, progress: asked.append(own))
    CompiledAlone(None, SimpleNamespace(machine=MACHINE), None, Settings()).explain("stage")
    assert [(own.part, own.routines) for own in asked] == [("stage", False)]


def test_an_account_takes_its_cycles_unless_its_seconds_were_measured() -> None:
    for measured, seconds in ((None, 2.0), (7.0, 7.0)):
        account = SimpleNamespace(cycles=100, measured_seconds=measured)
        assert explanation.Account.seconds(account, 50) == seconds


@pytest.mark.parametrize(
    ("name", "driven"), [("sw26010", True), ("sw26010_cg", False), ("host_portable", False)]
)
def test_a_driver_starts_what_several_core_groups_run(name: str, driven: bool) -> None:
    assert Kernel.is_driven.fget(SimpleNamespace(machine=load_machine(name))) is driven
