"""Bounds of grids, and plans that are made of the grids that they leave."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.partitions import random_network
from tilewright.graph import network
from tilewright.machine import load_machine
from tilewright.partition import promising
from tilewright.partition.grids import Grids, cut, undivided
from tilewright.partition.layers import layers_of
from tilewright.partition.objective import ACTIVATIONS, TIME, TRAFFIC, Weights, core_model
from tilewright.partition.plan import ChoiceCosts, given_plan, space
from tilewright.partition.promising import outline
from tilewright.partition.strategies import PLANNED, choices_of
from tilewright.partition.volumes import grid_options, sizes

CORES = 6
GRID = {"mesh.rows": 2, "mesh.columns": 3, "fabrics.grid.rows": 2, "fabrics.grid.columns": 3}
MODEL, MULTICAST = (
    core_model(load_machine("bwdsp-56", {**GRID, "fabrics.grid.multicast": multicast}), "f32")
    for multicast in ("none", "path")
)


def bounds(layers, every, cores, weights, model):
    """For each grid of each layer, a lower bound on the cost of any plan with it, in this layer or
    an equal one; infinite if it exceeds the limit or does not fit the buffers.
    """
    keys, groups = promising._grouped(layers, every, cores, model)
    promising._bound(layers, [groups[key] for key in keys], weights, model)
    return [groups[key].least for key in keys]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([None, MODEL, MULTICAST]))
def test_an_outline_is_what_the_regions_of_all_cells_are(seed, model):
    for layer in layers_of(random_network(np.random.default_rng(seed))):
        grids = choices_of(layer, CORES, PLANNED, None).grids
        found, table = outline(layer, grids, CORES, model), grid_options(layer, grids, CORES, model)
        whole = grids.parts == 1
        np.testing.assert_array_equal(found.weights[whole], table.weights[whole])
        assert (found.weights <= table.weights).all()
        np.testing.assert_array_equal(found.sums, table.sums)
        np.testing.assert_allclose(found.work, table.work)
        assert (found.least <= table.buffers).all()
        assert (table.buffers <= found.most).all()
        sides = np.maximum(table.kept[..., 1] - table.kept[..., 0], 0).max(axis=1)
        assert (sides[:, : grids.rank] <= found.kept).all()
        for extents, (_, boxes) in zip(found.needs, table.needs, strict=True):
            longest = np.maximum(boxes[..., 1] - boxes[..., 0], 0).max(axis=1)
            assert (longest <= extents.longest).all()
            if model is not MULTICAST:
                np.testing.assert_array_equal(extents.values, sizes(boxes).sum(axis=1))


def test_outlines_of_convolutions_products_and_pools_look_at_no_cell(monkeypatch):
    """A product whose layer drops its places of one element, too."""
    monkeypatch.setattr(promising, "grid_options", None)
    for layer in layers_of(network("lenet5", 1)):
        outline(layer, choices_of(layer, CORES, ("products",), None).grids, CORES, None)


def test_cells_that_share_a_sum_keep_parts_of_its_longest_side():
    layer = layers_of(network("lenet5", 1))[4]
    assert layer.shape == (1, 120, 1, 1)
    whole = undivided(layer)
    terms = [(cut(5, 5), cut(5, 5)), (cut(5, 2), cut(5, 5)), (cut(5, 1), cut(5, 1))]
    grids = Grids.of(layer, [replace(whole, terms=(cut(16, 16), *own)) for own in terms])
    kept = outline(layer, grids, 25, None).kept
    assert kept.tolist() == [[1, 120, 1, 1], [1, 40, 1, 1], [1, 5, 1, 1]]


@pytest.mark.parametrize(
    ("weights", "model"),
    [(TRAFFIC, None), (ACTIVATIONS, MODEL), (TIME, MODEL), (TRAFFIC, MULTICAST)],
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_plan_costs_less_than_the_bounds_of_its_grids(weights, model, seed):
    random = np.random.default_rng(seed)
    layers = layers_of(random_network(random))
    every = [choices_of(layer, CORES, PLANNED, None) for layer in layers]
    lowest = bounds(layers, every, CORES, weights, model)
    for _ in range(20):
        numbers = [int(random.integers(len(choice.grids))) for choice in every]
        chosen = [
            (choice.strategy(number), choice.grids.grid(number))
            for choice, number in zip(every, numbers, strict=True)
        ]
        cost = given_plan(layers, CORES, chosen, model, weights).cost
        for least, number in zip(lowest, numbers, strict=True):
            assert least[number] <= cost + 1e-9


@pytest.mark.parametrize("name", ["lenet5", "alexnet"])
def test_grids_that_are_left_out_are_in_no_cheaper_plan(name, monkeypatch):
    layers = layers_of(network(name, 1))
    every = space(layers, 14, TRAFFIC).best()
    monkeypatch.setattr(promising, "_CORES_OF_PAIRS", 14 * 60**2)
    monkeypatch.setattr(promising, "_FEW", 20)
    some = space(layers, 14, TRAFFIC).best()
    assert every.proven
    assert some.bound <= every.cost <= some.cost
    assert some.considered == every.considered
    assert some.cost == every.cost or not some.proven


def test_inputs_and_cycles_count_in_what_a_grid_costs_alone():
    layer = layers_of(network("lenet5", 1))[0]
    choice = choices_of(layer, 4, PLANNED, None)
    weights = Weights(1, 1, 1, 3.0, 2.0)
    exact = ChoiceCosts([layer], [choice], 4, weights, MODEL).alone(0)
    (least,) = bounds([layer], [choice], 4, weights, MODEL)
    np.testing.assert_allclose(least[choice.grids.parts == 1], exact[choice.grids.parts == 1])
    assert (least <= exact + 1e-9).all()
