"""An expression or a table over the elements of tensors in main memory as text of the Torrent.

Whole passes over 128 elements are a pipelined loop; what is left are vectors, the last of them
shorter. The code writes over scalar registers but those of `writer` and of the arguments.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from tilewright.machine import Machine
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.kernels import elements
from tilewright.targets.cns1.kernels.elements import Elements, elements_body, vector_lines
from tilewright.targets.cns1.kernels.lookups import (
    MIDDLE,
    SHIFT,
    TableLookups,
    lookup_body,
    lookup_lines,
)
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines, plain_lines
from tilewright.targets.cns1.sections import Vectors

_SCHEDULED_OPERATIONS = 6
"""Longer loops stay as they stand: the solver takes minutes, and four vectors in turn leave the
arithmetic few gaps.
"""
Streamed: TypeAlias = Elements | TableLookups
"""Element-wise computation: an expression, or a table look-up."""


def write_elements(writer: Writer, machine: Machine, streamed: Streamed, count: int) -> None:
    """`count` elements: the first pointer of each tensor has its place, `$30` is 128. The start of
    a table is in `MIDDLE`, which the code moves on.
    """
    _constants(writer, machine, streamed)
    for tensor, size in enumerate(streamed.sizes):
        first, *others = streamed.pointers(tensor)
        for i, pointer in enumerate(others, 1):
            writer.add(f"{pointer} = {first} + {i * elements.VECTOR * size}")
    passes, rest = divmod(count, elements.PASS)
    if passes:
        loop = writer.label("loop")
        writer.sum("$10", "$13", passes * streamed.step_bytes, "$11")
        lines = _passes(machine, streamed, passes)
        writer.add(*(re.sub(r"\bloop\b", loop, line) for line in lines))
    vectors, tail = divmod(rest, elements.VECTOR)
    writer.add(*_vectors(machine, streamed, range(vectors)))
    if tail:
        last = _vectors(machine, streamed, range(vectors, vectors + 1))
        writer.add(f"$12 = {tail}", "vlr = $12", *last, "vlr = $28")


def _passes(machine: Machine, streamed: Streamed, passes: int) -> list[str]:
    """The loop over whole passes."""
    if isinstance(streamed, TableLookups):
        return pipelined_lines(lookup_body(streamed), machine, passes)
    body = elements_body(streamed, vector_scalars=_vector_scalars(machine))
    short = streamed.operations <= _SCHEDULED_OPERATIONS
    return pipelined_lines(body, machine, passes) if short else plain_lines(body)


def _vectors(machine: Machine, streamed: Streamed, vectors: range) -> list[str]:
    """Some vectors of the pass that is not whole."""
    if isinstance(streamed, TableLookups):
        return lookup_lines(streamed, vectors)
    return vector_lines(streamed, vectors, vector_scalars=_vector_scalars(machine))


def _constants(writer: Writer, machine: Machine, streamed: Streamed) -> None:
    if streamed.shift is not None:
        writer.constant(SHIFT, streamed.shift)
        writer.add(f"vshift = {SHIFT}")
    if isinstance(streamed, TableLookups):
        writer.sum(MIDDLE, MIDDLE, streamed.entries // 2, "$11")
        return
    for number, factor, scalar in zip(
        streamed.constants, elements.FACTOR_CONSTANTS, elements.SCALAR_CONSTANTS, strict=False
    ):
        writer.constant(scalar, number)
        if _vector_scalars(machine):
            writer.add(f"{factor} = {scalar}")


def _vector_scalars(machine: Machine) -> bool:
    return machine.section(Vectors).scalar_registers > 0
