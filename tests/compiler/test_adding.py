"""Sums divided over the core groups: partial results, and what adds them up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from support.compiled import kernel_of
from tilewright.cli.main import app
from tilewright.common.errors import CheckFailed, ScheduleError
from tilewright.compiler.artifact import read_kernel
from tilewright.compiler.checking import random_operands
from tilewright.compiler.kernel import Kernel
from tilewright.machine import load_machine
from tilewright.ops import Conv2d, conv2d
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.choose import choose, replay
from tilewright.tune.measure import schedule_text
from tilewright.tune.ways import divided_sums

MACHINE = load_machine("sw26010")
OP = conv2d(batch=1, in_channels=512, out_channels=64, height=7, width=7, kernel=3, padding=1)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return kernel_of(OP, MACHINE, algorithm="explicit")


def outcome(kernel: Kernel, op: Conv2d) -> np.ndarray:
    operands = random_operands(op, "integers", 3)
    names = kernel.option.candidate.seed.operands
    (found,) = kernel.simulate(**dict(zip(names, operands, strict=True))).outputs.values()
    np.testing.assert_array_equal(found, op.reference(*operands))
    return found


def test_programs_of_all_groups_mean_the_operator(kernel: Kernel) -> None:
    outcome(kernel, OP)
    assert kernel.option.adding is not None
    assert kernel.option.adding.op.describe() == "map 784: x0 + x1 + x2 + x3"  # 64 x 7 x 7 / 4


def test_shares_of_a_result_that_they_do_not_divide() -> None:
    op = replace(OP, in_channels=16, out_channels=9, height=5, width=7)
    odd = kernel_of(op, MACHINE, algorithm="explicit", partition="terms")
    outcome(odd, op)
    assert odd.option.adding.op.out_shape == (80,)  # 315 elements, 4 shares of whole 128 bytes
    assert odd.check_groups() == "exact"


def test_the_driver_adds_up_on_emulated_cores(kernel: Kernel) -> None:
    assert kernel.check() == kernel.check_groups() == "exact"


def test_a_wrong_share_is_caught(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = kernel.driven
    text = driven.files["explicit_groups.c"].replace("partial[2] + first", "partial[1] + first")
    wrong = replace(driven, files={**driven.files, "explicit_groups.c": text})
    monkeypatch.setitem(vars(kernel), "driven", wrong)
    with pytest.raises(CheckFailed):
        kernel.check_groups()


def test_the_time_is_that_of_both_steps(kernel: Kernel) -> None:
    parts = [simulate(program, MACHINE).cycles for program in kernel.programs]
    assert len(parts) == 2
    assert kernel.cycles == sum(parts)
    assert kernel.estimate_cycles == round(
        kernel.option.candidate.cycles + kernel.option.adding_cycles
    )
    causes = kernel.account.causes
    assert sum(cause.cycles for cause in causes) == kernel.cycles
    assert sum(c.cycles for c in causes if c.subject.startswith("sums")) == parts[1]


def test_explain_says_what_is_added_up(kernel: Kernel) -> None:
    assert (
        "each group has a part of every sum; behind a barrier each adds up 784 elements of all 4\n"
        "parts: 9469 of the cycles by the model, `sums` below\n"
    ) in kernel.explain()


def test_a_folder_holds_both_programs(kernel: Kernel, tmp_path: Path) -> None:
    written = kernel.write(tmp_path / "out")
    stored, programs = read_kernel(written)
    assert programs == kernel.programs
    assert stored.explanation.adding.elements == 784
    assert {"explicit_sums_slave.c", "sums.ir"} <= {path.name for path in written.iterdir()}
    checked = CliRunner().invoke(app, ["check", str(written), "--json"])
    findings = json.loads(checked.stdout)["findings"]
    found = {(finding["subject"], finding["rule"], finding["status"]) for finding in findings}
    assert (str(written / "sums.ir"), "stage rules and scratchpad capacity", "ok") in found
    assert {status for _, _, status in found} == {"ok"}
    kernel.write(written)


def test_a_schedule_is_replayed_with_its_sums(kernel: Kernel) -> None:
    again = replay(OP, MACHINE, schedule_text(kernel.option.candidate), "terms")
    assert again.best.cycles == kernel.option.cycles


def test_divided_sums_win_where_they_are_faster(kernel: Kernel) -> None:
    others = [o.cycles for o in kernel.choice.options if not o.partition.partial]
    assert kernel.option.partition.kind == "terms"
    assert kernel.option.cycles < min(others)
    assert kernel.choice.best_of_whole_sums.cycles == min(others)


def test_an_algorithm_that_needs_few_channels_may_apply_to_divided_sums_alone() -> None:
    op = conv2d(batch=1, in_channels=128, out_channels=64, height=14, width=14, kernel=3)
    (choice,) = choose([op], MACHINE, algorithm="explicit_fused")
    assert choice.best.partition.partial
    with pytest.raises(ScheduleError) as error:
        _ = choice.best_of_whole_sums
    assert str(error.value) == f"explicit_fused does not apply to {op.describe()} with whole sums"


def test_several_images_are_divided_without_partial_results() -> None:
    assert divided_sums(OP, MACHINE)
    assert divided_sums(replace(OP, batch=2), MACHINE) == []
    assert divided_sums(OP, load_machine("sw26010_cg")) == []
