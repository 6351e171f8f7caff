"""Kernels on a simulated node with real numbers: NumPy arrays in, results and cycles out.

Rows and columns that a kernel does not divide are padded with zeros, and the cycles are those of
the padded arrays (`NodeResult.padded`). Weights and errors have two bytes, activations one; other
arguments are refused (ShapeError of `arguments`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import CapacityError
from tilewright.machine import Machine
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.kernels import arguments
from tilewright.targets.cns1.kernels.code import (
    backward_code,
    errors_code,
    forward_code,
    update_code,
)
from tilewright.targets.cns1.node import Bytes, assembled, node_table, run_node

Array = NDArray[Any]
STRIPE, WORD, GROUP, PASS = 64, 4, 32, 128
LEAST_TRIPS = 2
"""Iterations that the pipelines need."""


@dataclass(frozen=True)
class NodeResult:
    """Values that a kernel computed, and its run; `padded` is the shape that its cycles are for."""

    values: Array
    padded: tuple[int, ...]
    run: CoreRun

    @property
    def cycles(self) -> int:
        """Cycles of the kernel."""
        return self.run.cycles


def forward(
    machine: Machine, weights: Array, inputs: Array, table: Array, shift: int
) -> NodeResult:
    """sigmoid of inputs x weights: [patterns, rows] i8 x [rows, columns] i16 -> [.., columns] i8.

    `table` has 2^15 bytes; a sum, shifted right and clipped, is its index from the middle. Raises
    CapacityError if a memory is too small.
    """
    weights, table = arguments.matrix(weights), arguments.sigmoid(table, shift)
    inputs = arguments.patterns(inputs, len(weights))
    patterns, columns = len(inputs), weights.shape[1]
    matrix = _padded(weights, (WORD, STRIPE), (LEAST_TRIPS * WORD, STRIPE), "<i2")
    rows, width = matrix.shape
    given = np.zeros((patterns, rows), np.int8)
    given[:, : inputs.shape[1]] = inputs
    start = -(-matrix.nbytes // len(table)) * len(table)
    outputs = [patterns * rows + i * width for i in range(patterns)]
    code = forward_code(machine, patterns, rows // WORD, len(table))
    registers = {"$4": 0, "$5": rows, "$6": width, "$7": 0, "$8": outputs[0]}
    registers |= {"$16": rows, "$17": outputs[-1], "$22": shift}
    registers |= {"$21": start, "$23": start + len(table) // 2}
    main = {0: matrix, start: table}
    found = _run(machine, code, main, {0: given}, outputs[-1] + width, registers)
    values = _cached(found, outputs[0], patterns * width, "i1").reshape(patterns, width)
    return NodeResult(values[:, :columns], (rows, width), found)


def errors(machine: Machine, results: Array, outputs: Array, factor: int) -> NodeResult:
    """factor * (results - outputs): [columns] i8 each -> [columns] i16, wrapped."""
    results = arguments.vector("results", results, "i1")
    outputs = arguments.integers("outputs", outputs, "i1", len(results))
    arguments.word("factor", factor)
    count = len(results)
    size = max(LEAST_TRIPS, -(-count // PASS)) * PASS
    whole = [np.zeros(size, np.int8) for _ in range(2)]
    whole[0][:count], whole[1][:count] = results, outputs
    code = errors_code(machine, size // PASS)
    registers = {"$4": 0, "$5": size, "$13": 0, "$16": size, "$2": factor}
    found = _run(machine, code, {0: whole[0]}, {0: whole[1]}, 3 * size, registers)
    return NodeResult(_cached(found, size, 2 * size, "<i2")[:count], (size,), found)


def backward(machine: Machine, weights: Array, error: Array, hidden: Array) -> NodeResult:
    """hidden * (hidden - 1) * (weights x error): [rows, columns] i16, [columns] i16, [rows] i8 ->
    [rows] i16, wrapped, as the report's listing has it. Of reals in 0 .. 1 that is the derivative
    of the falling sigmoid 1 / (1 + exp(x)) times the sum; the 1 is an integer here as there, which
    for bytes in steps of 1/128 is no 1.
    """
    weights, count = arguments.matrix(weights), len(weights)
    error = arguments.integers("error", error, "<i2", weights.shape[1])
    hidden = arguments.integers("hidden", hidden, "i1", count)
    matrix = _padded(weights, (GROUP, STRIPE), (GROUP, LEAST_TRIPS * STRIPE), "<i2")
    rows, width = matrix.shape
    vector, state = np.zeros(width, "<i2"), np.zeros(rows, np.int8)
    vector[: len(error)], state[:count] = error, hidden
    results = -(-matrix.nbytes // GROUP) * GROUP
    registers = {"$4": 0, "$9": 2 * width, "$7": rows, "$25": 2 * width, "$5": 0, "$6": rows}
    registers |= {"$18": results, "$19": rows + 2 * width}
    cache = {0: state, rows: vector}
    code = backward_code(machine, width // STRIPE)
    main = {0: matrix, results: np.zeros(rows, "<i2")}
    found = _run(machine, code, main, cache, rows + 2 * width + 128, registers)
    values = found.memory("main")[results : results + 2 * rows].view("<i2")
    return NodeResult(values[:count].copy(), (rows, width), found)


def update(machine: Machine, weights: Array, error: Array, data: Array) -> NodeResult:
    """weights + data x error^T: [rows, columns] i16, [columns] i16, [rows] i8 -> i16, wrapped."""
    weights = arguments.matrix(weights)
    rows, columns = weights.shape
    error = arguments.integers("error", error, "<i2", columns)
    data = arguments.integers("data", data, "i1", rows)
    matrix = _padded(weights, (WORD, STRIPE), (WORD, LEAST_TRIPS * STRIPE), "<i2")
    height, width = matrix.shape
    vector, state = np.zeros(width, "<i2"), np.zeros(height, np.int8)
    vector[:columns], state[:rows] = error, data
    registers = {"$4": 0, "$9": 2 * width, "$7": 0, "$12": height, "$17": height, "$25": 2 * width}
    code = update_code(machine, width // STRIPE)
    cache = {0: state, height: vector}
    found = _run(machine, code, {0: matrix}, cache, height + 2 * width, registers)
    values = found.memory("main")[: matrix.nbytes].view("<i2").reshape(height, width)
    return NodeResult(values[:rows, :columns].copy(), (height, width), found)


def _padded(matrix: Array, multiples: tuple[int, int], least: tuple[int, int], dtype: str) -> Array:
    shape = [
        max(low, -(-size // m) * m)
        for size, m, low in zip(matrix.shape, multiples, least, strict=True)
    ]
    found = np.zeros(shape, dtype)
    found[: matrix.shape[0], : matrix.shape[1]] = matrix
    return found


def _run(
    machine: Machine,
    code: str,
    main: Mapping[int, Array],
    cache: Mapping[int, Array],
    cache_bytes: int,
    registers: Mapping[str, int],
) -> CoreRun:
    table = node_table(machine)
    needed = max(place + part.nbytes for place, part in main.items())
    for name, size in (("cache", cache_bytes), ("main", needed)):
        room = table.memory(name).capacity_bytes
        if size > room:
            raise CapacityError(
                f"the arrays take {size} bytes of memory {name!r}, which has {room}",
                fix="divide the matrix over more nodes",
            )
    images = _image(main, needed), _image(cache, cache_bytes)
    program = assembled(code, table)
    return run_node(program, main=images[0], cache=images[1], registers=registers)


def _image(parts: Mapping[int, Array], size: int) -> Bytes:
    image = np.zeros(size, np.uint8)
    for place, part in parts.items():
        raw = np.ascontiguousarray(part).view(np.uint8).ravel()
        image[place : place + len(raw)] = raw
    return image


def _cached(run: CoreRun, place: int, size: int, dtype: str) -> Array:
    return run.memory("cache")[place : place + size].view(dtype).copy()
