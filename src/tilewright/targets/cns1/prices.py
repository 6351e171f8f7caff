"""Price calls on a node of the CNS-1: the cycles of their text on the node simulator.

The text of a product takes a number of cycles for each pair of rows, each stripe, each pass of the
loop and each line of the RDRAM that it opens; simulated small products determine these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall
from tilewright.cost.pipeline_types import COPY
from tilewright.cost.prices import Prices
from tilewright.cost.timing import TransferShape
from tilewright.ir.nodes import Direction
from tilewright.ir.primitives import Fill, Lookup, Map, MatrixProduct
from tilewright.machine import Machine
from tilewright.machine.model import Leaf
from tilewright.targets.cns1.emit.calls import (
    GROUP,
    SUM_BYTES,
    VECTOR,
    WEIGHT_BYTES,
    NodeProduct,
    Streamed,
    Update,
    write_elements,
    write_product,
    write_set_update,
    write_update,
)
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.kernels import elements
from tilewright.targets.cns1.kernels.bodies import ROWS
from tilewright.targets.cns1.kernels.elements import PASS, Elements
from tilewright.targets.cns1.node import assembled, node_table, run_node
from tilewright.targets.cns1.sections import KernelStripes, Rdram, Vectors
from tilewright.targets.cns1.timing.layers import STRIPE, VECTOR_BYTES, read_cycles, write_cycles

# Price expressions over elements and tables: the cycles of their text on a simulated node.


def _map_cycles(machine: Machine, call: PricedCall[Map]) -> Value:
    """Cycles of a map's text on as many elements."""
    result, *operands = (dtype(name).size_bytes for name in call.operand_dtypes)
    elements = Elements(call.primitive.expression, tuple(operands), result)
    return _streamed_cycles(machine, elements, call.dims["elements"])


def lookup_cycles(machine: Machine, call: PricedCall[Lookup]) -> Value:
    """Cycles on as many zero sums: all look-ups meet at one port, the worst case of 4.2.3."""
    lookup = elements.TableLookups(int(np.max(call.dims["k"])), call.primitive.shift)
    return _streamed_cycles(machine, lookup, call.dims["elements"])


def _streamed_cycles(machine: Machine, streamed: Streamed, elements: Value) -> Value:
    """Tensors stored in sequence may share open lines, depending on the tensors before them."""
    rdram, count = machine.section(Rdram), np.asarray(elements, np.int64)
    lines = [-(-size // rdram.open_bytes) for size in streamed.tensor_bytes(count)[:-1]]
    before = np.stack(np.broadcast_arrays(0 * count, *lines))
    places = np.cumsum(before, axis=0) % rdram.open_lines
    found, looped = np.zeros(count.shape), bool(np.any(count >= PASS))
    for own in np.unique(places.reshape(len(places), -1), axis=1).T:
        timing = elements_timing(machine, streamed, tuple(map(int, own)), looped=looped)
        alike = (own == places.T).all(axis=-1).T
        found = np.where(alike, timing.cycles(count), found)
    return found


@dataclass(frozen=True, eq=False)
class ElementsCycles:
    """Cycles of a map or of look-ups. `samples` are numbers of passes and the cycles they take;
    each further pass takes `pass_cycles`. `rest_cycles` are those of elements after the last whole
    pass, or without any whole pass.
    """

    samples: tuple[NDArray[np.int64], NDArray[np.int64]]
    pass_cycles: float
    rest_cycles: NDArray[np.float64]

    def cycles(self, count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cycles of `count` elements, interpolated linearly between the samples."""
        passes, rest = np.divmod(count, PASS)
        beyond = np.maximum(0, passes - self.samples[0][-1])
        found: NDArray[np.float64] = np.interp(passes, *self.samples) + beyond * self.pass_cycles
        return found + self.rest_cycles[np.minimum(1, passes), rest]


@cache
def elements_timing(
    machine: Machine, streamed: Streamed, places: tuple[int, ...], *, looped: bool
) -> ElementsCycles:
    """Cycles of the text, sampled up to twice the passes that visit all places of open lines.
    Unless a count is `looped` over, only counts below a pass, so that no loop is scheduled.

    Each tensor begins in an open line at one of the `places` of its chip.
    """
    rdram = machine.section(Rdram)
    period = rdram.open_lines * rdram.open_bytes // PASS
    room = int(max(streamed.tensor_bytes(2 * period * PASS)))

    def cycles(count: int) -> int:
        writer = started()
        for tensor, place in enumerate(places):
            start = tensor * room + place * rdram.open_bytes
            writer.constant(streamed.starts[tensor], start)
        write_elements(writer, machine, streamed, count)
        return finished(machine, writer, (len(places) + 1) * room)

    if not looped:
        none, alone = np.array([0]), _rest_cycles(streamed, cycles)
        return ElementsCycles((none, np.array([cycles(0)])), 0.0, np.stack([alone, alone]))
    few = [1 << i for i in range(6)]
    passes = np.array([0, *few, *range(64, 2 * period + 1, 64)])
    taken = np.array([cycles(int(n) * PASS) for n in passes])
    each = np.stack(
        [_rest_cycles(streamed, cycles), _rest_cycles(streamed, lambda rest: cycles(PASS + rest))]
    )
    steady = taken[-1] - taken[np.searchsorted(passes, period)]
    return ElementsCycles((passes, taken), float(steady) / period, each)


def _rest_cycles(streamed: Streamed, cycles: Callable[[int], int]) -> NDArray[np.float64]:
    """Cycles that each number of elements beyond whole passes adds. Within a vector, look-ups are
    charged one by one, other elements together.
    """
    rest, vectors = np.arange(PASS), np.arange(0, PASS, VECTOR)
    if isinstance(streamed, elements.TableLookups):
        points = np.sort(np.concatenate([vectors, vectors + 1, [PASS - 1]]))
        taken = np.array([cycles(int(n)) for n in points])
        return np.asarray(np.interp(rest, points, taken - taken[0]))
    taken = np.array([cycles(n) for n in range(0, PASS, VECTOR // 2)], np.float64)
    found: NDArray[np.float64] = (taken - taken[0])[2 * (rest // VECTOR) + (rest % VECTOR > 0)]
    return found


_NOTHING: Value = 0
_PASSES = 4
_SHIFT = 6
"""Shift of an update whose loop is priced: updates by sets are scaled."""
_ROW, _ISSUE = 6, 4
"""Instructions around a row of a copy or a fill; cycles that a vector keeps a pipe busy."""


@dataclass(frozen=True)
class ProductCycles:
    """Cycles of a product of one or two rows: `round_cycles` once, `stripe_cycles` per stripe,
    `pass_cycles` per pass over four rows of weights, and `line_cycles` per row that opens a line.
    """

    round_cycles: float
    stripe_cycles: float
    pass_cycles: float
    line_cycles: float


def _product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """As many rows together as kernels take, then the remaining rows, each time with all stripes,
    or for weights along the terms with all groups of four rows of weights. An update also goes over
    groups of rows.
    """
    dims = call.dims
    if "result_distance" in dims:
        return weight_update_cycles(machine, dims["m"], dims["n"], dims["result_distance"])
    each = partial(_round, machine, call)
    return all_patterns(machine, dims["m"], each)


def all_patterns(machine: Machine, patterns: Value, each: Callable[[int], Value]) -> Value:
    """Cycles of `patterns`, as many at a time as kernels take; `each` gives those of a round."""
    together, cycles = machine.section(KernelStripes).patterns, _NOTHING
    rounds, left = np.divmod(patterns, together)
    for some, count in ((together, rounds), *((few, left == few) for few in range(1, together))):
        if np.any(count):
            cycles = cycles + count * each(some)
    return cycles


def _round(machine: Machine, call: PricedCall[MatrixProduct], patterns: int) -> Value:
    dims = call.dims
    if "along_terms" in dims:
        return group_cycles(
            machine, patterns, columns=dims["n"], terms=dims["k"], distance=dims["distance"]
        )
    columns, distance = dims["n"], dims.get("distance", dims["n"])
    return round_cycles(machine, patterns, columns=columns, terms=dims["k"], distance=distance)


def round_cycles(
    machine: Machine,
    patterns: int,
    *,
    columns: Value,
    terms: Value,
    distance: Value,
    from_zero: bool = False,
) -> Value:
    """Some patterns times a matrix whose rows are `distance` elements apart."""
    cycles = _product_timing(machine, patterns, from_zero=from_zero)
    lines = opened_lines(machine, terms, distance)
    passes = terms / ROWS * cycles.pass_cycles
    stripe = cycles.stripe_cycles + passes + lines * cycles.line_cycles
    return cycles.round_cycles + columns / machine.section(KernelStripes).stripe_columns * stripe


def group_cycles(
    machine: Machine,
    patterns: int,
    *,
    columns: Value,
    terms: Value,
    distance: Value,
    from_zero: bool = False,
) -> Value:
    """Some patterns times rows of weights along the terms. A group opens the lines of its rows in
    every chip and, every other time on average, the lines of each pattern's sums and of the weights
    that these close: three accesses.
    """
    cycles, n, k = group_timing(machine, patterns, from_zero=from_zero), columns, terms
    rdram, rows = machine.section(Rdram), ROWS * WEIGHT_BYTES
    lines = rows * distance / rdram.open_bytes * rdram.chips_per_port
    lines = 1.5 * patterns + np.minimum(lines, rows * k / rdram.chip_block_bytes)
    passes = k / STRIPE * cycles.pass_cycles
    group = cycles.stripe_cycles + passes + lines * cycles.line_cycles
    return cycles.round_cycles + n / ROWS * group


def weight_update_cycles(machine: Machine, m: Value, n: Value, distance: Value) -> Value:
    """Cycles of updating m x n weights by groups of four rows and the remaining rows. A load that
    opens a line finds a written one there.
    """
    rdram, read = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
    groups, left = np.divmod(m, ROWS)
    cycles: Value = 0
    for rows, count in ((ROWS, groups), *((few, left == few) for few in range(1, ROWS))):
        if np.any(count):
            own = update_timing(machine, rows)
            group = own.stripe_cycles + n / STRIPE * own.pass_cycles
            cycles = cycles + (count > 0) * own.round_cycles + count * group
    row_bytes = WEIGHT_BYTES * distance
    lines = m * row_bytes / rdram.open_bytes * rdram.chips_per_port
    lines = np.minimum(lines, m * WEIGHT_BYTES * n / rdram.chip_block_bytes)
    return cycles + lines * (read.dirty_miss - read.hit)


def opened_lines(machine: Machine, rows: Value, columns: Value) -> Value:
    """Lines of the RDRAM that a stripe of so many rows opens in the chips of a port. Rows a
    multiple of all chips' blocks apart lie in one chip; others visit several chips in turn.
    """
    rdram = machine.section(Rdram)
    row_bytes = WEIGHT_BYTES * columns
    blocks = row_bytes // rdram.chip_block_bytes
    visited = rdram.chips_per_port // np.gcd(blocks, rdram.chips_per_port)
    return rows * np.minimum(1, visited * row_bytes / rdram.open_bytes)


def fill_cycles(machine: Machine, call: PricedCall[Fill]) -> Value:
    """For each row, a loop over vectors whose stores use all ports at once."""
    vectors, rows = call.dims["elements"] / VECTOR, call.dims["a"]
    write = write_cycles(machine, VECTOR_BYTES)
    lines = _streamed_lines(machine, SUM_BYTES * VECTOR * vectors)
    return rows * _ROW + vectors * write.hit + lines * (write.clean_miss - write.hit)


def matrix_copy_cycles(machine: Machine, shape: TransferShape) -> Value:
    """For each row, groups of vectors, the remaining vectors, and a shorter one."""
    read = read_cycles(machine, VECTOR_BYTES)
    groups, rest = np.divmod(shape.block_bytes, GROUP * VECTOR)
    vectors, tail = np.divmod(rest, VECTOR)
    each = _ROW + groups * GROUP * 2 * _ISSUE
    each = each + (vectors > 0) * read.hit + vectors * _ISSUE + (tail > 0) * (read.hit + _ROW)
    lines = _streamed_lines(machine, shape.asked_bytes)
    return shape.blocks * each + lines * (read.clean_miss - read.hit)


def _streamed_lines(machine: Machine, size_bytes: Value) -> Value:
    """Lines that consecutive bytes open in the chips of a port."""
    rdram = machine.section(Rdram)
    lines = size_bytes / rdram.open_bytes * rdram.chips_per_port
    return np.minimum(rdram.chips_per_port, -(-size_bytes // rdram.chip_block_bytes)) + lines


@cache
def _product_timing(machine: Machine, patterns: int, *, from_zero: bool = False) -> ProductCycles:
    """The cycles of the text of small products, with rows that all open a line or all hit."""
    rows, hitting = _PASSES * ROWS, _hitting(machine)
    small, longer, wider = (
        _simulated(machine, patterns, columns, k, from_zero)
        for columns, k in ((STRIPE, rows), (STRIPE, 2 * rows), (2 * STRIPE, rows))
    )
    hits = [_simulated(hitting, patterns, STRIPE, k, from_zero) for k in (rows, 2 * rows)]
    stripes = STRIPE // machine.section(KernelStripes).stripe_columns
    opening, hit = (longer - small) / stripes, (hits[1] - hits[0]) / stripes
    stripe = (wider - small) / stripes
    return ProductCycles(
        small - stripes * stripe, stripe - opening, hit / _PASSES, (opening - hit) / rows
    )


@cache
def group_timing(machine: Machine, patterns: int, *, from_zero: bool = False) -> ProductCycles:
    """`_product_timing` for weights along the terms: a stripe is a group of four rows of them."""
    hitting = _hitting(machine)

    def cycles(groups: int, stripes: int) -> int:
        n, k = groups * ROWS, stripes * STRIPE
        row_bytes = WEIGHT_BYTES * k
        product = NodeProduct(
            patterns, n, k, WEIGHT_BYTES, row_bytes, row_bytes, SUM_BYTES * n, True,
            from_zero=from_zero,
        )  # fmt: skip
        return product_text_cycles(hitting, product, n * row_bytes)

    read = read_cycles(machine, VECTOR_BYTES)
    return _by_samples(cycles, read.clean_miss - read.hit)


def _by_samples(
    cycles: Callable[[int, int], int], line_cycles: float = 0, groups: int = 1
) -> ProductCycles:
    """The terms of the cycles of some `groups`, by one more group and twice the passes."""
    few, longer = cycles(groups, _PASSES), cycles(groups, 2 * _PASSES)
    each, group = (longer - few) / (groups * _PASSES), cycles(groups + 1, _PASSES) - few
    return ProductCycles(few - groups * group, group - _PASSES * each, each, line_cycles)


@cache
def update_timing(machine: Machine, rows: int) -> ProductCycles:
    """`_product_timing` for an update: a stripe is a group of `rows` rows, a pass 64 columns."""
    hitting = _hitting(machine)

    def cycles(groups: int, stripes: int) -> int:
        n = stripes * STRIPE
        writer = started()
        turns, height = (1, groups * ROWS) if rows == ROWS else (groups, rows)
        for _ in range(turns):
            write_update(writer, hitting, Update(height, n, 2 * n))
        return finished(hitting, writer, groups * rows * WEIGHT_BYTES * n)

    return _by_samples(cycles, groups=2)


def set_update_cycles(machine: Machine, m: int, n: int, distance: int, patterns: int) -> float:
    """An update by a set of patterns, stripe by stripe of rows `distance` elements apart."""
    own, read = set_update_timing(machine, patterns), read_cycles(machine, VECTOR_BYTES)
    lines = opened_lines(machine, m, distance) * (read.dirty_miss - read.hit)
    stripe = own.stripe_cycles + m / ROWS * own.pass_cycles + lines
    return float(own.round_cycles + n / STRIPE * stripe)


@cache
def set_update_timing(machine: Machine, patterns: int) -> ProductCycles:
    """`update_timing` for a set of patterns: stripes of columns, passes of four rows."""
    hitting = _hitting(machine)

    def cycles(stripes: int, passes: int) -> int:
        writer, n = started(), stripes * STRIPE
        rows = passes * ROWS
        write_set_update(writer, hitting, Update(rows, n, 2 * n, _SHIFT, patterns))
        weights = rows * WEIGHT_BYTES * n
        return finished(hitting, writer, patterns * weights, {"$8": 0, "$17": weights})

    return _by_samples(cycles)


def _simulated(machine: Machine, patterns: int, columns: int, rows: int, from_zero: bool) -> int:
    """Cycles of a product whose rows of weights are as far apart as all open lines of the chips."""
    row_bytes = machine.section(Rdram).open_bytes
    product = NodeProduct(patterns, columns, rows, 1, rows, row_bytes, SUM_BYTES * columns,
                      from_zero=from_zero)  # fmt: skip
    return product_text_cycles(machine, product, row_bytes * rows)


def product_text_cycles(machine: Machine, product: NodeProduct, weights: int) -> int:
    """Cycles of a product's text on the node, with its sums after so many bytes of weights."""
    writer = started()
    write_product(writer, machine, product)
    sums = product.m * product.sum_row_bytes
    return finished(machine, writer, weights + sums, {"$7": 0, "$15": 0, "$16": weights})


def _hitting(machine: Machine) -> Machine:
    """The machine with all lines open, so that every access hits."""
    rdram = machine.section(Rdram)
    hits = structs.replace(
        rdram,
        read_clean_miss_ns=rdram.read_hit_ns,
        read_dirty_miss_ns=rdram.read_hit_ns,
        write_clean_miss_ns=rdram.write_hit_ns,
        write_dirty_miss_ns=rdram.write_hit_ns,
    )
    sections = tuple(hits if section is rdram else section for section in machine.sections)
    return structs.replace(machine, sections=sections)


COSTS: Costs = {
    MatrixProduct: _product_cycles,
    Fill: fill_cycles,
    Map: _map_cycles,
    Lookup: lookup_cycles,
}


class Cns1Prices(Prices):
    """Prices of a node, whose processor makes its copies itself."""

    costs = COSTS

    def transfer_kind(self, direction: Direction) -> int:
        return COPY

    def service_cycles(
        self,
        machine: Machine,
        direction: Direction,
        shape: TransferShape,
        tensor_bytes: Value,
        *,
        shared: bool,
    ) -> Value:
        return matrix_copy_cycles(machine, shape)

    def changes(self, machine: Machine) -> tuple[Mapping[str, Leaf], ...]:
        """The report's questions about a node (sections 2.3, 5.1.3, 5.2, 7.1.2 and 8.2): a memory
        twice as fast, misses as fast as hits, separate multiplication and addition, scalars in the
        scalar unit, stripes of one vector, one pattern at a time.
        """
        rdram = machine.section(Rdram)
        times = {name: getattr(rdram, name) for name in rdram.__struct_fields__}
        access = {n: t for n, t in times.items() if n.startswith(("read_", "write_", "byte_"))}
        key = Rdram.key
        faster = {f"{key}.{name}": time / 2 for name, time in access.items()}
        hits = {
            f"{key}.{way}_{miss}_ns": times[f"{way}_hit_ns"]
            for way in ("read", "write")
            for miss in ("clean_miss", "dirty_miss")
        }
        vectors, kernels = machine.section(Vectors), machine.section(KernelStripes)
        choices = (
            (Vectors.key, "multiply_accumulate", vectors.multiply_accumulate, 0),
            (Vectors.key, "scalar_registers", vectors.scalar_registers, 0),
            (KernelStripes.key, "stripe_columns", kernels.stripe_columns, vectors.length),
            (KernelStripes.key, "patterns", kernels.patterns, 1),
        )
        others = ({f"{k}.{name}": new} for k, name, now, new in choices if new != now)
        return faster, hits, *others


def started() -> Writer:
    """A new text that sets the vector length and its bytes."""
    writer = Writer()
    writer.add("$28 = 32", "vlr = $28", "$30 = 128")
    return writer


def finished(
    machine: Machine, writer: Writer, main_bytes: int, registers: Mapping[str, int] | None = None
) -> int:
    """Cycles of a text, finished and run on so many zero bytes."""
    writer.add("goto $31", "nop")
    program, main = assembled(writer.text(), node_table(machine)), np.zeros(main_bytes, np.uint8)
    return run_node(program, main=main, registers=registers).cycles


PRICES = Cns1Prices()
