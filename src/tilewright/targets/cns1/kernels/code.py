"""Whole kernels of a Torrent as text: what stands around the pipelined loops of `bodies`.

In: a machine and how often the inner loop runs. Out: a source in register transfer notation; each
docstring says what the registers hold on entry. The loop's branch is followed by its delay slot.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.machine import Machine
from tilewright.targets.cns1.kernels.bodies import (
    backward_body,
    errors_body,
    forward_body,
    update_body,
)
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines
from tilewright.targets.cns1.sections import Rdram

_RETURN = ("goto $31", "nop")


def forward_code(machine: Machine, patterns: int, trips: int, table_elements: int) -> str:
    """The next layer of one or two patterns, in stripes of 64 columns.

    `$4` weights, `$5` rows, `$6` columns, `$7` and `$16` inputs, `$8` and `$17` outputs, `$22` the
    shift of sums, `$23` the middle of the sigmoid table, `$21` its start.
    """
    rdram = machine.section(Rdram)
    lines = -(-table_elements // rdram.open_bytes) * rdram.chips_per_port
    body = [
        *("$9 = $6 << 1", "$28 = 32", "vlr = $28", "vshift = $22", "$30 = 128"),
        *("$15 = $4 + $9", "$10 = $7 + $5"),
        *("stripe: $14 = $4", "$20 = $4 + 64", "$13 = $7", "$18 = $16"),
        *(f"$v{17 + i} = $v0" for i in range(2 * patterns)),
        *pipelined_lines(forward_body(patterns), machine, trips),
        *("$4 = $4 + $30", "$29 = $21"),
        *("$v0 = m[$29+=$30].w" for _ in range(lines)),
    ]
    outputs = ("$8", "$8", "$17", "$17")
    for i in range(2 * patterns):
        body += [f"$v{21 + i} = $v0 addap0 $v{17 + i}", f"$v{25 + i} = m[$23+$v{21 + i}].b"]
        body.append(f"d[{outputs[i]}+=$28].b = $v{25 + i}")
    return _text([*body, "if ($4 != $15) stripe", "nop", *_RETURN])


def errors_code(machine: Machine, trips: int) -> str:
    """The scaled error of the output layer.

    `$4` results, `$5` elements, `$13` outputs, `$16` errors, `$2` the factor.
    """
    head = ["$28 = 32", "vlr = $28", "$8 = 64", "$vs1 = $2", "$10 = $13 + $5"]
    return _text([*head, *pipelined_lines(errors_body(), machine, trips), *_RETURN])


def backward_code(machine: Machine, trips: int) -> str:
    """Errors of the hidden layer, in groups of 32: transposed product, reduction, scaling.

    `$4` weights, `$9` bytes of a row, `$7` errors of the outputs and `$25` their bytes, `$5` and
    `$6` hidden vector and its end, `$18` errors of the hidden layer, `$19` 128 bytes of the cache.
    """
    sums, halves = range(17, 21), range(21, 25)
    return _text(
        [
            *("$28 = 32", "vlr = $28", "$8 = 64", "$30 = 4", "$1 = 1", "$vs9 = $1"),
            *_steps(),
            "$10 = $7 + $25",
            *("group: $22 = $19", "$21 = $19 + 128"),
            *("rows: $14 = $4", "$20 = $4 + 64", "$13 = $7"),
            *(f"$v{i} = $v0" for i in sums),
            *pipelined_lines(backward_body(), machine, trips),
            *("$4 = $4 + $26", "$24 = 16"),
            "reduce: vlr = $24",
            *(f"$v{h} = $v{s}[$24]" for h, s in zip(halves, sums, strict=True)),
            "$24 = $24 >> 1",
            *(f"$v{s} = $v{s} + $v{h}" for h, s in zip(halves, sums, strict=True)),
            *("if ($24 > $0) reduce", "nop"),
            *(f"d[$22+=$30].w = $v{s}" for s in sums),
            *("if ($22 != $21) rows", "vlr = $28"),
            *("$v25 = d[$19].w", "$v26 = d[$5+=$28].b"),
            *("$v25 = $v25 * $v26", "$v26 = $v26 - $vs9", "$v25 = $v25 * $v26"),
            *("if ($5 != $6) group", "m[$18+=$8].h = $v25"),
            *_RETURN,
        ]
    )


def update_code(machine: Machine, trips: int) -> str:
    """A matrix plus the outer product of an error and a data vector, four rows at a time.

    `$4` weights, `$9` bytes of a row, `$7` and `$12` data vector and its end, `$17` errors and
    `$25` their bytes.
    """
    factors = []
    for row in range(4):
        shift = 24 - 8 * row
        factors += [f"$2 = $11 << {shift}", "$2 = $2 >> 24", f"$vs{1 + row} = $2"]
    return _text(
        [
            *("$28 = 32", "vlr = $28", "$8 = 64"),
            *_steps(),
            "$10 = $17 + $25",
            *("rows: $11 = d[$7].w", "$7 = $7 + 4"),
            *factors,
            *("$14 = $4", "$16 = $4", "$20 = $4 + 64", "$21 = $20", "$13 = $17"),
            *pipelined_lines(update_body(), machine, trips),
            *("if ($7 != $12) rows", "$4 = $4 + $26"),
            *_RETURN,
        ]
    )


def _steps() -> tuple[str, ...]:
    """`$26` has the bytes of four rows, `$27` the way back over three and on by 64 columns."""
    return ("$26 = $9 << 2", "$27 = $9 - $26", "$27 = $27 + 128")


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
