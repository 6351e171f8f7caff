"""C loops over tensors in memory: maps and reductions, generated from their accesses.

In: an operator of `ops.mapping`. Out: lines in a writer, on arrays named y and x0, x1, ... Loops
follow the memory that is written; the innermost is left to the compiler's vectoriser, or written on
vectors if it calls functions, and threads divide one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf, prod

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import BF16, DTYPES, F32, DType
from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    Apply,
    Element,
    Number,
    Scalar,
    c_converted,
    c_real,
    c_text_of_integers,
    expanded,
    parse_scalar,
)
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory
from tilewright.ops.op import Shape
from tilewright.targets.host.emit.packing import SQUARE_BYTES, emit_turn
from tilewright.targets.host.emit.threads import THREAD, THREADS, loop_head, own_run, run_of
from tilewright.targets.host.vectors.expressions import functions_of, runs_by_vectors, write_value
from tilewright.targets.host.vectors.microkernel import LINE_BYTES

_TURNS = 4
"""Iterations per thread from which on a loop is worth dividing."""
_NEAR = 2
"""Largest distance, in elements, of neighbouring lanes that vectors gather well."""
_SHORT = 4
"""Most iterations of an innermost loop that is unrolled into the loop around it: compilers then
vectorise that loop, and interleave the vectors.
"""


def turns_text(text: str) -> str:
    """C definitions of the functions that transpose squares, as far as `text` calls them."""
    found = [kind for kind in DTYPES if f"{_turn(kind)}(" in text]
    return "\n".join(emit_turn(_turn(kind), kind, LINE_BYTES // kind.size_bytes) for kind in found)


def _turn(kind: DType) -> str:
    return f"tw_turn_{kind}"


@dataclass(frozen=True)
class Address:
    """Offset in elements from the start of a tensor: a constant, and one stride per axis."""

    start: int
    strides: tuple[int, ...]

    def text(self) -> str:
        """The offset as a C expression, in which i2 is the index along axis 2."""
        terms = [
            f"i{axis}" if stride == 1 else f"i{axis} * {stride}L"
            for axis, stride in enumerate(self.strides)
            if stride
        ]
        return " + ".join([*([str(self.start)] if self.start else []), *terms]) or "0"


def _address(access: Access, extents: Shape) -> Address:
    """Address of the element that each step of the axes accesses."""
    start, strides = 0, [0] * len(extents)
    for d, (terms, offset) in enumerate(zip(access.terms, access.offsets, strict=True)):
        stride = prod(access.shape[d + 1 :])
        start += offset * stride
        for axis, step in terms:
            if extents[axis] > 1:
                strides[axis] += step * stride
    return Address(start, tuple(strides))


def write_in_memory(
    op: InMemory, writer: CWriter, threads: int = 1, squares_ahead: int = 1
) -> None:
    """y from x0, x1, ...: of each element, or gathered, in the type that it is computed in; the
    lines are fetched that squares so far ahead are written to.
    """
    if op.gather is None:
        _write_mapped(op, writer, threads, squares_ahead)
    else:
        _write_reduced(op, writer, threads)


def _write_mapped(op: InMemory, writer: CWriter, threads: int, squares_ahead: int) -> None:
    places = [_address(access, op.extents).text() for access in op.operands]
    for i, access in enumerate(op.operands):
        for d, operand in access.looked_up.items():
            size, stride = access.shape[d], prod(access.shape[d + 1 :])
            index = f"(long)x{operand}[{places[operand]}]"
            places[i] += f" + tw_within({index}, {size}L, node) * {stride}L"
    turned = _turned(op)
    if turned is not None:
        _write_turned(op, turned, places, writer, threads, squares_ahead)
    elif (steps := _vector_steps(op)) is not None:
        _write_vectors(op, steps, places, writer, threads)
    else:
        filled = None if op.operands else op.result
        axes = range(len(op.extents))
        with _nest(op.extents, axes, writer, threads, independent=True, filled=filled):
            _write_element(op, [f"x{i}[{place}]" for i, place in enumerate(places)], writer)


def _vector_steps(op: InMemory) -> list[int] | None:
    """Stride of each operand along the innermost axis, 0 or 1, if the expression calls functions
    and can be computed by vectors along that axis; otherwise None.
    """
    longer = [axis for axis, extent in enumerate(op.extents) if extent > 1]
    if op.has_look_ups or op.numerics.is_mixed or not longer or not functions_of(op.scalar):
        return None
    to, *steps = (_address(x, op.extents).strides[longer[-1]] for x in (op.result, *op.operands))
    close = to == 1 and {0, 1}.issuperset(steps)
    kind = op.numerics.sums
    return steps if close and kind == F32 and runs_by_vectors(op.scalar, kind) else None


def _write_vectors(
    op: InMemory, steps: list[int], places: list[str], writer: CWriter, threads: int
) -> None:
    """Write a loop over whole vectors along the innermost axis, then one partial vector."""
    *outer, inner = (axis for axis, extent in enumerate(op.extents) if extent > 1)
    divided = threads > 1 and _threaded_axis(op.extents, [*outer, inner], threads) == inner
    extent, i = f"{op.extents[inner]}L", f"i{inner}"
    first, end = run_of(extent, THREAD, THREADS) if divided else ("0", extent)
    y = _address(op.result, op.extents).text()

    def write(load: str, store: str, count: str) -> None:
        loads = [
            f"{load}(x{n} + {place}{count})" if step else f"tw_broadcast_f32(x{n}[{place}])"
            for n, (place, step) in enumerate(zip(places, steps, strict=True))
        ]
        value = write_value(op.scalar, loads, F32, writer, vectors=True)
        writer.line(f"{store}(y + {y}{count}, {value});")

    with _nest(op.extents, outer, writer, 1 if divided else threads), writer.block():
        writer.line("const long lanes = sizeof(tw_vector_f32) / sizeof *y;")
        writer.line(f"const long end = {end};")
        writer.line(f"long {i} = {first};")
        with writer.block(f"for (; {i} + lanes <= end; {i} += lanes)"):
            write("tw_load_f32", "tw_store_f32", "")
        with writer.block(f"if ({i} < end)"):
            writer.line(f"const long rest = end - {i};")
            write("tw_load_first_f32", "tw_store_first_f32", ", rest")


def _write_element(op: InMemory, elements: list[str], writer: CWriter) -> None:
    """Write the assignment of one element of y, from C texts of the operands' elements."""
    numerics, kind = op.numerics, op.numerics.sums
    y = f"y[{_address(op.result, op.extents).text()}]"
    scalar = expanded(op.scalar)
    if len(elements) > 1 and _chooses(scalar):
        # GCC 12 turns operands in a branch into masked loads, which read wrong elements at strides
        # of 2, and does not vectorise bytes. Loads before the branch avoid both.
        for i, (element, own) in enumerate(zip(elements, numerics.operands, strict=True)):
            writer.line(f"const {own.c_name} e{i} = {element};")
        elements = [f"e{i}" for i in range(len(elements))]
    if not numerics.is_float:
        value = f"({kind.c_name})({c_text_of_integers(scalar, elements, kind)})"
        writer.line(f"{y} = ({numerics.result.c_name}){value};")
        return
    if numerics.is_mixed:
        pairs = zip(elements, numerics.operands, strict=True)
        elements = [e if k == kind else c_real(e, k, kind) for e, k in pairs]
    value = write_value(scalar, elements, kind, writer)
    if numerics.result != kind or (kind == BF16 and isinstance(scalar, Number)):
        value = c_converted(value, numerics.result)
    writer.line(f"{y} = {value};")


def _turned(op: InMemory) -> tuple[int, int, list[int]] | None:
    """(axis along which y is contiguous, axis along which some operands are, numbers of these
    operands), if both axes are long enough to transpose by squares; otherwise None.
    """
    to = _address(op.result, op.extents).strides
    if op.has_look_ups or 1 not in to:
        return None
    across, found = to.index(1), dict[tuple[int, DType], list[int]]()
    for i, access in enumerate(op.operands):
        strides = _address(access, op.extents).strides
        if 1 in strides and strides[across] > _NEAR:
            found.setdefault((strides.index(1), op.numerics.operands[i]), []).append(i)
    if not found:
        return None
    (along, kind), operands = max(found.items(), key=lambda pair: len(pair[1]))
    least = min(op.extents[across], op.extents[along])
    return (across, along, operands) if least * kind.size_bytes >= SQUARE_BYTES else None


def _write_turned(
    op: InMemory, turned: tuple[int, int, list[int]], places: list[str], writer: CWriter,
    threads: int, squares_ahead: int,
) -> None:  # fmt: skip
    """Write a map with transposed operands: squares of them, a cache line each way, are transposed
    into the level 1 cache, and elements are computed from there. Loops follow the memory along
    which the longer of both axes is contiguous, so that few of its rows are in use at a time; lines
    of y some squares ahead are prefetched.
    """
    across, along, operands = turned
    kinds = op.numerics.operands
    side = LINE_BYTES // kinds[operands[0]].size_bytes
    blocks = tuple(-(-n // side) if axis in turned[:2] else n for axis, n in enumerate(op.extents))
    to, of = (_address(x, op.extents).strides for x in (op.result, op.operands[operands[0]]))
    order, steps = [*range(len(blocks))], to if blocks[across] > blocks[along] else of
    order.sort(key=lambda axis: -abs(steps[axis]) or -inf)
    ahead = to[order[-1]] * side * squares_ahead
    with _nest(blocks, order, writer, threads):
        for axis in (across, along):
            index = f"i{axis} * {side}L" if blocks[axis] > 1 else "0"
            writer.line(f"const long first{axis} = {index}, rest{axis} = {op.extents[axis]} - "
                        f"first{axis};")  # fmt: skip
            writer.line(f"const long n{axis} = rest{axis} < {side} ? rest{axis} : {side};")
        for i in operands:
            writer.line(f"{kinds[i].c_name} t{i}[{side * side}];")
        with writer.block():
            for axis in (across, along):
                writer.line(f"const long i{axis} = first{axis};")
            for i in operands:
                step = _address(op.operands[i], op.extents).strides[across]
                name = _turn(kinds[i])
                given = [f"n{across}", f"n{along}", f"x{i} + {places[i]}", f"{step}L", f"t{i}"]
                writer.call(name, given)
        elements = [f"x{i}[{place}]" for i, place in enumerate(places)]
        for i in operands:
            elements[i] = f"t{i}[k * {side} + j]"
        with writer.block(f"for (long k = 0; k < n{along}; k++)"):
            writer.line(f"const long i{along} = first{along} + k;")
            with writer.block():
                writer.line(f"const long i{across} = first{across};")
                y = _address(op.result, op.extents).text()
                writer.line(f"__builtin_prefetch(y + {y} + {ahead}L, 1);")
            for test, count in ((f"if (n{across} == {side})", side), ("else", f"n{across}")):
                writer.line(test)
                writer.line("#pragma GCC ivdep")
                with writer.block(f"for (long j = 0; j < {count}; j++)"):
                    writer.line(f"const long i{across} = first{across} + j;")
                    _write_element(op, elements, writer)


def _chooses(scalar: Scalar) -> bool:
    """True if an expression reads some operands only under a condition."""
    match scalar:
        case Apply(function, arguments):
            return function in ("if", "and", "or") or any(map(_chooses, arguments))
        case _:
            return False


def _write_reduced(op: InMemory, writer: CWriter, threads: int) -> None:
    """Write a reduction: each element of y gathers in a register, or a vector of neighbours in y
    itself. In a register, the outer loops follow the memory of the largest operand, as it is read
    most.
    """
    kind, lanes = op.numerics.result, _lanes(op)
    outer = [axis for axis in range(op.outer) if axis not in lanes]
    if not lanes and op.operands:
        steps = _address(max(op.operands, key=lambda x: prod(x.shape)), op.extents).strides
        outer.sort(key=lambda axis: -abs(steps[axis]) or -inf)
    apart = threads if lanes and all(op.extents[axis] == 1 for axis in outer) else 1
    inside = partial(_nest, op.extents, lanes, writer, apart, independent=True)
    y = f"y[{_address(op.result, op.extents).text()}]"
    gathered = y if lanes else "v"
    with _nest(op.extents, outer, writer, 1 if apart > 1 else threads):
        declared = "" if lanes else f"{kind.c_name} "
        with inside():
            first = {"max": "-INFINITY", "sum": "0", "prod": "1"}[op.gather or "sum"]
            writer.line(f"{declared}{gathered} = {first};")
        with _gathering(op, writer), inside():
            _write_gathered(op, gathered, kind, writer)
        finish = parse_scalar(op.finish)
        if not lanes or finish != Element(0):
            with inside(), writer.block():
                writer.line(f"{y} = {write_value(finish, [gathered], kind, writer)};")


def _lanes(op: InMemory) -> tuple[int, ...]:
    """The innermost axis of the result, if operands are close to contiguous along it and all its
    elements gather equally many; otherwise no axis.
    """
    axis = op.outer - 1
    beyond = {a for access in op.operands for d in _beyond(access, op.extents)
              for a, _ in access.terms[d]}  # fmt: skip
    if axis < 0 or axis in beyond or op.extents[axis] == 1 or op.outer == len(op.extents):
        return ()
    to, *of = (_address(x, op.extents).strides[axis] for x in (op.result, *op.operands))
    return (axis,) if to == 1 and any(of) and all(0 <= step <= _NEAR for step in of) else ()


def _beyond(access: Access, extents: Shape) -> list[int]:
    """The dimensions of an operand that some of its accesses exceed."""
    found = []
    for d, (terms, offset) in enumerate(zip(access.terms, access.offsets, strict=True)):
        ends = [(extents[axis] - 1) * step for axis, step in terms]
        first, last = (offset + sum(pick(0, end) for end in ends) for pick in (min, max))
        if first < 0 or last >= access.shape[d]:
            found.append(d)
    return found


@contextmanager
def _gathering(op: InMemory, writer: CWriter) -> Iterator[None]:
    """Write loops over the elements that one result gathers, without those beyond an operand."""
    ends: dict[int, tuple[str, str]] = {}
    for access in op.operands:
        for d in _beyond(access, op.extents):
            size, own = access.shape[d], dict(access.terms[d])
            gathered = [axis for axis in own if axis >= op.outer]
            if len(gathered) != 1 or gathered[0] in ends or own[gathered[0]] < 1:
                raise ProgramError(f"{op.describe()}: several loops lead beyond dimension {d}")
            (axis,) = gathered
            step, extent = own.pop(axis), op.extents[axis]
            moving = [own.get(a, 0) if n > 1 else 0 for a, n in enumerate(op.extents)]
            at = f"at{axis}"
            writer.line(f"const long {at} = {Address(access.offsets[d], tuple(moving)).text()};")
            first, room = (_steps_to(at, end, step) for end in (0, size))
            writer.line(f"const long first{axis} = {at} < 0 ? {first} : 0;")
            inside = f"{at} + {(extent - 1) * step} < {size} ? {extent} : {room}"
            writer.line(f"const long end{axis} = {inside};")
            ends[axis] = (f"first{axis}", f"end{axis}")
    with ExitStack() as stack:
        for axis in range(op.outer, len(op.extents)):
            i, (first, end) = f"i{axis}", ends.get(axis, ("0", str(op.extents[axis])))
            stack.enter_context(writer.block(f"for (long {i} = {first}; {i} < {end}; {i}++)"))
        yield


def _steps_to(at: str, end: int, step: int) -> str:
    """C expression for the number of steps from index `at` to `end` or beyond."""
    return f"{end} - {at}" if step == 1 else f"({end + step - 1} - {at}) / {step}"


def _write_gathered(op: InMemory, total: str, kind: DType, writer: CWriter) -> None:
    elements = [
        f"x{i}[{_address(access, op.extents).text()}]" for i, access in enumerate(op.operands)
    ]
    x = write_value(op.scalar, elements, kind, writer)
    if op.gather == "max":
        writer.line(f"const {kind.c_name} x = {x};")
        writer.line(f"{total} = {total} < x ? x : {total};")
    else:
        writer.line(f"{total} {'+' if op.gather == 'sum' else '*'}= {x};")


@contextmanager
def _nest(
    extents: Shape,
    axes: Sequence[int],
    writer: CWriter,
    threads: int,
    *,
    independent: bool = False,
    filled: Access | None = None,
) -> Iterator[None]:
    """Write loops along `axes` around the body, one of them divided among threads; with
    `independent`, no loop carries a dependence. If the body fills around a result, `filled`, each
    thread writes the elements in its own part of the whole array.
    """
    longer = [axis for axis in axes if extents[axis] > 1]
    shared = _threaded_axis(extents, longer, threads) if threads > 1 else None
    runs = {axis: ("0", str(extents[axis])) for axis in longer}
    if shared is not None:
        runs[shared] = run_of(str(extents[shared]), THREAD, THREADS)
    if shared is not None and filled is not None:
        start, strides = _address(filled, extents).start, _address(filled, extents).strides
        shared = max(longer, key=lambda axis: strides[axis])
        runs[shared] = own_run(prod(filled.shape), start, strides[shared], extents[shared])
    short = len(longer) > 1 and extents[longer[-1]] <= _SHORT and longer[-1] != shared
    with ExitStack() as stack:
        if threads > 1 and shared is None:
            stack.enter_context(writer.block(f"if ({THREAD} == 0)"))
        for axis in longer:
            if independent and axis == longer[-2 if short else -1]:
                writer.line("#pragma GCC ivdep")
            elif independent and short and axis == longer[-1]:
                writer.line(f"#pragma GCC unroll {extents[axis]}")
            stack.enter_context(writer.block(loop_head(f"i{axis}", *runs[axis])))
        yield


def _threaded_axis(extents: Shape, axes: Sequence[int], threads: int) -> int | None:
    """The axis that threads divide: the first with enough iterations for all, else the longest."""
    wide = (axis for axis in axes if extents[axis] >= _TURNS * threads)
    return next(wide, max(axes, key=lambda axis: extents[axis], default=None))
