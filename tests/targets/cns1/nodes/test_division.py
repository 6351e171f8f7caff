"""Networks divided over nodes that own their weights: bits, plans, refusals."""

from itertools import pairwise

import numpy as np
import pytest

import tilewright as tw
from tilewright.common.errors import GraphError, PartitionError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.tables import SCALING, table_step
from tilewright.machine import load_machine
from tilewright.machine.build import changed
from tilewright.ops import gemm
from tilewright.ops.lookup import Lookup
from tilewright.papers.cns1.digits import digits_machine
from tilewright.partition.objective import TIME
from tilewright.targets.cns1.division import (
    DIVISION,
    given_blocks,
    node_update_cycles,
    plans,
)
from tilewright.targets.cns1.nodes import divided
from tilewright.targets.cns1.nodes.divided import node_programs
from tilewright.targets.cns1.nodes.roles import update_blocks
from tilewright.targets.cns1.prices import weight_update_cycles

MACHINE = digits_machine(2, 4, 4)


def perceptron(patterns, *sizes, turned=False):
    """Products and look-ups in turn."""
    net = NetworkBuilder("perceptron", "i8")
    x, table = net.input("x", (patterns, sizes[0])), net.weight("table", (1 << 15,))
    for i, (k, n) in enumerate(pairwise(sizes)):
        op = gemm(patterns, n, k, transpose_b=turned, dtype="i8,i16:i32")
        weight = net.weight(f"w{i}", op.input_shapes[1], "i16")
        x = net.apply(op, x, weight, name=f"product{i}")
        x = net.apply(Lookup((patterns, n), shift=8), x, table, name=f"sigmoid{i}")
    return net.build((x,))


def numbers(network, seed=1):
    random = np.random.default_rng(seed)
    found = {
        t.name: random.integers(-2000, 2000, t.shape).astype("i2")
        if t.dtype == "i16"
        else random.integers(-100, 100, t.shape).astype(t.dtype.replace("i8", "i1"))
        for t in (*network.inputs, *network.weights)
    }
    if "table" in found:
        places = np.arange(-16384, 16384)
        found["table"] = np.round(127 / (1 + np.exp(-places / 3000))).astype("i1")
    return found


def outputs_are_those_of_the_reference(network, machine, **options):
    given = numbers(network)
    compiled = tw.compile(network, machine, **options)
    weights = {t.name: given[t.name] for t in network.weights}
    found = compiled.run(given[network.inputs[0].name], weights=weights)
    expected = network.evaluate(given)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    return compiled.plan


@pytest.mark.parametrize(
    ("machine", "patterns", "turned"),
    [
        (MACHINE, 5, False),
        (digits_machine(1, 1, 1), 3, True),
        (changed(MACHINE, {"hosts.ports": 2}), 2, False),
    ],
    ids=["2 x 4 nodes", "1 node", "2 columns of a port"],
)
def test_all_nodes_with_every_message_compute_the_network(machine, patterns, turned):
    plan = outputs_are_those_of_the_reference(
        perceptron(patterns, 80, 256, 512, turned=turned), machine
    )
    assert plan.simulated["cycles"] > 0


@pytest.mark.parametrize("instruction_bytes", [4096, 128])
def test_one_node_and_the_messages_of_all_take_the_time_of_all_nodes(instruction_bytes):
    """Pieces of vectors lie in other ports on each node; of zeros all cycles are the same. Messages
    that are replayed need no instruction cache: their waits have the misses of the node in full.
    """
    network = perceptron(2, 256, 1024, 1024)
    machine = changed(MACHINE, {"memory.caches.instruction_bytes": instruction_bytes})
    nodes = DIVISION.divide(network, machine, None, TIME, 1.0).nodes
    zeros = {name: np.zeros_like(values) for name, values in numbers(network).items()}
    _, run = nodes.simulated(zeros)
    found = nodes.timed()
    assert found.cycles == run.cycles
    assert found.instructions == run.cores[-1].instructions
    assert found.stalls == run.cores[-1].stalls
    assert found.begins["layer_0"] < found.begins["layer_1"] < found.begins["outputs"]


def test_factors_beyond_the_data_cache_are_multiplied_part_by_part():
    """Two patterns of 4,160 bytes, of which the cache holds 4,096."""
    outputs_are_those_of_the_reference(perceptron(3, 4160, 64), digits_machine(1, 1, 1))


def test_more_senders_than_a_node_tells_apart_are_refused(monkeypatch):
    """With 128 blocks of columns each node reads what 127 others have made: too many if it tells 63
    of them apart.
    """
    monkeypatch.setattr(divided, "KINDS", 64)
    machine = load_machine("cns1-128")
    network = perceptron(2, 64, 8192, 8192)
    layers, _ = DIVISION.planned(network, machine)
    plan = given_blocks(layers, machine, [(128, 1), (128, 1)])
    with pytest.raises(PartitionError) as caught:
        node_programs(network, machine, plan, 1)
    assert str(caught.value) == (
        "nodes get messages of 127 others, they tell 63 apart beside inputs; divide the network "
        "over fewer nodes, or take --partition for fewer parts"
    )


def test_sums_that_are_divided_meet_at_who_finishes_them():
    """Eight parts of each sum: two pieces of 32 columns are a chunk of a whole stripe."""
    network = perceptron(2, 64, 256)
    given, (layer,) = numbers(network), DIVISION.planned(network, MACHINE)[0]
    found = tw.compile(network, MACHINE, partition="terms")
    assert found.plan.plan.layers[0].division.grid.parts == 8
    weights = {name: given[name] for name in ("w0", "table")}
    (result,) = found.run(given["x"], weights=weights).values()
    np.testing.assert_array_equal(result, *network.evaluate(given).values())
    assert layer.op.describe() == "gemm m2 n256 k64"


@pytest.mark.parametrize(
    ("patterns", "scaling"),
    [(1, SCALING), (2, SCALING), (3, SCALING), (1, None)],
    ids=["scaled", "pairs", "sets of three", "literal"],
)
def test_a_training_step_changes_weights_where_they_lie(patterns, scaling):
    """Three layers of weights: errors go back through two of them."""
    step = table_step(perceptron(patterns, 64, 256, 512, 256), scaling=scaling)
    given = numbers(step)
    found = tw.compile(step, digits_machine(2, 4, 4, patterns)).plan.run(given)
    for name, values in step.evaluate(given).items():
        np.testing.assert_array_equal(found[name], values)
    assert (found["product1_next"] != given["w1"]).any()


def test_a_set_of_more_patterns_than_kernels_take_is_refused():
    with pytest.raises(PartitionError) as caught:
        tw.compile(table_step(perceptron(3, 64, 256)), MACHINE)
    assert str(caught.value) == (
        "perceptron_step trains a set of 3 patterns, kernels take 2 together; "
        "--batch 2, or --set kernels.patterns=3 up to 3"
    )


def test_a_step_of_other_networks_than_chains_of_tables_is_refused():
    with pytest.raises(GraphError) as caught:
        table_step(perceptron(1, 64, 256, turned=True))
    assert str(caught.value) == (
        "perceptron: gemm m1 n256 k64 transpose_b, then lookup 1x256 of 32768, shift 8: a step of "
        "integers is that of a chain of matrix products with a table behind each; take such a "
        "network, or one of floats"
    )


def test_maps_behind_products_are_computed_by_who_has_them():
    net = NetworkBuilder("mapped", "i8")
    x, w = net.input("x", (2, 64)), net.weight("w", (64, 512), "i16")
    x = net.apply(gemm(2, 512, 64, dtype="i8,i16:i32"), x, w, name="sums")
    bias = net.weight("bias", (512,), "i16")
    shifted = define("y[i,j] = 3 * x[i,j] + b[j]", i=2, j=512, dtype="i32,i16:i32:i32:even:wrap")
    network = net.build((net.apply(shifted, x, bias, name="shifted"),))
    outputs_are_those_of_the_reference(network, MACHINE)


def test_copies_of_a_network_take_passes_in_turn():
    """Each node holds both matrices: eight copies compute eight pairs of patterns at once."""
    plan = outputs_are_those_of_the_reference(perceptron(16, 64, 128, 64), MACHINE)
    assert (plan.nodes.copies, plan.nodes.cells) == (8, 1)


def test_no_more_copies_are_made_than_there_are_passes():
    """Four passes of two patterns: eight copies would leave half of the nodes without any."""
    found = DIVISION.divide(perceptron(8, 64, 128, 64), MACHINE, None, TIME, 1.0)
    assert found.nodes.copies == 4


def test_an_update_of_one_pattern_takes_what_its_kernels_do():
    """Of as many columns at a time as the cache holds of the matrix."""
    machine = load_machine("cns1-128")
    assert update_blocks(machine, 64, 96) == (64, 64)
    parts = [float(weight_update_cycles(machine, 64, columns, 96)) for columns in (64, 32)]
    assert node_update_cycles(machine, 64, 96, 1) == sum(parts)


@pytest.mark.parametrize(("ports", "served"), [(1, 8), (2, 4), (4, 2)])
def test_as_many_patterns_go_together_as_the_memory_of_a_port_holds(ports, served):
    """Of each node that it serves a block of inputs and four of outputs for each pattern."""
    machine = changed(MACHINE, {"hosts.ports": ports})
    nodes = DIVISION.divide(perceptron(2, 80, 512), machine, None, TIME, 1.0).nodes
    assert nodes._together == 2 * (524_288 // (2 * (1 + 4) * 128 * served))


def test_copies_end_where_memories_are_full():
    """Two matrices of 4 MB do not fit one node beside its tables."""
    layers, _ = DIVISION.planned(perceptron(2, 2048, 1024, 2048), MACHINE)
    assert [copies for copies, _ in plans(layers, MACHINE, ["blocks"], TIME)] == [1, 2, 4]


def test_the_planner_s_blocks_take_no_longer_than_the_report_s():
    """192M connections on 128 nodes: p_i = 8 and p_h = 16 as in Table 3.1, beside all others."""
    machine = load_machine("cns1-128")
    layers, _ = DIVISION.planned(perceptron(2, 8192, 16384, 4096), machine)
    (_, found), (copies, halves) = plans(layers, machine, ["blocks"], TIME)
    multiplier = 2 * (8192 + 4096) * 16384 / 8 / 128
    assert multiplier == 393_216 < found.bound <= found.cost <= 459_222
    assert (copies, multiplier < halves.cost / copies < found.cost) == (2, True)


def test_gradients_are_divided_for_the_best_plan_alone():
    """The others' costs have them by their blocks of weights: no plan of five layers is made."""
    step = table_step(perceptron(1, 64, 128, 64))
    layers, _ = DIVISION.planned(step, MACHINE)
    found = [len(plan.layers) for _, plan in plans(layers, MACHINE, ["blocks"], TIME)]
    assert (len(layers), found) == (5, [2] * 4)
    chosen = DIVISION.divide(step, MACHINE, None, TIME, 1.0).plan
    assert [one.layer.name for one in chosen.layers] == [layer.name for layer in layers]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            (64, 100),
            "layer product0: 64 x 100 weights are not whole blocks of 4 rows and 64 columns; "
            "pad to 64 x 128",
        ),
        (
            (16384, 65536, 8192),
            "the matrices take 3221225472 bytes, 402653184 of each of 8 nodes, whose memory "
            "(memory.main.capacity_bytes) has 8314880 for them; the largest, of layer product0, is "
            "16384 x 65536; at least 512 nodes hold them, or larger chips",
        ),
    ],
)
def test_networks_that_nodes_do_not_hold_are_refused(sizes, message):
    with pytest.raises(PartitionError) as caught:
        tw.compile(perceptron(2, *sizes), MACHINE)
    assert str(caught.value) == message


def test_other_layers_are_refused():
    with pytest.raises(PartitionError) as caught:
        tw.compile("lenet5", MACHINE, dtype="f64")
    assert str(caught.value) == (
        "layer c1: conv2d 1x1x32x32 -> 6, 5x5 s1 p0 is no product of activations and weights; "
        "take a network of matrix products, and of look-ups and maps of their results"
    )
