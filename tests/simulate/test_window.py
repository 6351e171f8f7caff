"""The window executor and the compiled pipeline: one register program, equal cycles and causes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.asm import assemble, link
from tilewright.common.errors import SimulationError
from tilewright.common.limits import MOST_WINDOW_CYCLES
from tilewright.isa import load_table
from tilewright.isa.effects import Effect
from tilewright.isa.table import IssueRules
from tilewright.machine.parts import Issue
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.window import loop
from tilewright.simulate.window.decode import (
    _BRANCHES,
    _OPERATIONS,
    _SCALARS,
    SCALARS,
    decode_steps,
)
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.launch import _registers
from tilewright.simulate.window.memories import Memories

CPE = load_table("sw26010_cpe")
REGISTERS = [f"${n}" for n in range(1, 9)]
VECTORS = frozenset(
    CPE.by_mnemonic[name].effect for name in ("vmad", "vmsd", "vaddd", "vdivd", "vmuld")
)


def simulate_registers(instructions, table, registers, timed=(), most=MOST_WINDOW_CYCLES):
    """A program that computes on integer registers alone, without a machine and its memories;
    `timed` effects take their cycles and leave registers as they are.
    """
    return Executor(
        steps=decode_steps(instructions, {}, {}, frozenset(timed)),
        rules=table.issue,
        window=Issue("window"),
        registers=_registers(table, registers),
        zero_registers=table.zero_registers,
        memories=Memories({}),
        with_values=False,
        max_cycles=most,
    ).run()


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A loop of integer and vector instructions; vectors are only timed."""

    def register() -> str:
        return draw(st.sampled_from(REGISTERS))

    lines = []
    for _ in range(draw(st.integers(1, 14))):
        match draw(st.integers(0, 4)):
            case 0:
                op = draw(st.sampled_from(["addl", "subl", "mull", "and", "cmpeq", "s4addl"]))
                lines.append(f"{op} {register()}, {draw(st.integers(0, 9))}, {register()}")
            case 1:
                op = draw(st.sampled_from(["addw", "subw", "mulw", "xor", "cmplt", "or"]))
                lines.append(f"{op} {register()}, {register()}, {register()}")
            case 2:
                lines.append(f"ldi {register()}, {draw(st.integers(-9, 9))}({register()})")
            case 3:
                op = draw(st.sampled_from(["vmad", "vmsd"]))
                vectors = [f"${draw(st.integers(12, 17))}" for _ in range(4)]
                lines.append(f"{op} {', '.join(vectors)}")
            case _:
                op = draw(st.sampled_from(["vaddd", "vdivd", "vmuld"]))
                vectors = [f"${draw(st.integers(12, 17))}" for _ in range(3)]
                lines.append(f"{op} {', '.join(vectors)}")
    if draw(st.booleans()):
        place = draw(st.integers(0, len(lines)))
        lines.insert(place, f"beq {register()}, skip")
        lines.append("skip:")
    return "\n".join([f"ldi $10, {draw(st.integers(1, 5))}($31)", "loop:", *lines,
                      "subl $10, 1, $10", "bne $10, loop", "addl $10, 1, $11"])  # fmt: skip


RULES = st.builds(
    IssueRules,
    width=st.integers(1, 3),
    write_after_read=st.sampled_from(["same_cycle", "next_cycle"]),
    write_after_write=st.sampled_from(["finished", "ordered"]),
    branch_ends_group=st.booleans(),
    taken_branch_penalty_cycles=st.integers(0, 3),
)
"""Every rule of issue that a table may have."""


@given(programs(), RULES, st.lists(st.integers(-3, 3), min_size=8, max_size=8))
@examples(150)
def test_both_executors_count_the_same(text: str, rules: IssueRules, values: list[int]) -> None:
    table = msgspec.structs.replace(CPE, issue=rules)
    image = link([assemble(text, table)], table)
    registers = dict(zip(REGISTERS, values, strict=True))
    compiled = simulate_core(load_image(image, table).program, registers=registers)
    instructions = [placed.instruction for placed in image.instructions]
    window = simulate_registers(instructions, table, registers, timed=VECTORS)
    assert (window.cycles, window.stalls) == (compiled.cycles, compiled.stalls)
    assert window.issue_cycles == compiled.issue_cycles
    assert window.instructions == compiled.instructions
    assert window.unit_busy == {u: c for u, c in compiled.unit_busy.items() if c}
    assert list(window.registers[:12]) == compiled.integer_registers[:12, 0].tolist()


def test_a_loop_that_never_ends_is_given_up() -> None:
    image = link([assemble("top: addl $1, $1, $1\n  br top", CPE)], CPE)
    instructions = [placed.instruction for placed in image.instructions]
    with pytest.raises(SimulationError) as error:
        simulate_registers(instructions, CPE, {}, most=100)
    assert str(error.value) == (
        "the core still runs after 100 cycles; raise max_cycles (--max-cycles), or look for a loop "
        "that never ends"
    )


def test_an_effect_that_the_window_does_not_compute_is_refused() -> None:
    """Never passed over: the register would keep what it held."""
    image = link([assemble("sll $1, 3, $2\nhalt", CPE)], CPE)
    instructions = [placed.instruction for placed in image.instructions]
    with pytest.raises(SimulationError) as error:
        simulate_registers(instructions, CPE, {"$1": 1})
    assert str(error.value) == "sll $1, 3, $2: cores with a window have no int_shift_left"


def test_the_compiled_loop_takes_branches_as_their_effects_say() -> None:
    holds = {
        Effect.BRANCH_ALWAYS: lambda a: True,
        Effect.BRANCH_EQUAL: lambda a: a == 0,
        Effect.BRANCH_NOT_EQUAL: lambda a: a != 0,
        Effect.BRANCH_LESS: lambda a: a < 0,
        Effect.BRANCH_LESS_EQUAL: lambda a: a <= 0,
        Effect.BRANCH_GREATER: lambda a: a > 0,
        Effect.BRANCH_GREATER_EQUAL: lambda a: a >= 0,
    }
    assert {*_BRANCHES} == {*holds}
    for code, effect in enumerate(_BRANCHES):
        taken = [bool(loop._branch_is_taken.py_func(code, a)) for a in (-1, 0, 1)]
        assert taken == [holds[effect](a) for a in (-1, 0, 1)]


NUMBERS = [0, 1, -1, 2, -3, 7, (1 << 31) - 1, -(1 << 31)]


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
def test_the_compiled_loop_computes_scalars_as_their_effects_say(
    a: int, b: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_word", loop._word.py_func)
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    operations = {"move": a, "quotient": quotient, "scalar_not": int(a == 0)}
    expected = [SCALARS[effect]({"a": a, "b": b}) for effect in _SCALARS]
    expected += [operations[name] for name in _OPERATIONS]
    assert [loop._computed.py_func(code, a, b) for code in range(len(expected))] == expected
