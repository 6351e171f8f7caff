"""An expression over the elements of tensors in main memory as text of the Torrent.

Whole passes over 128 elements are a pipelined loop; what is left are vectors, the last of them
shorter. The code writes over scalar registers but those of `writer` and of the arguments.
"""

from __future__ import annotations

import re

from tilewright.machine import Machine
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.kernels.elements import (
    FACTOR_CONSTANTS,
    PASS,
    SCALAR_CONSTANTS,
    VECTOR,
    Elements,
    elements_body,
    vector_lines,
)
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines, plain_lines
from tilewright.targets.cns1.sections import Vectors

_SCHEDULED_OPERATIONS = 6
"""Longer loops stay as they stand: the solver takes minutes, and four vectors in turn leave the
arithmetic few gaps.
"""


def write_elements(writer: Writer, machine: Machine, elements: Elements, count: int) -> None:
    """`count` elements: the first pointer of each tensor has its place, `$30` is 128."""
    vector_scalars = machine.section(Vectors).scalar_registers > 0
    _constants(writer, elements, vector_scalars=vector_scalars)
    for tensor, size in enumerate(elements.sizes):
        first, *others = elements.pointers(tensor)
        for i, pointer in enumerate(others, 1):
            writer.add(f"{pointer} = {first} + {i * VECTOR * size}")
    passes, rest = divmod(count, PASS)
    if passes:
        loop = writer.label("loop")
        writer.sum("$10", "$13", passes * elements.step_bytes, "$11")
        body = elements_body(elements, vector_scalars=vector_scalars)
        short = elements.operations <= _SCHEDULED_OPERATIONS
        lines = pipelined_lines(body, machine, passes) if short else plain_lines(body)
        writer.add(*(re.sub(r"\bloop\b", loop, line) for line in lines))
    vectors, tail = divmod(rest, VECTOR)
    writer.add(*vector_lines(elements, range(vectors), vector_scalars=vector_scalars))
    if tail:
        last = vector_lines(elements, (vectors,), vector_scalars=vector_scalars)
        writer.add(f"$12 = {tail}", "vlr = $12", *last, "vlr = $28")


def _constants(writer: Writer, elements: Elements, *, vector_scalars: bool) -> None:
    for number, factor, scalar in zip(
        elements.constants, FACTOR_CONSTANTS, SCALAR_CONSTANTS, strict=False
    ):
        writer.constant(scalar, number)
        if vector_scalars:
            writer.add(f"{factor} = {scalar}")
