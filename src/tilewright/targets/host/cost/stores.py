"""Rules for non-temporal stores and prefetches: which results and which operands use them.

In: a program, a machine and values for the program's parameters. Out: truth values, of the values'
form. Results that no cache would hold are stored non-temporally, in whole lines, which neither
reads a line first nor evicts another. The same rules price candidates and decide the generated
code.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value, evaluate, product
from tilewright.ir.nodes import Program, Tensor, Tile
from tilewright.machine import Machine
from tilewright.targets.host.sections import Caches


def is_far(tensor: Tensor, machine: Machine, env: Mapping[str, Value]) -> Value:
    """True if a tensor exceeds the last-level cache."""
    caches = machine.find_section(Caches)
    if caches is None:
        return False
    return whole_bytes(tensor, env) > caches.l3.capacity_bytes


def is_fetched_ahead(tensor: Tensor, caches: Caches, env: Mapping[str, Value]) -> Value:
    """True if products prefetch a tensor in place: its floats exceed half the level 2 cache."""
    exceeds = np.greater(whole_bytes(tensor, env), caches.l2.capacity_bytes // 2)
    return exceeds & dtype(tensor.dtype).is_float


def whole_bytes(tensor: Tensor, env: Mapping[str, Value]) -> Value:
    """Bytes of a whole tensor."""
    return evaluate(product(tensor.shape), env) * dtype(tensor.dtype).size_bytes


def passes_caches(
    tile: Tile, program: Program, machine: Machine, env: Mapping[str, Value]
) -> Value:
    """True if a result that is written once, in place, uses non-temporal stores: its tensor is far
    and its rows are whole lines of main memory.
    """
    tensor = program.tensor(tile.tensor)
    return is_far(tensor, machine, env) & has_whole_lines(tile, program, machine, env)


def has_whole_lines(
    tile: Tile, program: Program, machine: Machine, env: Mapping[str, Value]
) -> Value:
    """True if the rows of a tile and of its tensor are whole lines of main memory."""
    tensor, line = program.tensor(tile.tensor), machine.main.alignment_bytes
    row, part = (evaluate(e, env) for e in (tensor.shape[-1], tile.ranges[-1].extent))
    size = dtype(tensor.dtype).size_bytes
    return (row * size % line == 0) & (part * size % line == 0)
