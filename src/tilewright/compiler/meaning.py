"""The result of an operator by the meaning of the programs of all core groups.

In: an option, its programs (that of a piece, and that which adds up partial results) and whole
operands. Out: the operator's result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.codegen.artifact import Array
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.tune.choose import Option


def operator_meaning(
    option: Option, programs: Sequence[Program], mesh: tuple[int, int], operands: tuple[Array, ...]
) -> Array:
    """Each group's piece interpreted; their results put together, or added up."""
    partition, seed, program = option.partition, option.candidate.seed, programs[0]
    stored = []
    for piece in partition.pieces:
        inputs = program_inputs(piece.op, seed, program, piece.take(operands))
        stored.append(interpret(program, inputs, mesh)[seed.result])
    if option.adding is not None:
        (share,) = option.adding.op.out_shape
        whole = _added(programs[1], stored, share, mesh)
        return operator_result(partition.piece, seed, program, {seed.result: whole})
    results = [
        operator_result(piece.op, seed, program, {seed.result: own})
        for piece, own in zip(partition.pieces, stored, strict=True)
    ]
    return partition.assemble(results)


def _added(program: Program, partial: Sequence[Array], share: int, mesh: tuple[int, int]) -> Array:
    """The sum of partial results as they are stored: each group adds up its share of elements."""
    first, beyond = partial[0], share * len(partial) - partial[0].size
    flat = [np.pad(x.ravel(), (0, beyond)) for x in partial]
    sums = []
    for start in range(0, share * len(partial), share):
        inputs = {f"x{i}": x[start : start + share] for i, x in enumerate(flat)}
        sums.append(interpret(program, inputs, mesh)["y"])
    whole: Array = np.concatenate(sums)[: first.size].reshape(first.shape)
    return whole
