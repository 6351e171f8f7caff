"""Pipelined loops on the instruction-level simulator: the same values as the plain loop, in the
predicted cycles.
"""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.errors import ScheduleError
from tilewright.isa import Memory, Register, SymbolReference, load_table, make_instruction
from tilewright.isa.dependence import AliasRules, Dependence, DependenceKind
from tilewright.isa.modulo import Effort, modulo_schedule
from tilewright.isa.operations import operations_of
from tilewright.isa.reorder import in_order_cycles
from tilewright.isa.software_pipeline import PipelinedLoop, TripCount, pipeline_loop
from tilewright.isa.versions import build_version_dependences, schedule_versions
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import encode_program

CPE = load_table("sw26010_cpe")
COUNTER, SCRATCH = 28, 0


def instruction(mnemonic, *operands, labels=()):
    """An instruction; integers are registers, a (displacement, base) pair is memory, '#5' is the
    number 5.
    """

    def operand(value):
        match value:
            case int():
                return Register(value)
            case (displacement, base):
                return Memory(displacement, Register(base))
            case str() if value.startswith("#"):
                return int(value[1:])
            case str():
                return SymbolReference(value)

    return make_instruction(CPE, mnemonic, [operand(o) for o in operands], labels=labels)


def loop(*lines):
    """A loop of the given instructions that counts `COUNTER` down to zero."""
    lines = [*lines, ("subl", COUNTER, "#1", COUNTER), ("bne", COUNTER, "loop")]
    first, *rest = lines
    return [instruction(*first, labels=("loop",)), *(instruction(*line) for line in rest)]


def run(program, registers, memory=b""):
    return simulate_core(encode_program(program, CPE), registers=registers, local_memory=memory)


def figure_6():
    """The plain order of swDNN Fig. 6: loads, 16 vfmadd column by column, pointers, counter,
    compare, branch.
    """
    a, b, c = (1, 2, 3, 4), (7, 8, 9, 10), (*range(11, 19), *range(20, 28))
    lines = [("vldr", a[i], (32 * i, 5)) for i in range(4)] + [("addl", 5, 29, 5)]
    lines += [("lddec", b[i], (8 * i, 6)) for i in range(4)] + [("addl", 6, 29, 6)]
    lines += [("vmad", a[i], b[j], c[4 * j + i], c[4 * j + i]) for j in range(4) for i in range(4)]
    lines += [("addl", 28, "#1", 28), ("cmpeq", 28, 19, 0), ("beq", 0, "loop")]
    first, *rest = lines
    return [instruction(*first, labels=("loop",)), *(instruction(*line) for line in rest)]


def issue_cycles_total(loop: PipelinedLoop, trips: int) -> int:
    """Cycles until the pipeline's last instruction has issued, by the issue rule alone, for at
    least as many trips as it has stages.
    """
    turns = trips - loop.schedule.stages + 1
    shown = min(turns, 24)  # the first ones may take less than the interval
    sections = (*loop.guard, *loop.prologue, *(loop.kernel * shown), *loop.epilogue)
    cycles = in_order_cycles(operations_of(sections), loop.schedule.rules)
    return cycles[-1] + 1 + (turns - shown) * loop.schedule.interval_cycles


@pytest.mark.parametrize(
    ("iterations", "cycles", "plain_cycles"),
    [(8, 133, 208), (16, 261, 416), (32, 517, 832), (48, 773, 1248)],
)
def test_figure_6_takes_16_cycles_an_iteration_and_5_more(iterations, cycles, plain_cycles):
    body = figure_6()
    pipelined = pipeline_loop(body, TripCount(register=19, minimum=2), register_limit=32)
    registers = {"$5": 0, "$6": 16384, "$28": 0, "$19": iterations, "$29": 128}
    assert run(body, registers).cycles == plain_cycles
    assert run(pipelined.program, registers).cycles == cycles
    assert issue_cycles_total(pipelined, iterations) == cycles == 16 * iterations + 5


def test_figure_6_comes_with_its_proof_and_without_another_register():
    body = figure_6()
    pipelined = pipeline_loop(body, TripCount(register=19, minimum=2))
    schedule = pipelined.schedule
    assert (schedule.interval_cycles, schedule.proven_minimum) == (16, True)
    assert (schedule.lead_in_cycles, schedule.lead_in_proven) == (5, True)
    used = {r for i in body for r in (*i.reads, *i.writes)}
    assert {r for i in pipelined.program for r in (*i.reads, *i.writes)} == used


def test_figure_6_needs_no_overwriting_in_the_cycle_of_the_last_read():
    strict = msgspec.structs.replace(CPE.issue, write_after_read="next_cycle")
    schedule = modulo_schedule(operations_of(figure_6()), strict)
    assert (schedule.interval_cycles, schedule.proven_minimum) == (16, True)


def test_the_column_by_column_order_of_the_paper_cannot_do_better_than_its_17_cycles():
    body = operations_of(figure_6())
    sums = [i for i, operation in enumerate(body) if operation.name.startswith("vmad")]
    branch = len(body) - 1
    kind = DependenceKind.CHANNEL
    fixed = [Dependence(a, b, 0, 1, kind) for a, b in itertools.pairwise(sums)]
    # The iteration's arithmetic stands between two branches: the loop ends with the last vfmadd.
    fixed += [Dependence(branch, sums[0], 0, 1, kind), Dependence(sums[-1], branch, 1, 0, kind)]
    graph = build_version_dependences(body, [range(len(body))], rules=CPE.issue, also=fixed)
    schedule = schedule_versions(graph, CPE.issue, longest_interval=17, effort=Effort())
    assert schedule.refuted_intervals == (16,)
    assert (schedule.interval_cycles, schedule.proven_minimum) == (17, True)


def test_a_load_that_crosses_its_pointer_addition_gets_another_displacement():
    body = loop(
        ("vldd", 1, (0, 5)),
        ("vmad", 1, 2, 3, 3),
        ("vmad", 1, 2, 4, 4),
        ("vmad", 1, 2, 6, 6),
        ("ldi", 5, (32, 5)),
        ("vldd", 7, (0, 5)),
        ("vmad", 7, 2, 8, 8),
    )
    pipelined = pipeline_loop(body, TripCount(COUNTER, minimum=4))
    assert pipelined.schedule.stages > 1
    loads = [i for i in pipelined.program if i.mnemonic == "vldd"]
    assert len({load.memory.displacement for load in loads}) > 1
    _same_result(body, pipelined, 9)


def test_short_trips_run_the_plain_loop():
    body = loop(("vldd", 1, (0, 5)), ("vmad", 1, 1, 2, 3), ("vstd", 3, (0, 9)), ("ldi", 5, (32, 5)))
    trips = TripCount(COUNTER, scratch=SCRATCH)
    pipelined = pipeline_loop(body, trips, aliases=AliasRules({5: "in", 9: "out"}))
    assert pipelined.schedule.stages == 2
    for count in range(1, 8):
        _same_result(body, pipelined, count, except_for=(SCRATCH,))


def test_a_guard_needs_a_register():
    body = loop(("vldd", 1, (0, 5)), ("vmad", 1, 1, 2, 3), ("vstd", 3, (0, 6)))
    with pytest.raises(ScheduleError) as error:
        pipeline_loop(body, TripCount(COUNTER))
    assert str(error.value) == (
        "the pipeline has 2 stages and the loop may run 1 times; "
        "give a scratch register for the guard, or a minimum trip count of 2"
    )


def test_only_simple_loops_are_taken():
    body = loop(("vldd", 1, (0, 5)), ("vmad", 1, 1, 2, 3))
    with pytest.raises(ScheduleError) as error:
        pipeline_loop(body[:-1], TripCount(COUNTER))
    assert error.value.message == (
        "not a simple loop: 1 labels and branches at [] in 3 instructions"
    )


def test_without_effort_the_loop_is_list_scheduled():
    body = figure_6()
    trips = TripCount(register=19, minimum=2)
    plain = pipeline_loop(body, trips, effort=Effort(deterministic_units=0.0))
    assert not plain.schedule.pipelined
    registers = {"$5": 0, "$6": 16384, "$28": 0, "$19": 16, "$29": 128}
    cycles = run(plain.program, registers).cycles
    assert 261 < cycles <= 416
    assert cycles <= 16 * plain.schedule.interval_cycles


def _same_result(body, pipelined, trips, except_for=()):
    rng = np.random.default_rng(trips)
    memory = rng.integers(-9, 9, 2048).astype(float)
    registers = {f"${r}": [float(x) for x in rng.integers(-4, 4, 4)] for r in range(1, 28)}
    registers |= {"$5": 4096, "$6": 4096 + 64, "$9": 12288, f"${COUNTER}": trips}
    before = run(body, registers, memory)
    after = run(pipelined.program, registers, memory)
    kept = [r for r in range(32) if r not in except_for]
    np.testing.assert_array_equal(before.integer_registers[kept], after.integer_registers[kept])
    np.testing.assert_array_equal(before.local_memory, after.local_memory)
    return before.cycles, after.cycles


@st.composite
def bodies(draw):
    """Random loops: loads, stores and pointer steps over two pointers into overlapping memory, and
    vector work.
    """
    value = st.sampled_from([1, 2, 3, 4, 7, 8])
    base = st.sampled_from([5, 6])
    displacement = st.integers(-2, 4).map(lambda i: 32 * i)
    memory = st.tuples(displacement, base)
    step = st.tuples(st.just("ldi"), st.just(0), st.integers(-1, 2), base)
    line = st.one_of(
        st.tuples(st.just("vldd"), value, memory),
        st.tuples(st.just("vstd"), value, memory),
        st.tuples(st.just("vmad"), value, value, value, value),
        st.tuples(st.just("vaddd"), value, value, value),
        step.map(lambda s: ("ldi", s[3], (32 * s[2], s[3]))),
    )
    return loop(*draw(st.lists(line, min_size=1, max_size=12)))


@given(bodies())
@examples(60)
def test_every_pipeline_computes_what_the_plain_loop_does_and_is_not_slower(body):
    pipelined = pipeline_loop(body, TripCount(COUNTER, minimum=20))
    before, after = _same_result(body, pipelined, 20)
    assert after <= before
    assert after == issue_cycles_total(pipelined, 20)
