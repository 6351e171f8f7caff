"""The loop of look-ups in a table of bytes, as text of the Torrent: a pass over four vectors.

In: a shift. Out: a `Body` for 128 sums, or the text of a few vectors. Sums, table and results lie
in main memory (ICSI TR-93-046, 4.2.3, where results go to the data cache).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.targets.cns1.kernels.bodies import Body
from tilewright.targets.cns1.kernels.elements import PASS, POINTERS, VECTORS

SUM_BYTES, RESULT_BYTES = 4, 1
ENTRIES = 1 << 15
"""Entries of the table that `addap0` clips to."""
MIDDLE, SHIFT = "$1", "$2"
"""Hold the address of the element for zero, and how far sums are shifted."""


@dataclass(frozen=True)
class TableLookups:
    """Look-ups in a table of so many bytes, of sums over 2 ** `shift`."""

    entries: int
    shift: int
    sizes: ClassVar[tuple[int, ...]] = (SUM_BYTES, RESULT_BYTES)
    step_bytes: ClassVar[int] = PASS * SUM_BYTES
    starts: ClassVar[tuple[str, ...]] = (POINTERS[0], MIDDLE, POINTERS[1])

    def __post_init__(self) -> None:
        if self.entries != ENTRIES:
            raise ProgramError(
                f"a Torrent clips sums to the {ENTRIES} entries of a table, found {self.entries}",
                fix=f"--entries {ENTRIES}, with the elements at the ends repeated",
            )

    def tensor_bytes(self, count: Value) -> tuple[Value, ...]:
        """Bytes of the sums, the table and the results, in the order of the operands."""
        return SUM_BYTES * count, self.entries, RESULT_BYTES * count

    def pointers(self, tensor: int) -> tuple[str, ...]:
        """Pointer registers of a tensor: one for the sums, a vector of which takes all ports, and
        one for each vector of results, which takes one.
        """
        return POINTERS[1 : 1 + VECTORS] if tensor else POINTERS[:1]


def lookup_body(lookup: TableLookups) -> Body:
    """The loop over passes of 128 sums, without what stands around it."""
    every = tuple(f"port {port}" for port in range(VECTORS))
    ports = [(pointer, port) for pointer in (*lookup.pointers(0), MIDDLE) for port in every]
    ports += zip(lookup.pointers(1), every, strict=True)
    objects = [(lookup.pointers(0)[0], "sums"), (MIDDLE, "table")]
    objects += [(pointer, f"results {i}") for i, pointer in enumerate(lookup.pointers(1))]
    lines = (*lookup_lines(lookup, range(VECTORS)), "if ($13 != $10) loop")
    text = "loop:\n" + "".join(f"    {line}\n" for line in lines)
    return Body("lookup", text, tuple(ports), tuple(objects))


def lookup_lines(lookup: TableLookups, vectors: Sequence[int]) -> list[str]:
    """All loads, then indices, then look-ups, then all stores."""
    (sums,), results = lookup.pointers(0), lookup.pointers(1)
    return [
        *(f"$v{1 + v} = m[{sums}+=$30].w" for v in vectors),
        *(f"$v{5 + v} = $v0 addap0 $v{1 + v}" for v in vectors),
        *(f"$v{9 + v} = m[{MIDDLE}+$v{5 + v}].b" for v in vectors),
        *(f"m[{results[v]}+=$30].b = $v{9 + v}" for v in vectors),
    ]
