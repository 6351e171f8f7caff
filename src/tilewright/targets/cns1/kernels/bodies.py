"""The inner loops of recall and training in the obvious order, as text of the Torrent.

Each is one pass over 64 columns of four rows (ICSI TR-93-046, sections 4.2.1, 6.1.2, 6.2.2 and
6.2.3). Registers: `$9` has the bytes of a row, `$27` leads from the fourth row back to the next 64
columns of the first; a pointer of columns 0 to 31 uses two ports, one of columns 32 to 63 the other
two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.targets.cns1.sections import MOST_PATTERNS

ROWS = 4
WORD_BYTES = 4
_EFFORT_UNITS, _SET_UPDATE_EFFORT_UNITS, _SET_EFFORT_UNITS = 14.0, 120.0, 480.0
"""Solver effort. The loops of sets fill two units at a time; the solver takes minutes for them."""
LOW, HIGH = "ports of columns 0 to 31", "ports of columns 32 to 63"


@dataclass(frozen=True)
class Body:
    """A loop: its text, and the ports each pointer register uses. Registers of `objects` never
    address the same element in overlapping iterations. The solver searches for a schedule for
    `effort_units` of its deterministic time.
    """

    name: str
    text: str
    ports: tuple[tuple[str, str], ...]
    objects: tuple[tuple[str, str], ...] = ()
    effort_units: float = _EFFORT_UNITS


WORDS, INPUTS = ("$11", "$19", "$27"), ("$13", "$18", "$26")
"""Registers that hold a word of factors of each pattern, and those that point to the next word."""
_FEW_PARTS = (("$1", "$2", "$3", "$12"), ("$24", "$25", "$26", "$27"))
_PARTS = (("$1", "$2"), ("$3", "$12"), ("$24", "$25"))
"""Registers that hold factors on their way to the vector unit: one for each row of a pattern, or
shared by rows in turn if registers are scarce.
"""


def forward_body(
    patterns: int,
    *,
    accumulate: bool = True,
    factor_bytes: int = 1,
    vector_scalars: bool = True,
    vectors: int = 2,
) -> Body:
    """The product of a matrix with up to three vectors of bytes or halves; a word has the factors
    of four or two rows. Without `accumulate`, multiplication and addition are two instructions;
    without `vector_scalars`, factors stay in the scalar unit. A row has one or two `vectors`.
    """
    parts = _PARTS if patterns == MOST_PATTERNS else _FEW_PARTS
    apart = 0 if accumulate else max(21, 17 + 2 * patterns)
    lines: list[str] = []
    for r in range(ROWS):
        low, high = f"$v{1 + 2 * r}", f"$v{2 + 2 * r}"
        if not r * factor_bytes % WORD_BYTES:
            for word, given in zip(WORDS[:patterns], INPUTS, strict=False):
                lines += [f"{word} = d[{given}].w", f"{given} = {given} + 4"]
        lines += [f"{low} = m[$14+=$9].h", f"{high} = m[$20+=$9].h"][:vectors]
        for p in range(patterns):
            factor, part = f"$vs{1 + r + ROWS * p}", parts[p][r % len(parts[p])]
            lines += [*_part(WORDS[p], part, r, factor_bytes), f"{factor} = {part}"]
            if not vector_scalars:
                lines.pop()
                factor = part
            for half, weight in enumerate((low, high)[:vectors]):
                place = 2 * p + half
                lines += _added(17 + place, weight, factor, apart and apart + place)
    lines.append("if ($13 != $10) loop")
    name = f"forward_{patterns}" + "_apart" * (not accumulate) + "_halves" * (factor_bytes == 2)
    name += "_scalars" * (not vector_scalars) + "_narrow" * (vectors == 1)
    effort = _SET_EFFORT_UNITS if patterns == MOST_PATTERNS else _EFFORT_UNITS
    return Body(name, _loop(lines), (("$14", LOW), ("$20", HIGH)), effort_units=effort)


def _added(total: int, weight: str, factor: str, product: int) -> list[str]:
    """`total` plus weight * factor, computed through the vector `product` unless that is 0."""
    if not product:
        return [f"$v{total} += {weight} * {factor}"]
    return [f"$v{product} = {weight} * {factor}", f"$v{total} = $v{total} + $v{product}"]


FIRST_SUM, _VECTOR_REGISTERS = 17, 32
ERRORS = ("$13", "$12", "$25")
"""Pointers to the vectors that multiply rows of weights."""


def backward_body(patterns: int = 1, *, accumulate: bool = True, factor_bytes: int = 2) -> Body:
    """Four rows times vectors such as errors of up to three patterns: sums of 32 lanes."""
    kind = "b" if factor_bytes == 1 else "h"
    lines = [f"$v{1 + 2 * p + half} = d[{ERRORS[p]}+=$8].{kind}"
             for p in range(patterns) for half in range(2)]  # fmt: skip
    apart, weights = FIRST_SUM + ROWS * patterns, 1 + 2 * patterns
    for r in range(ROWS):
        step = "$27" if r == ROWS - 1 else "$9"
        low, high = f"$v{weights + 2 * r}", f"$v{weights + 1 + 2 * r}"
        lines += [f"{low} = m[$14+={step}].h", f"{high} = m[$20+={step}].h"]
        for p in range(patterns):
            for half, weight in enumerate((low, high)):
                turn = (2 * (r + ROWS * p) + half) % (_VECTOR_REGISTERS - apart)
                product = 0 if accumulate else apart + turn
                total = FIRST_SUM + r + ROWS * p
                lines += _added(total, weight, f"$v{1 + 2 * p + half}", product)
    lines.append("if ($13 != $10) loop")
    name = "backward" + f"_{patterns}" * (patterns > 1)
    name += "_apart" * (not accumulate) + "_bytes" * (factor_bytes == 1)
    return Body(name, _loop(lines), (("$14", LOW), ("$20", HIGH)))


FACTORS = tuple(f"$vs{1 + r}" for r in range(ROWS))
"""Registers that hold the factors of an update."""
SCALAR_FACTORS = ("$1", "$3", "$19", "$25")
"""Registers for these factors if the vector unit has none for them."""
_UPDATE_PORTS = (("$14", LOW), ("$16", LOW), ("$20", HIGH), ("$24", HIGH))
_OLD_AND_NEW = (("$14", "old"), ("$20", "old"), ("$16", "new"), ("$24", "new"))


def update_body(rows: int = ROWS, factors: Sequence[str] = FACTORS, rounding: str = "") -> Body:
    """Rows plus the error vector times a factor of each row: all loads, then all stores. With a
    vector of `rounding`, the product is first shifted, rounded and clipped to 15 bits.
    """
    loads = ["$v1 = d[$13+=$8].h", "$v2 = d[$13+=$8].h"]
    sums, stores, first = [], [], 3
    for r in range(rows):
        step = "$27" if r == rows - 1 else "$9"
        for half, (load, save) in enumerate((("$14", "$16"), ("$20", "$24"))):
            weight = f"$v{first + 2 * r + half}"
            change = f"$v{first + 2 * ROWS + 2 * r + half}"
            loads.append(f"{weight} = m[{load}+={step}].h")
            sums.append(f"{change} = $v{1 + half} * {factors[r]}")
            sums += [f"{change} = {change} addap0 {rounding}"] if rounding else []
            sums.append(f"{weight} = {weight} + {change}")
            stores.append(f"m[{save}+={step}].h = {weight}")
    lines = [*loads, *sums, *stores, "if ($13 != $10) loop"]
    name = "update" + f"_{rows}" * (rows != ROWS)
    name += "_scalars" * (factors != FACTORS) + "_scaled" * bool(rounding)
    return Body(name, _loop(lines), _UPDATE_PORTS, _OLD_AND_NEW)


_SET_PARTS = ("$1", "$2", "$3", "$11", "$12", "$15", "$19", "$21", "$22", "$23", "$25", "$27")


def set_update_body(patterns: int, rounding: str = "") -> Body:
    """Four rows plus the sum over patterns of the pattern's errors of 64 columns, which stay in
    registers, times a factor of each row, a word; `rounding` as in `update_body`. Passes go down
    the rows, so that none ends before the last one.
    """
    loads, sums, stores, errors = [], [], [], 1 + 2 * patterns
    parts = iter(_SET_PARTS)
    for r in range(ROWS):
        halves = [(errors + 2 * r + half, errors + 2 * (ROWS + r) + half) for half in range(2)]
        for p, given in enumerate(INPUTS[:patterns]):
            factor, part = f"$vs{1 + r + ROWS * p}", next(parts)
            sums += [f"{part} = d[{given}+{WORD_BYTES * r}].w", f"{factor} = {part}"]
            for half, (_, change) in enumerate(halves):
                sums.append(f"$v{change} {'+' * (p > 0)}= $v{1 + 2 * p + half} * {factor}")
        pointers = (("$14", "$16"), ("$20", "$24"))
        for (weight, change), (load, save) in zip(halves, pointers, strict=True):
            loads.append(f"$v{weight} = m[{load}+=$9].h")
            sums += [f"$v{change} = $v{change} addap0 {rounding}"] if rounding else []
            sums.append(f"$v{weight} = $v{weight} + $v{change}")
            stores.append(f"m[{save}+=$9].h = $v{weight}")
    steps = [f"{given} = {given} + {WORD_BYTES * ROWS}" for given in INPUTS[:patterns]]
    lines = [*loads, *sums, *stores, *steps, "if ($13 != $10) loop"]
    name = f"update_of_{patterns}" + "_scaled" * bool(rounding)
    return Body(name, _loop(lines), _UPDATE_PORTS, _OLD_AND_NEW, _SET_UPDATE_EFFORT_UNITS)


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
