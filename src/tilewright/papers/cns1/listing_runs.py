"""The report's listings on a simulated node: arrays in, results and cycles out.

Registers and the stack are as the head of each listing says; the stack lies in the data cache.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import InstructionTable
from tilewright.machine import load_machine
from tilewright.papers.cns1.repaired import listing
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.kernels.run import NodeResult
from tilewright.targets.cns1.node import Bytes, assembled, node_table, run_node

Array = NDArray[Any]
STACK, CACHE_BYTES = 4000, 4096


def forward(weights: Array, inputs: Array, table: Array, shift: int) -> NodeResult:
    """The next layer of two patterns by the listing of recall, of one by that of training."""
    rows, columns = weights.shape
    patterns = len(inputs)
    start = -(-weights.nbytes // len(table)) * len(table)
    main = np.zeros(start + len(table), np.uint8)
    main[: weights.nbytes], main[start:] = _bytes(weights), _bytes(table)
    first = patterns * rows
    outputs = [first + i * columns for i in range(patterns)]
    others = [rows, *outputs] if patterns == 2 else outputs
    stack = [*others, shift, start + len(table) // 2]
    name = "recall" if patterns == 2 else "forward"
    run = _run(name, main, [inputs], stack, {"$4": 0, "$5": rows, "$6": columns, "$7": 0})
    values = run.memory("cache")[first : first + patterns * columns].view(np.int8)
    return NodeResult(values.reshape(patterns, columns), weights.shape, run)


def errors(results: Array, outputs: Array, factor: int) -> NodeResult:
    """factor * (results - outputs)."""
    count, place = len(results), 1024
    registers = {"$4": 0, "$5": count, "$6": 0, "$7": place}
    run = _run("errors", _bytes(results), [outputs], [factor], registers)
    values = run.memory("cache")[place : place + 2 * count].view("<i2")
    return NodeResult(values, (count,), run)


def update(weights: Array, error: Array, data: Array) -> NodeResult:
    """weights + data x error^T."""
    rows, columns = weights.shape
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0}
    run = _run("update", _bytes(weights), [data, error], [rows], registers)
    values = run.memory("main")[: weights.nbytes].view("<i2").reshape(rows, columns)
    return NodeResult(values, weights.shape, run)


def backward(weights: Array, error: Array, hidden: Array) -> NodeResult:
    """hidden * (hidden - 1) * (weights x error)."""
    rows, columns = weights.shape
    main = np.zeros(weights.nbytes + 2 * rows, np.uint8)
    main[: weights.nbytes] = _bytes(weights)
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0}
    run = _run("backward", main, [hidden, error], [rows, weights.nbytes], registers)
    values = run.memory("main")[weights.nbytes : weights.nbytes + 2 * rows].view("<i2")
    return NodeResult(values, weights.shape, run)


def _run(
    name: str, main: Bytes, cached: list[Array], stack: list[int], registers: dict[str, int]
) -> CoreRun:
    """`cached` arrays follow each other in the data cache."""
    image = np.zeros(CACHE_BYTES, np.uint8)
    image[: sum(a.nbytes for a in cached)] = np.concatenate([_bytes(a) for a in cached])
    parameters = _bytes(np.array(stack, "<i4"))
    image[STACK : STACK + len(parameters)] = parameters
    program = assembled(listing(name), _node(), f"{name}.s")
    return run_node(program, main=main, cache=image, registers={**registers, "$29": STACK})


@cache
def _node() -> InstructionTable:
    return node_table(load_machine("cns1-128"))


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).view(np.uint8).ravel()
