"""Messages over a fabric: order of arrival, room, ways, interrupts, and who waits for ever."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from support.cns1_shapes import SMALL
from support.examples import examples
from tilewright.common.errors import SimulationError
from tilewright.simulate import launch
from tilewright.simulate.instruction_level import DeadlockError, simulate_mesh
from tilewright.simulate.units.messages import direction_of
from tilewright.targets.cns1.nodes import run
from tilewright.targets.cns1.nodes.run import IDLE, NodeStart, fabric_of, run_nodes


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


@examples(30)
@given(st.integers(0, 150), st.integers(0, 150), st.sampled_from([1, 32]))
def test_messages_of_any_length_are_received_in_the_order_of_their_ends(late, wait, words):
    """A short one may end before a long one whose head came first, however early it is waited for:
    as behind all of them, which is the order of the inbox.
    """
    send = "$v1 = m[$0].w\n$5 = -1\n{}send({}, $v1, 1)\n"
    texts = {
        1: send.format("", "$0, $5"),
        8: f"$2 = {words}\nvlr = $2\n" + send.format("nop\n" * wait, "$5, $0"),
    }
    takes = "$v3 = receive(1)\n$v4 = receive(1)\n"
    found = [
        _received(_run({**texts, 0: WAIT.format(turns, "w", "w") + takes})[0], ("$v3", "$v4"))
        for turns in (late, 600)
    ]
    assert found[0] == found[1]
    assert sorted(found[0]) == [1, 8]


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


@pytest.mark.parametrize(
    ("source", "way", "target"),
    [(0, (3, 0), 3), (7, (-3, 0), 4), (2, (0, 1), 10), (10, (0, -1), 2), (1, (2, 1), 11)],
)
def test_a_head_comes_nearer_by_a_node_a_hop(monkeypatch, source, way, target):
    """Up and down rows and columns; its target turns until it comes, in 2,000 cycles at most."""
    limited = partial(simulate_mesh, max_cycles=2000)
    monkeypatch.setattr(run, "simulate_mesh", limited)
    texts = {
        source: "$5 = {}\n$6 = {}\n$v1 = m[$0].w\nsend($6, $5, $v1, 1)\n".format(*way),
        target: "$5 = 1\nhandler $5 = come\naccept 2\nwait: if ($0 == $0) wait\nnop\n"
        "come: $v3 = receive(1)\n",
    }
    assert _received(_run(texts)[target], ("$v3",)) == (source,)


def test_a_head_goes_along_its_row_to_the_end_and_then_along_the_column():
    ways = [(3, 2), (1, 0), (-1, 1), (0, 1), (0, -2), (-4, -1), (1, -1)]
    assert [direction_of.py_func(*way) for way in ways] == [0, 0, 1, 2, 3, 1, 0]


INTERRUPTED = """
top: $5 = 1
handler $5 = one
$5 = 2
handler $5 = two
accept 6
$9 = $9 + 1
if ($8 != $0) top
$8 = $8 - 1
goto $31
nop
one: $v3 = receive(1)
$10 = $10 + $10
resume
$10 = $10 + 1
two: $v3 = receive(2)
{}
$10 = $10 + $10
resume
nop
"""
"""A loop that two kinds of messages interrupt, each of which shifts a bit into $10."""


def _interrupted(texts, turns):
    """($8, $9, $10) of node 0 after so many turns of its loop."""
    nodes = [
        NodeStart(texts.get(n, "") + "goto $31\nnop\n", {}, {"$8": turns, "$10": 1})
        for n in range(16)
    ]
    return _received(run_nodes(SMALL, nodes, fabric_of(SMALL)).cores[0], ("$8", "$9", "$10"))


@pytest.mark.parametrize("before", ["", "nop\n"])
def test_an_interrupted_loop_loses_no_turn(before):
    """Messages come at every place of the loop, which may begin with the first instruction, and so
    behind its branch as well.
    """
    sends = "$5 = -1\n" + ("nop\n" * 40 + "send($5, $0, $v1, 2)\n") * 20
    texts = {0: before + INTERRUPTED.format(""), 8: sends}
    assert _interrupted(texts, 400) == (-1, 401, 1 << 20)


@pytest.mark.parametrize(("waits", "order"), [((0, 100), 0b1010), ((100, 0), 0b1001)])
def test_what_comes_while_a_message_is_handled_interrupts_in_the_order_of_arrival(waits, order):
    sends = "{}$5 = -1\nsend({}, $v1, {})\n"
    one, two = (sends.format("nop\n" * (40 + wait), "{}", "{}") for wait in waits)
    texts = {
        0: INTERRUPTED.format("nop\n" * 200),
        1: one.format("$0, $5", 1),
        8: sends.format("", "$5, $0", 2) + two.format("$5, $0", 2),
    }
    assert _interrupted(texts, 400) == (-1, 401, order)
