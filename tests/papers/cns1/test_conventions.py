"""The report's own program: values, cycles in parts, codes that evict each other."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from support.cns1_shapes import SMALL
from tilewright.graph.tables import RATE
from tilewright.papers.cns1 import conventions
from tilewright.papers.cns1.all_nodes import forward_of, weights_after
from tilewright.papers.cns1.cases import (
    HANDLING,
    MAPS,
    MODEL,
    PRODUCTS,
    WORST,
    node_parts,
    recall_parts,
    rows_of_parts,
    training_parts,
)
from tilewright.papers.cns1.conventions import InterleavedProgram, interleaved_run, simulate_program
from tilewright.papers.cns1.digits import SHIFT
from tilewright.targets.cns1.node import assembled, node_table
from tilewright.targets.cns1.nodes.run import cycles_of_labels
from tilewright.targets.cns1.timing.forward import interleaving
from tilewright.targets.cns1.timing.layers import on_each_node

FABRIC = SMALL.fabrics["torrents"]


def numbers(patterns):
    random = np.random.default_rng(3)
    sizes = {"x": (patterns, 64), "labels": (patterns, 512), "w0": (64, 512), "w1": (512, 512)}
    kinds = {"x": "i1", "labels": "i1", "w0": "<i2", "w1": "<i2"}
    found = {name: random.integers(-99, 99, size, kinds[name]) for name, size in sizes.items()}
    places = np.arange(-(1 << 14), 1 << 14)
    return found | {"table": np.round(127 / (1 + np.exp(-places / 300))).astype("i1")}


def run(given, *, trains, together=False, gap=0.0):
    fabric = structs.replace(FABRIC, gap_cycles=gap)
    return interleaved_run(SMALL, given, SHIFT, RATE, fabric, trains=trains, together=together)


def test_recall_has_the_reference_s_bits_wherever_code_lies():
    given = numbers(2)
    _, outputs = forward_of(given)
    apart, evicted = run(given, trains=False), run(given, trains=False, together=True)
    assert (apart.outputs == outputs).all()
    assert (evicted.outputs == outputs).all()
    assert apart.run.cores[0].instruction_cache_misses == 0
    assert evicted.run.cores[0].instruction_cache_misses > 100
    assert evicted.run.cycles > apart.run.cycles


def test_training_learns_the_reference_s_weights():
    given = numbers(1)
    found = run({name: values.copy() for name, values in given.items()}, trains=True, gap=1.0)
    for weights, expected in zip(found.weights, weights_after(given, 1, scaled=False), strict=True):
        assert (weights == expected).all()


def test_codes_that_evict_each_other_lie_in_the_same_lines():
    """Handlers, look-ups and scaling meet two lines of every product's loop."""
    machine = MODEL.machine()
    local = on_each_node(machine, MODEL.layers)
    for patterns, trains in ((2, False), (1, True)):
        text = InterleavedProgram(machine, local, patterns, trains).text(together=True)
        labels = assembled(text, node_table(machine)).labels
        short = {n: at for n, at in labels.items() if re.fullmatch(r"sum_\d+|sigmoid_\d|scale", n)}
        assert {at % 1024 for at in short.values()} == {20}
        assert labels["product"] % 1024 == 0
        assert labels["loop_product"] % 1024 < 32


def test_parts_of_the_closed_form_sum_up_to_it():
    recall, training = MODEL.recall(WORST), MODEL.training(WORST)
    assert sum(recall_parts(recall).values()) == pytest.approx(recall.total_cycles)
    assert sum(training_parts(training).values()) == pytest.approx(training.total_cycles)


def test_products_and_maps_of_the_closed_form_take_the_time_of_their_rounds():
    """The processor works for sums beside each product but the first; the last sums have none."""
    recall, training = MODEL.recall(WORST), MODEL.training(WORST)
    back = training.backward
    local = back.rounds * (back.local_cycles + back.sum_processor_cycles) + back.parameter_cycles
    scaling = back.rounds * back.scaling_cycles + training.error_cycles
    for parts, forward, *behind in (
        (recall_parts(recall), recall.forward, 0, 0),
        (training_parts(training), training.forward, local, scaling),
    ):
        spent = {"product": forward.outputs.sum_processor_cycles, "sigmoid": 0, "sums": 0}
        for each in interleaving(forward):
            spent[each.what] += each.end_cycle - each.start_cycle
        assert parts[PRODUCTS] + parts[HANDLING] == spent["product"] + behind[0]
        assert parts[MAPS] == spent["sigmoid"] + behind[1]


@pytest.mark.parametrize(
    ("kernel", "lines", "misses", "penalty_cycles"),
    [
        ("recall", {}, 1926, 96574),
        ("recall", conventions._LINES, 1316, 66379),
        ("training", {}, 1642, 87231),
        ("training", conventions._LINES, 1149, 62341),
    ],
)
def test_misses_of_the_closed_form_and_what_they_cost(kernel, lines, misses, penalty_cycles):
    """Both fall with the lines that a code takes."""
    assert conventions._misses(kernel, lines) == misses
    assert conventions._penalty(kernel, lines) == penalty_cycles


def test_cycles_go_to_the_label_that_an_instruction_stands_behind():
    labels = {"product_0": 1, "loop_product": 2, "other": 4}
    times, rows = np.array([0, 3, 4, 9, 10]), np.array([0, 1, 2, 3, 4])
    found = cycles_of_labels(times, rows, labels)
    assert found == {"": 1, "product_0": 3, "loop_product": 6, "other": 1}
    parts = node_parts(found, waits=1)
    assert (parts[PRODUCTS], parts[HANDLING]) == (9, 1)
    assert sum(parts.values()) == 11
    *each, total = rows_of_parts("recall", recall_parts(MODEL.recall(WORST)), parts, {})
    assert sum(row.ours for row in each) == total.ours
    assert sum(row.published for row in each) == total.published


def test_recall_of_the_model_network_is_near_the_closed_form_under_its_conventions():
    found = simulate_program(("recall", "formula"))
    closed = MODEL.recall(WORST).forward
    assert found.same_bits
    assert found.cycles == pytest.approx(closed.hidden_cycles + closed.outputs_cycles, rel=0.02)
    assert sum(found.parts.values()) == found.cycles


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_training_has_the_same_bits_where_both_matrices_do(wrong, monkeypatch):
    expected = np.zeros((2, 3)), np.ones((4, 2))
    found = [values + (number == wrong) for number, values in enumerate(expected)]
    core = SimpleNamespace(
        trace_complete=True, issues=[SimpleNamespace(cycle=0, instruction=0)], spans=[],
        program=SimpleNamespace(labels={}), instruction_cache_misses=0,
    )  # fmt: skip
    run = SimpleNamespace(cores=[core], cycles=1)
    monkeypatch.setattr(conventions, "random_numbers", lambda *_: {})
    monkeypatch.setattr(conventions, "weights_after", lambda *_, **__: expected)
    monkeypatch.setattr(
        conventions, "interleaved_run", lambda *_, **__: SimpleNamespace(run=run, weights=found)
    )
    assert simulate_program(("training", "hardware")).same_bits is (wrong is None)
