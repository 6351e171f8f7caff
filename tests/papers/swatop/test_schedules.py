"""The best schedule of a task: what is measured, with and without fetching ahead."""

from dataclasses import replace

import pytest

from tilewright.common.errors import MachineError
from tilewright.common.expr import Const
from tilewright.machine import load_machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.ops import conv2d
from tilewright.papers.lab import Lab
from tilewright.papers.swatop.schedules import (
    MACHINE,
    Setting,
    TuningTask,
    best_schedules,
    fetching_late,
    setting,
)
from tilewright.tune.choose import choose

OP = conv2d(batch=8, in_channels=32, out_channels=32, height=16, width=16, kernel=3, padding=1)


def test_the_causes_sum_to_the_cycles_and_give_the_efficiency():
    (outcome,) = best_schedules([TuningTask(OP, "implicit")])
    machine = load_machine(MACHINE)
    assert sum(outcome.causes.values()) == outcome.cycles
    seconds = outcome.cycles / machine.clock_hz
    assert outcome.efficiency == pytest.approx(OP.flops / seconds / machine.peak_flops)
    waited = sum(cycles for kind, cycles in outcome.causes.items() if kind.startswith("wait"))
    assert sum(outcome.waits.values()) == waited


def test_fetching_late_takes_one_copy_of_each_buffer_and_leaves_the_tiles():
    machine = load_machine(MACHINE)
    (choice,) = choose([OP], machine, algorithm="implicit", keep=1)
    ahead = choice.best.candidate
    late = fetching_late(ahead)
    assert {b.copies for b in late.program(machine).buffers} == {Const(1)}
    for (name, before), (_, after) in zip(
        sorted(ahead.nests[0].factors.items()), sorted(late.nests[0].factors.items()), strict=True
    ):
        assert after == (1 if name.endswith("_copies") else before)


def test_fetching_late_is_slower_and_better_where_it_is_tuned_for():
    tasks = [TuningTask(OP, "implicit", fetching=f) for f in ("ahead", "late, tuned", "late")]
    ahead, tuned, same = best_schedules(tasks)
    assert ahead.cycles < tuned.cycles <= same.cycles


def test_tasks_together_have_the_outcomes_that_they_have_alone():
    """One of them has none: its main memory is too small."""
    small = Setting("sw26010", (("memory.main.capacity_bytes", "3000000"),))
    large = replace(OP, height=64, width=64)
    tasks = [TuningTask(op, a, small) for op in (OP, large) for a in ("implicit", "winograd2")]
    together = best_schedules([*tasks, TuningTask(OP, "implicit")])
    assert together[:4] == [best_schedules([task])[0] for task in tasks]
    assert [bool(found.refusal) for found in together] == [False, False, True, True, False]


@pytest.mark.parametrize("fetching", ["ahead", "late", "late, tuned"])
def test_what_exceeds_main_memory_is_refused(fetching):
    small = Setting("sw26010", (("memory.main.capacity_bytes", "100000"),))
    (outcome,) = best_schedules([TuningTask(OP, "implicit", small, fetching)])
    assert (outcome.cycles, outcome.efficiency) == (0, 0.0)
    assert outcome.refusal


def test_options_name_a_machine_and_override_its_numbers():
    options = {"machine": "sw26010_cg", "primitives.gemm.switch_cycles": "9"}
    found = setting(Lab(options=options))
    assert found.described() == "sw26010_cg, primitives.gemm.switch_cycles = 9"
    assert found.load().section(GemmPrimitive).switch_cycles == 9
    assert setting(Lab()) == Setting(MACHINE)
    with pytest.raises(MachineError):
        setting(Lab(options={"nothing": "1"})).load()
