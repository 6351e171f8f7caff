"""The inner loops of recall and training in the obvious order, as text of the Torrent.

Each is one pass over 64 columns of four rows (ICSI TR-93-046, sections 4.2.1, 6.1.2, 6.2.2 and
6.2.3). Registers: `$9` has the bytes of a row, `$27` leads from the fourth row back to the next 64
columns of the first; a pointer of columns 0 to 31 uses two ports, one of columns 32 to 63 the other
two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROWS = 4
WORD_BYTES = 4
LOW, HIGH = "ports of columns 0 to 31", "ports of columns 32 to 63"


@dataclass(frozen=True)
class Body:
    """A loop: its text, and which pointer registers use which ports. Registers of `objects` never
    address the same element in iterations that overlap. The solver looks for a schedule for
    `effort_units` of its own deterministic time.
    """

    name: str
    text: str
    ports: tuple[tuple[str, str], ...]
    objects: tuple[tuple[str, str], ...] = ()
    effort_units: float = 14.0


def forward_body(
    patterns: int,
    *,
    accumulate: bool = True,
    factor_bytes: int = 1,
    vector_scalars: bool = True,
    vectors: int = 2,
) -> Body:
    """The product of a matrix with one or two vectors of bytes or halves: a word gives the factors
    of four or two rows. Without `accumulate` a multiplication and an addition are two instructions,
    without `vector_scalars` factors stay in the scalar unit. A row has one or two `vectors`.
    """
    words, inputs = ("$11", "$19"), ("$13", "$18")
    parts = (("$1", "$2", "$3", "$12"), ("$24", "$25", "$26", "$27"))
    lines: list[str] = []
    for r in range(ROWS):
        low, high = f"$v{1 + 2 * r}", f"$v{2 + 2 * r}"
        if not r * factor_bytes % WORD_BYTES:
            for p in range(patterns):
                lines += [f"{words[p]} = d[{inputs[p]}].w", f"{inputs[p]} = {inputs[p]} + 4"]
        lines += [f"{low} = m[$14+=$9].h", f"{high} = m[$20+=$9].h"][:vectors]
        for p in range(patterns):
            factor, part = f"$vs{1 + r + ROWS * p}", parts[p][r]
            lines += [*_part(words[p], part, r, factor_bytes), f"{factor} = {part}"]
            if not vector_scalars:
                lines.pop()
                factor = part
            for half, weight in enumerate((low, high)[:vectors]):
                place = 2 * p + half
                lines += _added(17 + place, weight, factor, 0 if accumulate else 21 + place)
    lines.append("if ($13 != $10) loop")
    name = f"forward_{patterns}" + "_apart" * (not accumulate) + "_halves" * (factor_bytes == 2)
    name += "_scalars" * (not vector_scalars) + "_narrow" * (vectors == 1)
    return Body(name, _loop(lines), (("$14", LOW), ("$20", HIGH)))


def _added(total: int, weight: str, factor: str, product: int) -> list[str]:
    """The sum `total` plus weight * factor, by way of the vector `product` unless that is 0."""
    if not product:
        return [f"$v{total} += {weight} * {factor}"]
    return [f"$v{product} = {weight} * {factor}", f"$v{total} = $v{total} + $v{product}"]


def backward_body(*, accumulate: bool = True, factor_bytes: int = 2) -> Body:
    """Four rows times a vector such as the errors: sums of 32 lanes, which are reduced later."""
    kind = "b" if factor_bytes == 1 else "h"
    lines = [f"$v1 = d[$13+=$8].{kind}", f"$v2 = d[$13+=$8].{kind}"]
    for r in range(ROWS):
        step = "$27" if r == ROWS - 1 else "$9"
        low, high = f"$v{3 + 2 * r}", f"$v{4 + 2 * r}"
        lines += [f"{low} = m[$14+={step}].h", f"{high} = m[$20+={step}].h"]
        for half, weight in enumerate((low, high)):
            product = 0 if accumulate else 21 + 2 * r + half
            lines += _added(17 + r, weight, f"$v{1 + half}", product)
    lines.append("if ($13 != $10) loop")
    name = "backward" + "_apart" * (not accumulate) + "_bytes" * (factor_bytes == 1)
    return Body(name, _loop(lines), (("$14", LOW), ("$20", HIGH)))


FACTORS = ("$vs1", "$vs2", "$vs3", "$vs4")
"""Hold the factors of the rows of an update."""
SCALAR_FACTORS = ("$1", "$3", "$19", "$25")
"""Hold those factors where the vector unit has no registers for them."""


def update_body(rows: int = ROWS, factors: Sequence[str] = FACTORS, rounding: str = "") -> Body:
    """Rows plus the error vector times a factor of each row: all loads, then all stores. With a
    vector of `rounding` what is added is shifted, rounded and clipped to 15 bits first.
    """
    loads, sums, stores = ["$v1 = d[$13+=$8].h", "$v2 = d[$13+=$8].h"], [], []
    for r in range(rows):
        step = "$27" if r == rows - 1 else "$9"
        for half, (load, save) in enumerate((("$14", "$16"), ("$20", "$24"))):
            weight, change = f"$v{3 + 2 * r + half}", f"$v{11 + 2 * r + half}"
            loads.append(f"{weight} = m[{load}+={step}].h")
            sums.append(f"{change} = $v{1 + half} * {factors[r]}")
            sums += [f"{change} = {change} addap0 {rounding}"] if rounding else []
            sums.append(f"{weight} = {weight} + {change}")
            stores.append(f"m[{save}+={step}].h = {weight}")
    lines = [*loads, *sums, *stores, "if ($13 != $10) loop"]
    ports = (("$14", LOW), ("$16", LOW), ("$20", HIGH), ("$24", HIGH))
    objects = (("$14", "old"), ("$20", "old"), ("$16", "new"), ("$24", "new"))
    name = "update" if rows == ROWS else f"update_{rows}"
    name += "_scalars" * (factors != FACTORS) + "_scaled" * bool(rounding)
    return Body(name, _loop(lines), ports, objects)


def errors_body() -> Body:
    """Results less outputs, scaled: 128 elements, a vector of 32 through each port."""
    lines = []
    for i in range(4):
        lines += [f"$v{1 + i} = m[$4+=$28].b", f"$v{5 + i} = d[$13+=$28].b"]
    for i in range(4):
        lines += [f"$v{9 + i} = $v{1 + i} - $v{5 + i}", f"$v{9 + i} = $v{9 + i} * $vs1"]
        lines.append(f"d[$16+=$8].h = $v{9 + i}")
    lines.append("if ($13 != $10) loop")
    return Body("errors", _loop(lines), (), (("$13", "outputs"), ("$16", "errors")))


def _part(word: str, into: str, row: int, size: int) -> Iterator[str]:
    """The sign-extended byte or half of one row, the first row's lowest."""
    bits, place = 8 * size, row * size % WORD_BYTES
    above = 8 * (WORD_BYTES - size - place)
    if above:
        yield f"{into} = {word} << {above}"
    yield f"{into} = {into if above else word} >> {32 - bits}"


def _loop(lines: list[str]) -> str:
    return "loop:\n" + "".join(f"    {line}\n" for line in lines)
