"""Messages as programs: single transfers, multicasts, exchanges, global sums, deadlocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from support.cns1_shapes import SMALL
from tilewright.common.errors import MachineError, SimulationError
from tilewright.machine import load_machine
from tilewright.machine import messages as described
from tilewright.simulate import launch
from tilewright.simulate.instruction_level import DeadlockError
from tilewright.simulate.units.messages import direction_of
from tilewright.targets.cns1.nodes.run import IDLE, NodeStart, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.transfers import (
    SumMessages,
    constant_sum_cycles,
    exchange_begun,
    ring_cycles,
    sum_of_all,
    sum_round_cycles,
)
from tilewright.targets.cns1.timing import messages as closed

MACHINE = load_machine("cns1-128")
FABRIC = MACHINE.fabrics["torrents"]
WITHOUT_GAP = structs.replace(FABRIC, gap_cycles=0.0)


@pytest.mark.parametrize(("hops", "words", "cast"), [(1, 32, True), (3, 5, False), (15, 32, True)])
def test_a_transfer_takes_what_section_2_2_says(hops, words, cast):
    simulated = ring_cycles(MACHINE, hops, words=words, cast=cast)
    assert simulated == described.send_cycles(FABRIC, hops, 4 * words)


def test_exchanges_are_table_4_6_to_the_cycle_without_gaps_and_a_gap_a_message_longer_with():
    sharing = closed.hidden_sum(MACHINE)
    lost = 0
    for round_, distance in enumerate(sharing.distances):
        report = closed.block_exchange_cycles(MACHINE, distance)
        assert sum_round_cycles(MACHINE, sharing, round_, WITHOUT_GAP) == report
        lost += sum_round_cycles(MACHINE, sharing, round_, FABRIC) - report
    assert lost == 3 + 7 + 15


def test_sums_whose_rounds_are_in_step_are_table_4_6_to_the_cycle():
    """Without gaps. A node of the machine that has its partner's vector early goes on at once."""
    values = np.ones((128, 1, 32), np.int64)
    times = {}
    for sharing in (closed.output_sum(MACHINE), closed.hidden_sum(MACHINE)):
        for in_step in (True, False):
            _, found, cycles = sum_of_all(MACHINE, sharing, WITHOUT_GAP, values, in_step=in_step)
            times[sharing, in_step] = cycles
            assert (found == 1 << sharing.rounds).all()
    assert list(times.values()) == [1070, 1070, 4069, 3049]
    formula = [closed.global_sum_cycles(MACHINE, sharing) for sharing, in_step in times if in_step]
    assert formula == [1070, 4069]


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.booleans())
def test_sums_of_several_vectors_in_step_take_as_often_the_formula(vectors, hidden, gaps):
    """A gap is a cycle for each message that waits in a round."""
    sharing = (closed.hidden_sum if hidden else closed.output_sum)(SMALL)
    fabric = SMALL.fabrics["torrents"]
    own = fabric if gaps else structs.replace(fabric, gap_cycles=0.0)
    formula = closed.global_sum_cycles(SMALL, sharing) + gaps * sum(
        distance - 1 for distance in sharing.distances
    )
    found = constant_sum_cycles(SMALL, sharing, own, vectors=vectors, in_step=True)
    assert found == vectors * formula


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_sums_are_exact_whatever_the_order_of_messages(vectors, hidden, in_step, seed):
    sharing = (closed.hidden_sum if hidden else closed.output_sum)(SMALL)
    values = np.random.default_rng(seed).integers(-(1 << 20), 1 << 20, (16, vectors, 32))
    _, found, _ = sum_of_all(SMALL, sharing, fabric_of(SMALL), values, in_step=in_step)
    node = np.arange(16)
    group = node // 8 * 2 + node % 2 if hidden else node % 8 // 2
    want = np.stack([values[group == own].sum(axis=0) for own in group])
    assert (found == want).all()


@settings(max_examples=20, deadline=None)
@given(st.tuples(*[st.integers(0, 400 // (1 + 2 * i)) for i in range(4)]),
       st.lists(st.integers(0, 2)))  # fmt: skip
def test_a_node_that_runs_ahead_receives_in_the_order_of_arrival(rounds, kinds):
    """One that accepts a kind of which none comes is never further than messages reach, and takes
    two cycles more.
    """
    kinds = [2, *kinds[:5]]
    sends = [f"$5 = -{node}\n" + "".join(f"send($0, $5, $v1, {kind})\n" for kind in kinds)
             for node in (1, 2, 3)]  # fmt: skip
    takes = [f"$v{i} = receive({kind})\n" for i, kind in enumerate(sorted(3 * kinds), 3)]
    texts = ["".join(takes), *("$v1 = m[$0].w\n" + own for own in sends)]
    found = []
    for head in ("", "accept 8\nnop\n"):
        waits = [f"$8 = {n}\nwait: if ($8 != $0) wait\n$8 = $8 - 1\n" for n in rounds]
        heads = [head, "", "", ""]
        every = zip(heads, waits, texts, range(4), strict=True)
        nodes = [NodeStart(f"{first}{wait}{text}goto $31\nnop\n",
                      {"main": {0: np.full(32, number, "<i4")}})
                 for first, wait, text, number in every]  # fmt: skip
        (core, *_) = run_nodes(SMALL, nodes + [IDLE] * 12, fabric_of(SMALL)).cores
        numbers = core.program.table.register_numbers
        order = [core.integer_registers[numbers[f"$v{3 + i}"], 0] for i in range(len(takes))]
        others = {cause: n for cause, n in core.stalls.items() if cause != "message"}
        found.append((core.cycles, (order, others)))
    (alone, told), (accepting, same) = found
    assert told == same
    assert set(order) == {1, 2, 3}
    assert accepting - alone in (0, 1, 2)


WAIT = "$8 = {}\n{}: if ($8 != $0) {}\n$8 = $8 - 1\n"


def _received(core, registers):
    numbers = core.program.table.register_numbers
    return tuple(core.integer_registers[numbers[name], 0] for name in registers)


def _run(texts):
    """The nodes of the small machine; each has its number in every word of its memory's start."""
    nodes = [
        NodeStart(texts.get(n, "") + "goto $31\nnop\n", {"main": {0: np.full(32, n, "<i4")}})
        for n in range(16)
    ]
    return run_nodes(SMALL, nodes, fabric_of(SMALL)).cores


def _filling(messages):
    """Node 1 sends so many of kind 2 to node 0."""
    return (f"$v1 = m[$0].w\n$5 = -1\n$7 = {messages - 1}\nagain: send($0, $5, $v1, 2)\n"
            "if ($7 != $0) again\n$7 = $7 - 1\n")  # fmt: skip


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_messages_that_wait_in_an_inbox_are_received_in_the_order_of_arrival(order):
    """The nodes send 100 turns of a loop after each other, and node 0 receives behind them all."""
    texts = {0: WAIT.format(600, "w", "w") + "".join(f"$v{i} = receive(1)\n" for i in (3, 4, 5))}
    for turn, node in enumerate(order):
        send = f"$v1 = m[$0].w\n$5 = -{node}\nsend($0, $5, $v1, 1)\n"
        texts[node] = WAIT.format(100 * turn, "w", "w") + send
    assert _received(_run(texts)[0], ("$v3", "$v4", "$v5")) == order


def test_messages_are_in_order_where_all_room_for_them_is_used_and_none_fits_beyond(monkeypatch):
    """Node 1's last one takes the last place; node 3 sends when node 0 has received two others."""
    monkeypatch.setattr(launch, "MESSAGES_OF_CORE", 2)
    room, tell = 32, "$v1 = m[$0].w\n$5 = {}\nsend($0, $5, $v1, {})\n"
    texts = {
        0: WAIT.format(3000, "w", "w") + 2 * "$v3 = receive(2)\n" + tell.format(3, 3)
        + "$v3 = receive(4)\n$v4 = receive(1)\n$v5 = receive(1)\n",
        1: _filling(room - 1) + "send($0, $5, $v1, 1)\n",
        3: "$v2 = receive(3)\n" + tell.format(-3, 1) + tell.format(-3, 4),
    }  # fmt: skip
    assert _received(_run(texts)[0], ("$v4", "$v5")) == (1, 3)
    with pytest.raises(SimulationError, match=f"{room} messages are on their way or not received"):
        _run({**texts, 1: _filling(room + 1)})


@pytest.mark.parametrize(
    ("topology", "joined"), [("mesh", ()), ("ring_mesh", ("row",)), ("torus", ("row", "column"))]
)
@pytest.mark.parametrize("line", ["row", "column"])
def test_messages_go_around_the_ends_that_a_topology_joins(topology, joined, line):
    """From the first node to the last one of its row, or its column: one link back."""
    fabric = structs.replace(fabric_of(SMALL), topology=topology)
    last = 7 if line == "row" else 8
    way = "$0, $5" if line == "row" else "$5, $0"
    texts = {0: f"$5 = -1\n$v1 = m[$0].w\nsend({way}, $v1, 1)\n", last: "$v2 = receive(1)\n"}
    nodes = [
        NodeStart(texts.get(n, "") + "goto $31\nnop\n", {"main": {0: np.full(32, 5, "<i4")}})
        for n in range(16)
    ]
    if line not in joined:
        with pytest.raises(SimulationError, match="would leave the fabric of 2 rows and 8 columns"):
            run_nodes(SMALL, nodes, fabric)
        return
    core = run_nodes(SMALL, nodes, fabric).cores[last]
    assert core.integer_registers[core.program.table.register_numbers["$v2"], 0] == 5


def test_administration_below_the_handlers_own_instructions_is_refused():
    machine = load_machine("cns1-128", {"messages.sum_cycles": 10})
    one = SumMessages(closed.hidden_sum(machine), 1, 0, "$22")
    with pytest.raises(
        MachineError,
        match=r"^messages\.sum_cycles: a round of a global sum takes 19 instructions beside its "
        r"messages, found 10$",
    ):
        exchange_begun(machine, one, "$5")


def test_nodes_that_wait_for_ever_are_named_with_what_they_did_not_receive():
    texts = ["$5 = 1\nsend($0, $5, $v1, 3)\n$v2 = receive(1)\n", "$v2 = receive(2)\n"]
    nodes = [NodeStart(text + "goto $31\nnop\n") for text in texts] + [IDLE] * 14
    with pytest.raises(DeadlockError) as caught:
        run_nodes(SMALL, nodes, fabric_of(SMALL))
    assert caught.value.report.text() == (
        "core 0 (row 0, column 0) waits for a message at '$v2 = receive(1)' (instruction 2, line 3)"
        ", waits for core 1\n"
        "  core 1 (row 0, column 1) waits for a message at '$v2 = receive(2)' (instruction 0, line "
        "1), waits for core 0\n"
        "  messages under way or not received: of kind 3 from core 0 at core 1"
    )


def test_messages_at_nodes_that_have_returned_are_named_and_counted():
    texts = ["$v2 = receive(0)\n", "$5 = 1\n" + "send($0, $5, $v1, 4)\n" * 10, ""]
    nodes = [NodeStart(text + "goto $31\nnop\n") for text in texts] + [IDLE] * 13
    with pytest.raises(DeadlockError) as caught:
        run_nodes(SMALL, nodes, fabric_of(SMALL))
    lines = caught.value.report.text().splitlines()
    assert lines[1] == "  core 1 has finished"
    named = ", ".join(["of kind 4 from core 1 at core 2"] * 8)
    assert lines[2] == f"  messages under way or not received: {named}, 2 more"


@pytest.mark.parametrize(("hops", "said"), [("$5, $0", "0 columns and -1 rows"),
                                            ("$0, $0", "0 columns and 0 rows")])  # fmt: skip
def test_a_message_to_a_node_that_is_not_there_is_refused(hops, said):
    nodes = [NodeStart(f"$5 = -1\nsend({hops}, $v1, 0)\ngoto $31\nnop\n")] + [IDLE] * 15
    with pytest.raises(SimulationError) as caught:
        run_nodes(SMALL, nodes, fabric_of(SMALL))
    assert caught.value.message == (
        f"send({hops}, $v1, 0): a message from node 0 over {said} would leave the fabric of 2 rows "
        "and 8 columns, or stay where it is"
    )


def test_a_handler_that_the_instruction_cache_does_not_hold_is_refused():
    """1,024 instructions are 32 lines of 128 bytes; with its return a handler has two more."""
    body = "nop\n" * 1023
    text = f"$5 = 1\nhandler $5 = long\ngoto $31\nnop\nlong: {body}resume\nnop\n"
    with pytest.raises(MachineError) as caught:
        run_nodes(SMALL, [NodeStart(text)] + [IDLE] * 15, fabric_of(SMALL))
    assert str(caught.value) == (
        "handler 'long' takes 4100 bytes, 33 lines of 128; the instruction cache has 4096 "
        "(memory.caches.instruction_bytes); take a shorter handler, or a larger cache"
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fabrics.torrents.rows", 3, "expected mesh.rows = 4 at least, found 3"),
        ("fabrics.torrents.columns", 16, "expected mesh.columns = 32 at least, found 16"),
        ("fabrics.torrents.hop_cycles", 2.5, "expected a whole number of cycles, found 2.5"),
        ("fabrics.torrents.gap_cycles", 0.5, "expected a whole number of cycles, found 0.5"),
        ("fabrics.torrents.send_cycles", 9.0,
         "expected messages.processor_send_cycles = 10 at least, found 9"),
        ("fabrics.torrents.receive_cycles", 0.0,
         "expected messages.processor_receive_cycles = 10 at least, found 0"),
        ("fabrics.torrents.topology", "buses",
         "expected mesh, ring_mesh or torus, which have links between neighbours, found buses"),
    ],
)  # fmt: skip
def test_numbers_of_a_fabric_that_cannot_be_are_refused(key, value, message):
    with pytest.raises(MachineError) as caught:
        load_machine("cns1-128", {key: value})
    assert f"{key}: {message}" in str(caught.value)


def test_a_head_goes_along_its_row_to_the_end_and_then_along_the_column():
    ways = [(3, 2), (1, 0), (-1, 1), (0, 1), (0, -2), (-4, -1), (1, -1)]
    assert [direction_of.py_func(*way) for way in ways] == [0, 0, 1, 2, 3, 1, 0]
