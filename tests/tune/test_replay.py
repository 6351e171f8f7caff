"""The text of a schedule is read back into the choice that it was printed from."""

from __future__ import annotations

import pytest

from tilewright.common.errors import ScheduleError
from tilewright.machine import load_machine
from tilewright.ops import Op, conv2d, gemm
from tilewright.tune.choose import choose, replay
from tilewright.tune.measure import schedule_text
from tilewright.tune.refills import with_refills

PRODUCT = gemm(256, 192, 128)
CONV = conv2d(batch=16, in_channels=32, out_channels=64, height=12, width=12, kernel=3, padding=1)
SMALL = conv2d(
    batch=1, in_channels=16, out_channels=32, height=14, width=14, kernel=3, padding=1, dtype="f32"
)
FIX = "replay it for the operator and the machine that it was found for"


@pytest.mark.parametrize(
    ("op", "machine"),
    [
        (PRODUCT, "sw26010_cg"),
        (PRODUCT, "sw26010"),
        (CONV, "sw26010_cg"),
        (CONV, "sw26010"),
        (SMALL, "host_avx2"),
        (PRODUCT, "host_avx2"),
    ],
)
def test_every_option_of_a_search_is_found_by_its_text(op: Op, machine: str) -> None:
    target = load_machine(machine)
    (choice,) = choose([op], target, keep=2)
    for option in choice.options:
        text = schedule_text(option.candidate)
        again = replay(op, target, text, option.partition.kind).best
        assert schedule_text(again.candidate) == text
        assert again.partition == option.partition
        assert again.candidate.cycles == with_refills(option.candidate, target).cycles
        assert again.candidate.program(target) == option.candidate.program(target)


def found(op: Op = PRODUCT, machine: str = "sw26010_cg") -> str:
    (choice,) = choose([op], load_machine(machine))
    return schedule_text(choice.best.candidate)


def refusal(text: str, op: Op = PRODUCT, machine: str = "sw26010_cg") -> str:
    with pytest.raises(ScheduleError) as caught:
        replay(op, load_machine(machine), text)
    return str(caught.value)


def test_spaces_and_empty_lines_mean_nothing() -> None:
    text = found()
    spaced = "\n" + text.replace("\n", " \n\n")
    replayed = replay(PRODUCT, load_machine("sw26010_cg"), spaced)
    assert schedule_text(replayed.best.candidate) == text


def test_what_is_no_schedule_is_refused() -> None:
    as_printed = "give the text as schedule.txt of a compiled kernel has it"
    assert refusal("split(m, m_tile)\n") == (
        f"a schedule begins with its algorithm, found 'split(m, m_tile)'; {as_printed}"
    )
    assert refusal("algorithm gemm\nhello\n") == (
        f"'hello' stands before the first nest; {as_printed}"
    )
    assert refusal("algorithm gemm\n") == (
        f"algorithm 'gemm' has the nests gemm, found none; {as_printed}"
    )
    assert refusal("algorithm gemm\nnest gemm\nhello\n") == (
        "nest gemm, line 2: 'hello' is not a step"
    )
    assert refusal("algorithm guess\n").startswith("gemm has no algorithm 'guess'; choose one of ")


def test_a_schedule_of_something_else_is_refused() -> None:
    assert refusal(found(), gemm(8, 8, 8)) == (
        "this schedule of nest 'gemm' is not in the space of gemm m8 n8 k8 on sw26010_cg, "
        f"or does not fit; {FIX}"
    )
    lines = found().splitlines()
    blocked = "\n".join([lines[0], "blocks(blocks=3)", *lines[1:]])
    assert refusal(blocked) == (
        "blocks of these sizes, blocks=3, is not in the space of gemm m256 n192 k128 on "
        f"sw26010_cg, or does not fit; {FIX}"
    )
