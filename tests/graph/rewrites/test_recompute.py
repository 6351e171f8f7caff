"""Activations of a training step are computed again where memory is short."""

import numpy as np

from tilewright.graph.liveness import most_bytes, needed_spans
from tilewright.graph.rewrites.recompute import recomputing
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import Optimiser, training_step
from tilewright.graph.zoo import network


def needed(step):
    return most_bytes(needed_spans(step).values())


def repeated(step):
    return [n.output for n in step.nodes if n.name.endswith("_again")]


def test_no_activation_is_repeated_where_all_have_room():
    step = simplified(training_step(network("digits", 16)))
    assert recomputing(step, needed(step)) is step


def test_the_step_means_the_same_with_activations_computed_again():
    step = simplified(training_step(network("digits", 16), Optimiser("sgd", 0.1)))
    less = recomputing(step, needed(step) * 9 // 10)
    assert needed(less) < needed(step)
    assert repeated(less)
    rng = np.random.default_rng(0)
    feeds = {t.name: rng.standard_normal(t.shape) for t in step.inputs}
    feeds["labels"] = np.eye(10)[rng.integers(0, 10, 16)]
    expected, found = step.evaluate(feeds), less.evaluate(feeds)
    assert all(np.array_equal(found[name], y) for name, y in expected.items())


def test_half_of_the_activations_of_vgg16_cost_a_twentieth_of_its_operations():
    step = simplified(training_step(network("vgg16", 32)))
    less = recomputing(step, 0)
    held = sum(
        s for name, (s, *_) in needed_spans(step).items() if name in {t.name for t in step.inputs}
    )
    assert needed(less) - held < 0.65 * (needed(step) - held)
    extra = sum(n.op.flops for n in less.nodes) / step.flops - 1
    assert 0 < extra < 0.05
    assert {"conv1_1_relu_again", "pool1_again"} <= {*repeated(less)}


def test_activations_are_kept_that_the_dearer_ones_make_room_for():
    step = simplified(training_step(network("vgg16", 32)))
    less = recomputing(step, needed(step) * 4 // 5)
    assert needed(less) <= needed(step) * 4 // 5
    assert repeated(less)[2::3] == ["conv1_1_relu_again", "conv1_2_relu_again"]
    assert len(repeated(less)) == 6


def test_a_slow_memory_makes_poolings_dear():
    step = simplified(training_step(network("vgg16", 32)))
    limit = needed(step) * 19 // 20
    assert all(name.startswith("pool") for name in repeated(recomputing(step, limit)))
    less = recomputing(step, limit, flops_per_byte=22.4)
    assert [*repeated(less)][-1:] == ["conv1_1_relu_again"]


def test_forward_networks_stay_as_they_are():
    net = network("digits", 16)
    assert recomputing(net, 0) is net


def test_inputs_weights_and_results_are_there_all_the_time():
    """Of a state's next value that is so for the state, whose place it takes."""
    step = simplified(training_step(network("digits", 16), Optimiser("sgd", 0.1)))
    spans = needed_spans(step)
    end = max(last for _, _, last in spans.values())
    results = set(step.outputs) - {state.next for state in step.states}
    lasting = {t.name for t in (*step.inputs, *step.weights)} | results
    assert {name for name, (_, *span) in spans.items() if span == [0, end]} == lasting
    assert results
