"""Parts of images: rows that neighbours share are fetched once, windows of results pooled where
these are made.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.compiler.checking import program_inputs
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.weights import random_inputs, random_weights
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import If, Transfer
from tilewright.ir.visit import walk
from tilewright.machine import load_machine
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.ops import Unary, conv2d
from tilewright.seeds.pooling import Pooled, PoolWindows, with_pooling
from tilewright.seeds.space import operand_name, seeds_for, with_epilogue
from tilewright.targets.cambricon.code import image_of
from tilewright.targets.cambricon.networks import DeviceNetwork
from tilewright.targets.cambricon.runtime import Device
from tilewright.tune.search import rank

CHANNELS, ROWS, COLUMNS = 64, 24, 75
LATENCY, BYTES_PER_CYCLE = 100, 256


def test_a_part_of_an_image_keeps_rows_of_the_one_before() -> None:
    """Parts of two rows have four with those around: each row of the image and its border is loaded
    once; the device has the bits and the cycles of the program.
    """
    op = tw.ops.conv2d(
        batch=1,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        height=ROWS,
        width=COLUMNS,
        kernel=3,
        padding=1,
        dtype="q8.8:q48.16:q8.8",
    )
    kernel = tw.compile(op, machine="dla-al", algorithm="gathered_windows").plan.only
    loads = [
        [s for s in branch if isinstance(s, Transfer) and s.direction == "get"]
        for stmt in walk(kernel.program.body)
        if isinstance(stmt, If)
        for branch in (stmt.then, stmt.orelse)
    ]
    (new,), (whole,) = (own for own in loads if own)
    assert [str(t.ranges[2].extent) for t in (new, whole)] == ["2", "4"]
    assert kernel.check() == "exact"
    run = Device(image_of(kernel.artifact, kernel.machine), kernel.machine).launch(values=False)
    row, weights = 2 * (COLUMNS + 2) * CHANNELS, 2 * 9 * CHANNELS * CHANNELS
    moved = weights + (ROWS + 2) * row + 2 * ROWS * COLUMNS * CHANNELS
    assert run.unit_busy["TRANSFER"] == (1 + ROWS // 2 * 2) * LATENCY + moved / BYTES_PER_CYCLE
    assert abs(kernel.estimate_cycles - run.cycles) <= 0.02 * run.cycles


@pytest.mark.parametrize(("height", "width", "function"), [(8, 20, "max"), (6, 34, "average")])
def test_windows_are_pooled_where_products_make_them(
    height: int, width: int, function: Pooled
) -> None:
    """By several schedules, each with a shift of channels behind it."""
    op = tw.ops.conv2d(batch=1, in_channels=16, out_channels=32, height=height, width=width,
                       kernel=3, padding=1, dtype="q8.8:q48.16:q8.8")  # fmt: skip
    (plain,) = seeds_for(op, "gathered_windows", whole=True)
    pooled = with_pooling(plain, PoolWindows(function, (2, 2)))
    assert pooled is not None
    seed = with_epilogue(pooled, "0.0 if x0 + x1 < 0.0 else x0 + x1", (("group", "channels"),))
    assert seed is not None
    rng = np.random.default_rng(0)
    operands = tuple(rng.integers(-300, 300, s).astype(np.int16) for s in op.input_shapes)
    shift = rng.integers(-3000, 3000, 32).astype(np.int16)
    windows = op.reference(*operands).reshape(32, height // 2, 2, width // 2, 2).astype(int)
    made = windows.max((2, 4)) if function == "max" else windows.sum((2, 4)) / 4
    (ranking,) = rank([(op, seed)], load_machine("dla-al"), keep=3)
    for candidate in ranking.best:
        program = candidate.program(load_machine("dla-al"))
        given = {**program_inputs(op, seed, program, operands), operand_name(0): shift[None]}
        found = interpret(program, given, (1, 1))["y"]
        order = [program.tensor("y").dims.index(d) for d in ("channels", "rows", "cols")]
        found = found.transpose([*order, *({*range(found.ndim)} - {*order})])[..., 0, 0]
        wanted = np.maximum(made + shift[:, None, None], 0)
        assert np.abs(found - wanted).max() <= (0 if function == "max" else 2)


def test_rows_of_a_first_layer_are_written_inside_a_border() -> None:
    """Pixels side by side are channels of one there: no stage copies them; bits and cycles are
    those of the plan.
    """
    net = NetworkBuilder("rows", "f64")
    first = conv2d(batch=1, in_channels=3, out_channels=64, height=8, width=224, kernel=3,
                   padding=1)  # fmt: skip
    second = replace(first, in_channels=64)
    y = net.apply(first, net.input("x", first.input_shapes[0]),
                  net.weight("v", first.input_shapes[1]), name="first")  # fmt: skip
    y = net.apply(Unary("relu", first.out_shape), y, name="relu")
    y = net.apply(second, y, net.weight("w", second.input_shapes[1]), name="second")
    network = FixedPoint("q8.8:q48.16:q8.8").apply(net.build((y,)))
    made = tw.compile(network, machine="dla-al").plan
    assert isinstance(made, PlannedNetwork)
    assert [s.nodes for s in made.plan.stages] == [("first", "relu"), ("second",)]
    numbers = {**random_inputs(network), **random_weights(network)}
    assert made.arranged is not None
    inputs, weights = made.arranged(numbers), {**numbers, **made.weights}
    found, run = DeviceNetwork(made.plan).run(inputs, weights)
    meant = interpret_plan(made.plan, inputs, weights)
    assert all(np.array_equal(found[name], meant[name]) for name in meant)
    assert abs(made.plan.estimate_cycles - run.cycles) <= 0.02 * run.cycles
