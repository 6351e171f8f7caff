"""Whole kernels of a Torrent as text: what stands around the pipelined loops of `bodies`.

In: a machine and how often the inner loop runs. Out: a source in register transfer notation; each
docstring says what the registers hold on entry. The loop's branch is followed by its delay slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilewright.machine import Machine
from tilewright.targets.cns1.kernels import bodies
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines
from tilewright.targets.cns1.sections import Rdram

_RETURN = ("goto $31", "nop")
_LABEL = "loop: "
_SUMS = range(bodies.FIRST_SUM, bodies.FIRST_SUM + bodies.ROWS)


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
        *pipelined_lines(bodies.forward_body(patterns), machine, trips),
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
    return _text([*head, *pipelined_lines(bodies.errors_body(), machine, trips), *_RETURN])


def backward_code(machine: Machine, trips: int) -> str:
    """Errors of the hidden layer, in groups of 32: transposed product, reduction, scaling.

    `$4` weights, `$9` bytes of a row, `$7` errors of the outputs and `$25` their bytes, `$5` and
    `$6` hidden vector and its end, `$18` errors of the hidden layer, `$19` 128 bytes of the cache.
    """
    lengths = ("$2", "$3", "$11", "$12", "$15")
    return _text(
        [
            *("$28 = 32", "vlr = $28", "$8 = 64", "$30 = 4", "$1 = 1", "$vs9 = $1"),
            *(f"{register} = {16 >> i}" for i, register in enumerate(lengths)),
            *_steps(),
            "$10 = $7 + $25",
            *("group: $22 = $19", "$21 = $19 + 128"),
            *("rows: $14 = $4", "$20 = $4 + 64", "$13 = $7"),
            *(f"$v{s} = $v0" for s in _SUMS),
            *pipelined_lines(bodies.backward_body(), machine, trips),
            "$4 = $4 + $26",
            *lane_sums(lengths, bodies.ROWS),
            *(f"d[$22+=$30].w = $v{s}" for s in _SUMS),
            *("if ($22 != $21) rows", "vlr = $28"),
            *("$v25 = d[$19].w", "$v26 = d[$5+=$28].b"),
            *("$v25 = $v25 * $v26", "$v26 = $v26 - $vs9", "$v25 = $v25 * $v26"),
            *("if ($5 != $6) group", "m[$18+=$8].h = $v25"),
            *_RETURN,
        ]
    )


def lane_sums(lengths: Sequence[str], count: int) -> Iterator[str]:
    """Reduce each of the 32-lane sums of `backward_body` to its first lane. `lengths` hold 16, 8,
    4, 2, 1; the last of them stays the vector length.
    """
    for length in lengths:
        yield f"vlr = {length}"
        yield from (f"$v{1 + i} = $v{bodies.FIRST_SUM + i}[{length}]" for i in range(count))
        yield from (
            f"$v{s} = $v{s} + $v{1 + i}"
            for i, s in enumerate(range(bodies.FIRST_SUM, bodies.FIRST_SUM + count))
        )


def update_code(machine: Machine, trips: int) -> str:
    """A matrix plus the outer product of an error and a data vector, four rows at a time.

    `$4` weights, `$9` bytes of a row, `$7` and `$12` data vector and its end, `$17` errors and
    `$25` their bytes.
    """
    return _text(
        [
            *("$28 = 32", "vlr = $28", "$8 = 64"),
            *_steps(),
            "$10 = $17 + $25",
            *("rows: $14 = $4", "$20 = $4 + 64"),
            *updated_rows(machine, trips),
            *("if ($7 != $12) rows", "$4 = $4 + $26"),
            *_RETURN,
        ]
    )


def updated_rows(
    machine: Machine,
    trips: int,
    *,
    rows: int = bodies.ROWS,
    weights: str = "$4",
    factors: Sequence[str] = bodies.FACTORS,
    rounding: str = "",
) -> Iterator[str]:
    """Some rows of weights at `$14` and `$20`, plus the outer product of the errors from `$17` to
    `$10` and the bytes of the word at `$7`; moves `$7` to the next word.
    """
    loop = pipelined_lines(bodies.update_body(rows, factors, rounding), machine, trips)
    needs = {"$13": ["$13 = $17"], "$16": [f"$16 = {weights}", f"$24 = {weights} + 64"]}
    needs |= _factors(loop, factors[:rows])
    yield from _where_needed(_once(loop) if trips == 1 else _first_pass_apart(loop), needs)


def _factors(loop: Sequence[str], factors: Sequence[str]) -> dict[str, list[str]]:
    """The instructions that make each factor of a word, each before its first use in a loop."""
    used = {f"* {factor}": 24 - 8 * row for row, factor in enumerate(factors)}
    needs, load = {}, ["$11 = d[$7].w", "$7 = $7 + 4"]
    for use in sorted(used, key=lambda u: next(i for i, x in enumerate(loop) if _has(x, u))):
        above = used[use]
        shifted = [f"$2 = $11 << {above}", "$2 = $2 >> 24"] if above else ["$2 = $11 >> 24"]
        needs[use] = [*load, *shifted, f"{use.removeprefix('* ')} = $2"]
        load = []
    return needs


def _has(line: str, text: str) -> bool:
    """True if a line has a text whose last register is no longer one."""
    return re.search(rf"{re.escape(text)}(?!\d)", line) is not None


def _where_needed(loop: list[str], needs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The loop with instructions inserted just before the first line that has the text needing
    them, or before its label: instructions that run while the first loads are under way cost
    nothing.
    """
    open_needs = dict(needs)
    for line in loop:
        for text in [t for t in open_needs if _has(line, t) or line.startswith("loop")]:
            yield from open_needs.pop(text)
        yield line


def _first_pass_apart(loop: list[str]) -> list[str]:
    """A loop without prologue, its first pass in front so that other instructions fit inside."""
    return [*_once(loop), *loop] if loop[0].startswith(_LABEL) else loop


def _once(loop: list[str]) -> list[str]:
    """Instructions of one pass of a loop without a prologue: no label, no branch, no nops."""
    lines = (line.removeprefix(_LABEL) for line in loop)
    return [line for line in lines if line != "nop" and not line.startswith("if ")]


def _steps() -> tuple[str, ...]:
    """`$26` has the bytes of four rows, `$27` the way back over three rows and on by 64 columns."""
    return ("$26 = $9 << 2", "$27 = $9 - $26", "$27 = $27 + 128")


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
