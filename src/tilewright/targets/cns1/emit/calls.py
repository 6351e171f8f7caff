"""Products, updates, fills, copies, and expressions and tables over the elements of tensors in main
memory, as text of the Torrent: rows, stripes, pipelined loops.

The code overwrites scalar registers except those of `writer` and of the arguments. `$28` has the
vector length, `$30` the bytes of a vector of sums. Whole passes over 128 elements are a pipelined
loop; the remaining elements are vectors, the last of them shorter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tilewright.common.errors import ProgramError
from tilewright.machine import Machine
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.kernels import bodies, elements
from tilewright.targets.cns1.kernels.code import lane_sums, updated_rows
from tilewright.targets.cns1.kernels.elements import (
    MIDDLE,
    SHIFT,
    Elements,
    TableLookups,
    elements_body,
    lookup_body,
    lookup_lines,
    vector_lines,
)
from tilewright.targets.cns1.kernels.pipelining import pipelined_lines, plain_lines
from tilewright.targets.cns1.sections import KernelStripes, Vectors
from tilewright.targets.cns1.timing.layers import STRIPE

VECTOR = 32
WEIGHT_BYTES, SUM_BYTES = 2, 4
STRIPE_BYTES = WEIGHT_BYTES * STRIPE
_LENGTHS = ("$3", "$18", "$19", "$24", "$2")
"""Registers with the numbers of lanes left in each step of a sum's reduction, the last one 1."""
GROUP = 4
"""Number of vectors that are copied together."""
ROUNDING = "$v29"
"""Half a unit of an update, in every lane."""


@dataclass(frozen=True)
class NodeProduct:
    """m x n sums over k. The first factor is in the cache, weights and sums are in main memory,
    each with a distance in bytes between rows. Rows of weights lie along n or, with `along_terms`,
    along k. Stripes of 64 columns may lie `stripe_bytes` apart. With `from_zero`, sums are written
    instead of added to.
    """

    m: int
    n: int
    k: int
    factor_bytes: int
    factor_row_bytes: int
    weight_row_bytes: int
    sum_row_bytes: int
    along_terms: bool = False
    stripe_bytes: int = STRIPE_BYTES
    from_zero: bool = False

    def __post_init__(self) -> None:
        n, k = (bodies.ROWS, STRIPE) if self.along_terms else (STRIPE, bodies.ROWS)
        for letter, extent, multiple in (("n", self.n, n), ("k", self.k, k)):
            if extent % multiple:
                raise ProgramError(
                    f"a product of {letter} = {extent} is no whole number of blocks of {multiple}",
                    fix=f"take a multiple of {multiple}",
                )
        if self.factor_bytes not in (1, 2) or self.factor_row_bytes % bodies.WORD_BYTES:
            raise ProgramError(
                f"rows of {self.factor_row_bytes} bytes in elements of {self.factor_bytes} are "
                "not read by words of 4",
                fix="elements of 8 or 16 bit, and rows of whole words",
            )


def write_product(writer: Writer, machine: Machine, product: NodeProduct) -> None:
    """C += A B, or C = A B: `$7` has the place of A in the cache, `$15` that of B, `$16` of C."""
    writer.constant("$9", product.weight_row_bytes)
    if product.along_terms:
        _prepare_groups(writer, product)
    else:
        writer.constant("$8", product.sum_row_bytes)
    patterns = machine.section(KernelStripes).patterns
    rounds, left = divmod(product.m, patterns)
    if rounds:
        _rounds(writer, machine, product, patterns, rounds, more=left > 0)
    if left:
        _rounds(writer, machine, product, left, 1, more=False)


@dataclass(frozen=True)
class Update:
    """m x n weights in main memory plus the outer product of m bytes and n halves, summed over
    `patterns`. Rows and stripes of 64 columns are so many bytes apart. With a `shift`, the product
    is shifted, rounded and clipped before it is added.
    """

    m: int
    n: int
    row_bytes: int
    shift: int | None = None
    patterns: int = 1
    stripe_bytes: int = STRIPE_BYTES

    def __post_init__(self) -> None:
        if self.n % STRIPE:
            raise ProgramError(
                f"an update of n = {self.n} columns is no whole number of blocks of {STRIPE}",
                fix=f"take a multiple of {STRIPE}",
            )
        if self.patterns > 1 and self.m % bodies.ROWS:
            raise ProgramError(
                f"an update of m = {self.m} rows by {self.patterns} patterns is no whole number of "
                f"blocks of {bodies.ROWS}",
                fix=f"take a multiple of {bodies.ROWS}",
            )


def write_update(writer: Writer, machine: Machine, update: Update) -> None:
    """C += a b of one pattern: `$7` has a's place and `$17` b's in the cache, `$18` that of C."""
    groups, left = divmod(update.m, bodies.ROWS)
    _prepare_update(writer, machine, update)
    writer.add("$8 = 64")
    writer.sum("$10", "$17", WEIGHT_BYTES * update.n, "$11")
    if groups:
        writer.constant("$29", groups)
        _updated_rows(writer, machine, update, bodies.ROWS, again=groups > 1)
    if left:
        _updated_rows(writer, machine, update, left, again=False)


def _prepare_update(writer: Writer, machine: Machine, update: Update) -> None:
    """Load half a unit for rounding, and the bytes of a row."""
    if update.patterns > 1 and not machine.section(Vectors).scalar_registers:
        raise ProgramError(
            f"{update.patterns} patterns update weights by scalars in the vector unit, found none",
            fix="one pattern at a time",
        )
    if update.shift is not None:
        writer.constant("$1", -(1 << update.shift >> 1))
        writer.add("$vs9 = $1", f"{ROUNDING} = $v0 - $vs9", f"$1 = {update.shift}", "vshift = $1")
    writer.constant("$9", update.row_bytes)


def write_set_update(writer: Writer, machine: Machine, update: Update) -> None:
    """C += a b, summed over the patterns of a set, stripe by stripe: a lies from 0 on in the cache
    by words, each pattern's elements behind those of the one before, as those of b in main memory,
    to which `$17` points; `$8` has the place of C.
    """
    inputs, stripe = bodies.INPUTS[: update.patterns], writer.label("stripe")
    _prepare_update(writer, machine, update)
    writer.constant("$29", update.n // STRIPE)
    writer.place(stripe)
    for pattern in range(update.patterns):
        writer.sum("$12", "$17", pattern * WEIGHT_BYTES * update.n, "$11")
        low, high = f"$v{1 + 2 * pattern}", f"$v{2 + 2 * pattern}"
        writer.add("$13 = $12 + 64", f"{low} = m[$12].h", f"{high} = m[$13].h")
    writer.add("$14 = $8", "$20 = $8 + 64", "$16 = $14", "$24 = $20", f"{inputs[0]} = 0")
    writer.constant("$10", bodies.WORD_BYTES * update.m)
    for before, pointer in pairwise(inputs):
        writer.add(f"{pointer} = {before} + $10")
    rounding = "" if update.shift is None else ROUNDING
    _loop(
        writer, machine, bodies.set_update_body(update.patterns, rounding), update.m // bodies.ROWS
    )
    writer.sum("$8", "$8", update.stripe_bytes, "$11")
    writer.add("$17 = $17 + $30", "$29 = $29 - 1", f"if ($29 != $0) {stripe}", "nop")


def _updated_rows(
    writer: Writer, machine: Machine, update: Update, rows: int, *, again: bool
) -> None:
    """Write an update of `rows` rows with all columns; `again` repeats it until `$29` is zero."""
    group, loop = writer.label("group"), writer.label("loop")
    writer.constant("$27", 2 * STRIPE - (rows - 1) * update.row_bytes)
    writer.constant("$26", rows * update.row_bytes)
    writer.place(group)
    writer.add("$14 = $18", "$20 = $18 + 64")
    factors = bodies.FACTORS if machine.section(Vectors).scalar_registers else bodies.SCALAR_FACTORS
    lines = updated_rows(
        machine,
        update.n // STRIPE,
        rows=rows,
        weights="$18",
        factors=factors,
        rounding="" if update.shift is None else ROUNDING,
    )
    writer.add(*(re.sub(r"\bloop\b", loop, line) for line in lines))
    if again:
        writer.add("$29 = $29 - 1", f"if ($29 != $0) {group}")
    writer.add("$18 = $18 + $26")


def _rounds(
    writer: Writer,
    machine: Machine,
    product: NodeProduct,
    patterns: int,
    rounds: int,
    *,
    more: bool,
) -> None:
    """Write `rounds` products of some rows of A with all of B; with `more`, others follow."""
    again, along = writer.label("round"), product.along_terms
    if rounds > 1:
        writer.constant("$29", rounds)
        writer.place(again)
    writer.sum("$17", "$16", SUM_BYTES * product.n, "$11")
    writer.sum("$10", "$7", product.factor_bytes * product.k, "$11")
    (_groups if along else _stripes)(writer, machine, product, patterns)
    if rounds > 1 or more:
        writer.sum("$7", "$7", patterns * product.factor_row_bytes, "$11")
        across = WEIGHT_BYTES * product.n // STRIPE_BYTES * product.stripe_bytes
        through = product.weight_row_bytes * product.n if along else across
        writer.sum("$15", "$15", -through, "$11")
        back = patterns * product.sum_row_bytes - SUM_BYTES * product.n
        writer.sum("$16", "$16", back, "$11")
    if rounds > 1:
        writer.add("$29 = $29 - 1", f"if ($29 != $0) {again}", "nop")


def _stripes(writer: Writer, machine: Machine, product: NodeProduct, patterns: int) -> None:
    """Write all stripes, one after the other: load or zero sums, loop over k, store sums."""
    stripe, vectors = (
        writer.label("stripe"),
        machine.section(KernelStripes).stripe_columns // VECTOR,
    )
    body = product_body(machine, patterns, product.factor_bytes)
    step, near = (
        vectors * VECTOR * product.stripe_bytes // STRIPE,
        product.stripe_bytes == STRIPE_BYTES,
    )
    if not near:
        writer.constant("$21", step)
    writer.place(stripe)
    writer.add(*["$14 = $15", "$20 = $15 + 64"][:vectors], "$13 = $7")
    for before, pointer in pairwise(("$7", *bodies.INPUTS[1:patterns])):
        writer.sum(pointer, before, product.factor_row_bytes, "$11")
    if product.from_zero:
        writer.add(*(f"$v{17 + 2 * p + half} = $v0" for p in range(patterns)
                     for half in range(vectors)))  # fmt: skip
    else:
        _sums(writer, patterns, vectors, "$v{} = m[$12+=$30].w")
    _loop(writer, machine, body, product.k // bodies.ROWS)
    _sums(writer, patterns, vectors, "m[$12+=$30].w = $v{}")
    writer.add(f"$16 = $16 + {SUM_BYTES * VECTOR * vectors}", f"if ($16 != $17) {stripe}")
    writer.add(f"$15 = $15 + {step if near else '$21'}")


def product_body(machine: Machine, patterns: int, factor_bytes: int) -> bodies.Body:
    """The loop over four rows of a stripe, for the vector unit of a machine."""
    unit = machine.section(Vectors)
    return bodies.forward_body(
        patterns,
        accumulate=_accumulates(machine),
        factor_bytes=factor_bytes,
        vector_scalars=unit.scalar_registers > 0,
        vectors=machine.section(KernelStripes).stripe_columns // VECTOR,
    )


def _sums(writer: Writer, patterns: int, vectors: int, access: str) -> None:
    for pattern in range(patterns):
        writer.add("$12 = $16 + $8" if pattern else "$12 = $16")
        writer.add(*["$12 = $12 + $8"] * (pattern - 1))
        writer.add(*(access.format(17 + 2 * pattern + half) for half in range(vectors)))


def _prepare_groups(writer: Writer, product: NodeProduct) -> None:
    """Load the constants of `_groups`: steps between rows and over a group, and lane counts."""
    writer.constant("$27", 2 * STRIPE - (bodies.ROWS - 1) * product.weight_row_bytes)
    writer.constant("$26", bodies.ROWS * product.weight_row_bytes)
    writer.add(*(f"{register} = {16 >> i}" for i, register in enumerate(_LENGTHS)))
    writer.add("$1 = 4", f"$8 = {VECTOR * product.factor_bytes}")


def _groups(writer: Writer, machine: Machine, product: NodeProduct, patterns: int) -> None:
    """Write all groups of four rows of weights, one after the other. The first lanes start from C
    or from zero, the others from zero.
    """
    group = writer.label("group")
    sums = [f"$v{bodies.FIRST_SUM + i}" for i in range(bodies.ROWS * patterns)]
    rows = [sums[i : i + bodies.ROWS] for i in range(0, len(sums), bodies.ROWS)]
    writer.place(group)
    writer.add("$14 = $15", "$20 = $15 + 64", *(f"{v} = $v0" for v in sums))
    if not product.from_zero:
        writer.add("vlr = $2")
        for pattern, row in enumerate(rows):
            writer.sum("$12", "$16", pattern * product.sum_row_bytes, "$11")
            writer.add(*(f"{v} = m[$12+=$1].w" for v in row))
        writer.add("vlr = $28")
    writer.add(f"{bodies.ERRORS[0]} = $7")
    for before, pointer in pairwise(bodies.ERRORS[:patterns]):
        writer.sum(pointer, before, product.factor_row_bytes, "$11")
    body = bodies.backward_body(patterns, accumulate=_accumulates(machine),
                         factor_bytes=product.factor_bytes)  # fmt: skip
    _loop(writer, machine, body, product.k // STRIPE)
    writer.add(*lane_sums(_LENGTHS, len(sums)))
    for pattern, row in reversed([*enumerate(rows)]):
        pointer = "$12" if pattern else "$16"
        if pattern:
            writer.sum(pointer, "$16", pattern * product.sum_row_bytes, "$11")
        writer.add(*(f"m[{pointer}+=$1].w = {v}" for v in row))
    writer.add("vlr = $28", f"if ($16 != $17) {group}", "$15 = $15 + $26")


def _accumulates(machine: Machine) -> bool:
    """True if one instruction multiplies and adds."""
    return machine.section(Vectors).multiply_accumulate > 0


def _loop(writer: Writer, machine: Machine, body: bodies.Body, trips: int) -> None:
    """A pipelined loop with a label of its own."""
    loop = writer.label("loop")
    for line in pipelined_lines(body, machine, trips):
        writer.add(re.sub(r"\bloop\b", loop, line))


def write_fill(writer: Writer, rows: int, columns: int, row_bytes: int) -> None:
    """Zero rows of sums in main memory from `$16` on."""
    row, (vectors, tail) = writer.label("row"), divmod(columns, VECTOR)
    writer.constant("$29", rows)
    writer.place(row)
    if vectors:
        loop = writer.label("fill")
        writer.sum("$17", "$16", SUM_BYTES * VECTOR * vectors, "$11")
        writer.place(loop)
        writer.add("m[$16+=$30].w = $v0", f"if ($16 != $17) {loop}", "nop")
    if tail:
        writer.add(f"$12 = {tail}", "vlr = $12", "$12 = $12 << 2", "m[$16+=$12].w = $v0")
        writer.add("vlr = $28")
    writer.sum("$16", "$16", row_bytes - SUM_BYTES * columns, "$11")
    writer.add("$29 = $29 - 1", f"if ($29 != $0) {row}", "nop")


def write_get(
    writer: Writer, rows: int, size_bytes: int, row_bytes: int, *, as_words: bool = False
) -> None:
    """Copy rows of `size_bytes`, `row_bytes` apart, from `$15` in main memory to `$16` in the
    cache, where they follow each other; `as_words` makes each byte a signed word.
    """
    row = writer.label("row")
    groups, rest = divmod(size_bytes, GROUP * VECTOR)
    vectors, tail = divmod(rest, VECTOR)
    into = ("$30", "w") if as_words else ("$28", "b")
    writer.constant("$29", rows)
    writer.place(row)
    if groups:
        loop = writer.label("copy")
        writer.sum("$17", "$15", groups * GROUP * VECTOR, "$11")
        writer.place(loop)
        *copies, last = _copies(GROUP, "$28", *into)
        writer.add(*copies, f"if ($15 != $17) {loop}", last)
    writer.add(*_copies(vectors, "$28", *into))
    if tail:
        writer.add(f"$12 = {tail}", "vlr = $12", f"$13 = {tail * (1 + 3 * as_words)}")
        writer.add(*_copies(1, "$12", "$13", into[1]), "vlr = $28")
    writer.sum("$15", "$15", row_bytes - size_bytes, "$11")
    writer.add("$29 = $29 - 1", f"if ($29 != $0) {row}", "nop")


def _copies(vectors: int, step: str, step_into: str, kind: str) -> list[str]:
    """Copy vectors of bytes through registers: all loads, then all stores."""
    loads = [f"$v{1 + i} = m[$15+={step}].b" for i in range(vectors)]
    return [*loads, *(f"d[$16+={step_into}].{kind} = $v{1 + i}" for i in range(vectors))]


_SCHEDULED_OPERATIONS = 6
"""Longest loop to schedule. The solver takes minutes for longer ones, and four vectors in turn
leave the arithmetic few gaps.
"""
Streamed: TypeAlias = Elements | TableLookups
"""Element-wise computation: an expression, or a table look-up."""


def write_elements(writer: Writer, machine: Machine, streamed: Streamed, count: int) -> None:
    """Write the computation of `count` elements. The first pointer of each tensor has its address,
    and `$30` is 128; `MIDDLE` has the start of a table and is moved on to its middle.
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
