"""Messages as programs: single transfers, multicasts, exchanges, global sums, deadlocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tilewright.common.errors import MachineError, SimulationError
from tilewright.machine import load_machine
from tilewright.machine import messages as described
from tilewright.simulate.instruction_level import DeadlockError
from tilewright.targets.cns1.nodes.run import IDLE, Node, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.sums import Sum, begun
from tilewright.targets.cns1.nodes.transfers import exchange_cycles, sum_of_all, transfer_cycles
from tilewright.targets.cns1.timing import messages as closed

MACHINE = load_machine("cns1-128")
FABRIC = MACHINE.fabrics["torrents"]
SMALL = load_machine(
    "cns1-128",
    {
        "mesh.rows": 2,
        "mesh.columns": 8,
        "fabrics.torrents.rows": 2,
        "fabrics.torrents.columns": 8,
        "messages.hidden_sharers": 4,
    },
)
WITHOUT_GAP = structs.replace(FABRIC, gap_cycles=0.0)


@pytest.mark.parametrize(("hops", "words", "cast"), [(1, 32, True), (3, 5, False), (15, 32, True)])
def test_a_transfer_takes_what_section_2_2_says(hops, words, cast):
    simulated = transfer_cycles(MACHINE, hops, words=words, cast=cast)
    assert simulated == described.transfer_cycles(FABRIC, hops, 4 * words)


def test_exchanges_are_table_4_6_to_the_cycle_without_gaps_and_a_gap_a_message_longer_with():
    sharing = closed.hidden_sum(MACHINE)
    lost = 0
    for round_, distance in enumerate(sharing.distances):
        report = closed.block_exchange_cycles(MACHINE, distance)
        assert exchange_cycles(MACHINE, sharing, round_, WITHOUT_GAP) == report
        lost += exchange_cycles(MACHINE, sharing, round_, FABRIC) - report
    assert lost == 3 + 7 + 15


def test_a_sum_whose_rounds_do_not_meet_takes_what_the_formula_says():
    """Over 4 x 4 nodes; of a hidden vector a node that has its partner's early goes on at once."""
    values = np.ones((128, 1, 32), np.int64)
    times = {}
    for sharing in (closed.output_sum(MACHINE), closed.hidden_sum(MACHINE)):
        _, found, times[sharing] = sum_of_all(MACHINE, sharing, WITHOUT_GAP, values)
        assert (found == 1 << sharing.rounds).all()
    formula = [closed.global_sum_cycles(MACHINE, sharing) for sharing in times]
    assert list(times.values()) == [formula[0], 3049]
    assert formula == [1070, 4069]


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.integers(0, 1000))
def test_sums_are_exact_whatever_the_order_of_messages(vectors, hidden, seed):
    sharing = (closed.hidden_sum if hidden else closed.output_sum)(SMALL)
    values = np.random.default_rng(seed).integers(-(1 << 20), 1 << 20, (16, vectors, 32))
    _, found, _ = sum_of_all(SMALL, sharing, fabric_of(SMALL), values)
    node = np.arange(16)
    group = node // 8 * 2 + node % 2 if hidden else node % 8 // 2
    want = np.stack([values[group == own].sum(axis=0) for own in group])
    assert (found == want).all()


def test_administration_below_the_handlers_own_instructions_is_refused():
    machine = load_machine("cns1-128", {"messages.sum_cycles": 10})
    one = Sum(closed.hidden_sum(machine), 1, 0, "$22")
    with pytest.raises(
        MachineError,
        match=r"^messages\.sum_cycles: a round of a global sum takes 19 instructions beside its "
        r"messages, found 10$",
    ):
        begun(machine, one, "$5")


def test_nodes_that_wait_for_ever_are_named_with_what_they_did_not_receive():
    texts = ["$5 = 1\nsend($0, $5, $v1, 3)\n$v2 = receive(1)\n", "$v2 = receive(2)\n"]
    nodes = [Node(text + "goto $31\nnop\n") for text in texts] + [IDLE] * 14
    with pytest.raises(DeadlockError) as caught:
        run_nodes(SMALL, nodes, fabric_of(SMALL))
    assert caught.value.report.text() == (
        "core 0 (row 0, column 0) waits for a message at '$v2 = receive(1)' (instruction 2, line 3)"
        ", waits for core 1; not received: none\n"
        "  core 1 (row 0, column 1) waits for a message at '$v2 = receive(2)' (instruction 0, line "
        "1), waits for core 0; not received: of kind 3 from core 0"
    )


def test_a_message_beyond_the_edge_is_refused():
    nodes = [Node("$5 = -1\nsend($5, $0, $v1, 0)\ngoto $31\nnop\n")] + [IDLE] * 15
    with pytest.raises(SimulationError, match="message from node 0 would leave the fabric, or"):
        run_nodes(SMALL, nodes, fabric_of(SMALL))
