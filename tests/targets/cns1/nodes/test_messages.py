"""Messages as programs: single transfers, multicasts, exchanges, global sums, deadlocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from support.cns1_shapes import SMALL
from tilewright.common.errors import MachineError
from tilewright.machine import load_machine
from tilewright.machine import messages as described
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


def test_administration_below_the_handlers_own_instructions_is_refused():
    machine = load_machine("cns1-128", {"messages.sum_cycles": 10})
    one = SumMessages(closed.hidden_sum(machine), 1, 0, "$22")
    with pytest.raises(
        MachineError,
        match=r"^messages\.sum_cycles: a round of a global sum takes 19 instructions beside its "
        r"messages, found 10$",
    ):
        exchange_begun(machine, one, "$5")


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
