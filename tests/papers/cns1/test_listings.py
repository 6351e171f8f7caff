"""The report's listings run on a simulated node, and give what their kernels mean."""

import re

import numpy as np
import pytest

from tilewright.machine import load_machine
from tilewright.papers.cns1.listings import REPAIRS, listing
from tilewright.targets.cns1.kernels import reference, run
from tilewright.targets.cns1.node import assembled, node_table, run_node
from tilewright.targets.cns1.timing.forward import Conditions, product_cycles, sigmoid_cycles
from tilewright.targets.cns1.timing.training import update_cycles

MACHINE = load_machine("cns1-128")
NODE = node_table(MACHINE)
SHIFT, STACK = 6, 4000


def as_bytes(array):
    return np.ascontiguousarray(array).view(np.uint8).ravel()


def run_recall(rows, columns, seed):
    """The listing on random data: the run, the outputs, and what they should be."""
    random = np.random.default_rng(seed)
    weights = random.integers(-300, 300, (rows, columns)).astype("<i2")
    inputs = random.integers(-128, 128, (2, rows)).astype(np.int8)
    table = random.integers(-128, 128, 1 << 15).astype(np.int8)
    start = -(-weights.nbytes // 32768) * 32768
    main = np.zeros(start + len(table), np.uint8)
    main[: weights.nbytes], main[start:] = as_bytes(weights), as_bytes(table)
    cache = np.zeros(4096, np.uint8)
    cache[: 2 * rows] = as_bytes(inputs)
    outputs = 2 * rows, 2 * rows + columns
    parameters = [rows, *outputs, SHIFT, start + 16384]
    cache[STACK : STACK + 20] = as_bytes(np.array(parameters, "<i4"))
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0, "$29": STACK}
    found = run_node(
        assembled(listing("recall"), NODE), main=main, cache=cache, registers=registers
    )
    sums = (inputs.astype(np.int64) @ weights).astype(np.int32) >> SHIFT
    wanted = table[np.clip(sums, -16384, 16383) + 16384]
    given = found.memory("cache")[outputs[0] : outputs[0] + 2 * columns].view(np.int8)
    return found, given.reshape(2, columns), wanted


@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (64, 64), (516, 256)])
def test_recall_gives_the_reference_to_the_bit(rows, columns):
    _, given, wanted = run_recall(rows, columns, seed=rows)
    assert (given == wanted).all()


def test_recall_takes_what_the_formulas_say():
    found, _, _ = run_recall(1024, 256, seed=1)
    rounds, product = 4, product_cycles(MACHINE, 1024, 256, 2)
    best = sigmoid_cycles(MACHINE, 4, Conditions(1 << 15, False))
    worst = sigmoid_cycles(MACHINE, 4, Conditions(1 << 15, True))
    assert rounds * (product + best) < found.cycles < rounds * (product + worst)
    assert found.issue_cycles + sum(found.stalls.values()) == found.cycles


@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (64, 192), (1024, 256)])
def test_the_forward_pass_of_training_waits_for_the_ports_as_ours(rows, columns):
    random = np.random.default_rng(rows)
    weights = random.integers(-300, 300, (rows, columns)).astype("<i2")
    inputs = random.integers(-128, 128, (1, rows)).astype(np.int8)
    table = random.integers(-128, 128, 1 << 15).astype(np.int8)
    start = -(-weights.nbytes // 32768) * 32768
    main = np.zeros(start + len(table), np.uint8)
    main[: weights.nbytes], main[start:] = as_bytes(weights), as_bytes(table)
    cache = np.zeros(4096, np.uint8)
    cache[:rows] = as_bytes(inputs)
    cache[STACK : STACK + 12] = as_bytes(np.array([rows, SHIFT, start + 16384], "<i4"))
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0, "$29": STACK}
    found = run_node(
        assembled(listing("forward"), NODE), main=main, cache=cache, registers=registers
    )
    wanted = reference.forward(weights, inputs, table, SHIFT)
    assert (found.memory("cache")[rows : rows + columns].view(np.int8) == wanted[0]).all()
    ours = run.forward(MACHINE, weights, inputs, table, SHIFT).cycles
    assert rows < 1024 or ours == pytest.approx(found.cycles, rel=0.001)


def test_errors_are_scaled_differences():
    random = np.random.default_rng(0)
    results, outputs = random.integers(-128, 128, (2, 512)).astype(np.int8)
    cache = np.zeros(4096, np.uint8)
    cache[:512], cache[STACK] = as_bytes(outputs), 5
    registers = {"$4": 0, "$5": 512, "$6": 0, "$7": 1024, "$29": STACK}
    found = run_node(
        assembled(listing("errors"), NODE),
        main=as_bytes(results),
        cache=cache,
        registers=registers,
    )
    given = found.memory("cache")[1024:2048].view("<i2")
    assert (given == 5 * (results.astype(int) - outputs)).all()


@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (64, 192), (1024, 512)])
def test_the_update_adds_the_outer_product_in_the_time_of_the_formula(rows, columns):
    """Eight cycles more for each four rows, and some before the first and behind the last; fewer
    than ours, which do not begin four rows between the last instructions of those before.
    """
    random = np.random.default_rng(rows)
    weights = random.integers(-30000, 30000, (rows, columns)).astype("<i2")
    error = random.integers(-3000, 3000, columns).astype("<i2")
    data = random.integers(-128, 128, rows).astype(np.int8)
    cache = np.zeros(4096, np.uint8)
    cache[:rows], cache[rows : rows + 2 * columns] = as_bytes(data), as_bytes(error)
    cache[STACK : STACK + 4] = as_bytes(np.array([rows], "<i4"))
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0, "$29": STACK}
    found = run_node(
        assembled(listing("update"), NODE), main=as_bytes(weights), cache=cache, registers=registers
    )
    given = found.memory("main")[: weights.nbytes].view("<i2").reshape(rows, columns)
    assert (given == reference.update(weights, error, data)).all()
    closed, around = update_cycles(MACHINE, rows, columns), 60
    assert found.cycles == pytest.approx(closed, rel=0.03, abs=around)
    ours = run.update(MACHINE, weights, error, data).cycles
    assert columns < 512 or 0 < ours / found.cycles - 1 < 0.015


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (64, 192), (1024, 512)])
def test_backpropagation_reduces_and_scales_and_ours_is_faster(rows, columns):
    random = np.random.default_rng(rows)
    weights = random.integers(-30000, 30000, (rows, columns)).astype("<i2")
    error = random.integers(-3000, 3000, columns).astype("<i2")
    hidden = random.integers(-128, 128, rows).astype(np.int8)
    cache, main = np.zeros(4096, np.uint8), np.zeros(weights.nbytes + 2 * rows, np.uint8)
    cache[:rows], cache[rows : rows + 2 * columns] = as_bytes(hidden), as_bytes(error)
    cache[STACK : STACK + 8] = as_bytes(np.array([rows, weights.nbytes], "<i4"))
    main[: weights.nbytes] = as_bytes(weights)
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0, "$29": STACK}
    found = run_node(
        assembled(listing("backward"), NODE), main=main, cache=cache, registers=registers
    )
    given = found.memory("main")[weights.nbytes : weights.nbytes + 2 * rows].view("<i2")
    assert (given == reference.backward(weights, error, hidden)).all()
    ours = run.backward(MACHINE, weights, error, hidden).cycles
    assert columns < 512 or 0.95 < ours / found.cycles < 0.97


@pytest.mark.parametrize("name", ["recall", "forward", "errors", "backward", "update"])
def test_every_repair_is_named(name):
    text = listing(name)
    used = {
        int(n)
        for line in re.findall(r"repairs? ([\d, ]+)", text)
        for n in line.split(",")
        if n.strip()
    }
    assert used <= set(REPAIRS)
    assert used
