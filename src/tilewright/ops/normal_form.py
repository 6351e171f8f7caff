"""Definitions as sequences of steps that machines can compute.

In: a definition. Out: operators in order, each on operands of the definition or on results of
earlier steps. Products of more than two factors are computed in pairs; a body of several operands
is mapped before it is gathered; operands that are reversed, cropped or padded by other numbers than
zero are copied first; results that are part of a larger tensor are written into it last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from tilewright.common.dtypes import BOOL, F64, I64
from tilewright.ir.scalar import Element
from tilewright.ir.scalar import renumbered as renumbered_scalar
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition, factors_of
from tilewright.ops.matrix_roles import backwards, matrix_roles
from tilewright.ops.numerics import Numerics
from tilewright.ops.op import Op, Shape
from tilewright.ops.recognition import recognised

_WIDEST_EXACT = 4
"""Bytes of the widest integers whose sums a double represents exactly."""
_HALF_BITS = 32
_EXACT_BITS = 53
"""Bits up to which a double represents every integer exactly."""
_FAR_SMALLER = 16
"""A factor is copied for a product that is at least this many times its size."""
_MOST_TRIED = 5
"""Most factors for which all orders of pairing are tried; beyond, the order is greedy."""


@dataclass(frozen=True)
class _Step:
    """An operator on numbered tensors: operands of the definition, then the results of steps."""

    op: Op
    operands: tuple[int, ...]


class _Steps:
    """Steps of a definition under construction."""

    def __init__(self, op: Definition) -> None:
        self._count, self._made = len(op.operands), list[_Step]()

    def add(self, op: Op, *operands: int) -> int:
        """Append an operator; returns the number of its result."""
        self._made.append(_Step(op, operands))
        return self._count + len(self._made) - 1

    def reduce(self, op: Definition, *operands: int) -> int:
        """Append the steps of a definition; returns the number of its result."""
        numbers = list(operands)
        for step in normal_form(op):
            numbers.append(self.add(step.op, *(numbers[n] for n in step.operands)))
        return numbers[-1]

    @property
    def all(self) -> tuple[_Step, ...]:
        return tuple(self._made)


def normal_form(op: Definition) -> tuple[_Step, ...]:
    """The steps; the last one computes the result. A definition that is one step stays alone."""
    found = _without_diagonals(op) or _without_look_ups(op) or _by_kind(op)
    return found or (_Step(op, tuple(range(len(op.operands)))),)


def _by_kind(op: Definition) -> tuple[_Step, ...] | None:
    """The steps of a product or a gather; None if the definition is a single step."""
    if op.has_look_ups:
        return None
    factors = factors_of(op.scalar)
    summed = op.gather == "sum" and factors is not None
    distinct = factors is not None and sorted(factors) == list(range(len(op.operands)))
    if op.numerics.is_float and summed and distinct and len(op.operands) > 1:
        if op.finish != "x0":
            return _finished(op)
        return _pairs(op) if len(op.operands) > 2 else _product(op)
    if op.numerics.result.kind == "fixed" and recognised(op):
        return _product(op)
    plain = summed and distinct and len(op.operands) > 1 and op.finish == "x0"
    in_floats = plain and _is_exact_in_floats(op)
    if in_floats and op.numerics.sums == I64:
        return _product_in_floats(op)
    if _is_summed_in_halves(op):
        return _summed_in_halves(op)
    if op.gather == "prod" and op.finish == "x0" and op.numerics.sums.kind == "integer":
        return _multiplied_in_pairs(op)
    if op.gather is not None and not _is_gathered_as_it_is(op):
        return _product_in_floats(op) if in_floats else _gathered_in_floats(op)
    return _mapped(op) if op.gather is not None and len(op.operands) > 1 else None


def _without_diagonals(op: Definition) -> tuple[_Step, ...] | None:
    """The steps after copies of operands that are read along a diagonal, one axis moving several
    dimensions; None if no gather reads such an operand.
    """
    steps, accesses, numbers = _Steps(op), list(op.operands), list(range(len(op.operands)))
    for number, access in enumerate(op.operands):
        named = [a for terms in access.terms for a, _ in terms if op.extents[a] > 1]
        own = tuple(dict.fromkeys(named))
        if op.gather is None or len(own) == len(named):
            continue
        copy, accesses[number] = _ordered(access, own, op)
        numbers[number] = steps.add(copy, number)
    if not steps.all:
        return None
    steps.reduce(replace(op, operands=tuple(accesses)), *numbers)
    return steps.all


def _ordered(access: Access, axes: Shape, op: Definition) -> tuple[Definition, Access]:
    """A copy of an operand with one dimension per axis, in order, and the access of the copy."""
    shape = tuple(op.extents[a] for a in axes)
    taken = access.renamed({a: i for i, a in enumerate(axes)})
    return Definition(shape, straight(shape), (taken,), dtype=op.dtype), straight(shape, axes)


def _without_look_ups(op: Definition) -> tuple[_Step, ...] | None:
    """The steps after copies of looked-up elements; None without look-ups, or if one is all."""
    looked_up = [i for i, access in enumerate(op.operands) if access.read_from]
    if not looked_up or is_look_up(op):
        return None
    steps, count = _Steps(op), len(op.operands)
    numbers, accesses, kinds = list(range(count)), list(op.operands), list(op.numerics.operands)
    for number in looked_up:
        access = op.operands[number]
        indices = tuple(dict.fromkeys(access.looked_up.values()))
        axes = sorted(access.axes.union(*(op.operands[k].axes for k in indices)))
        shape, renumbered = tuple(op.extents[a] for a in axes), {a: i for i, a in enumerate(axes)}
        read = tuple(None if k is None else 1 + indices.index(k) for k in access.read_from)
        own = replace(access.renamed(renumbered), read_from=read)
        given = (own, *(op.operands[k].renamed(renumbered) for k in indices))
        types = ",".join(op.numerics.operands[i].name for i in (number, *indices))
        kind = kinds[number].name
        copy = Definition(shape, straight(shape), given, "x0", None, "x0", f"{types}:{kind}:{kind}")
        numbers[number] = steps.add(copy, number, *indices)
        accesses[number] = straight(shape, tuple(axes))
    left = [i for i in range(count) if i in _elements_of(op) or i in op.result.looked_up.values()]
    own_number = {n: Element(i) for i, n in enumerate(left)}
    body = renumbered_scalar(op.scalar, [own_number.get(i, Element(0)) for i in range(count)])
    left_kinds = tuple(kinds[i] for i in left)
    left_types = replace(op.numerics, operands=left_kinds)
    rest = replace(
        op, operands=tuple(accesses[i] for i in left), body=str(body), dtype=str(left_types),
        tensors=(), result=replace(op.result, read_from=tuple(
            None if k is None else left.index(k) for k in op.result.read_from)),
    )  # fmt: skip
    whole = straight(rest.out_shape)
    is_copy = rest.result == whole and rest.operands == (whole,) and is_look_up(rest)
    if not (is_copy and str(left_types) == steps.all[-1].op.out_dtype):
        steps.reduce(rest, *(numbers[n] for n in left))
    return steps.all


def is_look_up(op: Definition) -> bool:
    """True if the definition only copies elements, at indices that other operands may hold."""
    return op.gather is None and op.body == "x0" and not op.result.read_from


def _elements_of(op: Definition) -> set[int]:
    """The operands whose elements the body reads."""
    return {int(name) for name in re.findall(r"x(\d+)", op.body)}


def _is_gathered_as_it_is(op: Definition) -> bool:
    """True if the gather stays in its own types: a single type of floats or real numbers, or
    integers that floats cannot gather exactly.
    """
    numerics = op.numerics
    if numerics.is_float:
        return (numerics.in_reals or not numerics.is_mixed) and op.gather != "any"
    kinds = (*numerics.operands, numerics.sums)
    return op.finish != "x0" or max(kind.size_bytes for kind in kinds) > _WIDEST_EXACT


def _gathered_in_floats(op: Definition) -> tuple[_Step, ...]:
    """Steps that map the body in its types, gather the values in one type of floats, and convert
    them to the type of the result. Integers are exact in doubles.
    """
    numerics, count = op.numerics, len(op.operands)
    kind = numerics.sums.name if numerics.is_float else F64.name
    body = f"1 if ({op.body}) != 0 else 0" if op.gather == "any" else op.body
    kinds = ",".join(own.name for own in numerics.operands)
    steps = _Steps(op)
    first, shape, read = _body_of(op, body, f"{kinds}:{numerics.sums}")
    made = steps.add(first, *range(count))
    if not numerics.is_float:
        made = steps.add(_cast(shape, f"{numerics.sums}:{kind}"), made)
    gather = "max" if op.gather == "any" else op.gather
    gathered = replace(op, operands=(read,), body="x0", gather=gather, dtype=kind,
                       tensors=())  # fmt: skip
    made = steps.add(gathered, made)
    if not numerics.is_float and (gather == "sum" or _drops_bits(numerics)):
        made = steps.add(_cast(op.out_shape, f"{kind}:{kind}:{I64}"), made)
        _written_back(steps, made, op.out_shape, numerics)
    elif numerics.result.name != kind:
        steps.add(_cast(op.out_shape, f"{kind}:{kind}:{numerics.result}"), made)
    return steps.all


def _drops_bits(numerics: Numerics) -> bool:
    """True if results keep the low bits of sums of integers that they do not hold."""
    (low, high), (least, most) = numerics.sums.limits, numerics.result.limits
    return not numerics.saturate and (low < least or high > most)


def _multiplied_in_pairs(op: Definition) -> tuple[_Step, ...]:
    """Steps that map the body, then multiply the halves of each gathered axis until one element is
    left: 64-bit integers keep the low bits, which doubles would round away.
    """
    kinds, steps = ",".join(kind.name for kind in op.numerics.operands), _Steps(op)
    extents, types = op.extents, op.numerics.sums
    first = Definition(extents, straight(extents), op.operands, op.body, dtype=f"{kinds}:{types}")
    made = steps.add(first, *range(len(op.operands)))
    if types != I64:
        made = steps.add(_cast(extents, f"{types}:{I64}"), made)
    for axis in op.gathered:
        while extents[axis] > 1:
            product = _product_of_halves(extents, axis)
            extents, made = product.out_shape, steps.add(product, made, made)
    placed = Definition(extents, op.result, (straight(extents),), dtype=I64.name)
    _written_back(steps, steps.add(placed, made), op.out_shape, op.numerics)
    return steps.all


def _product_of_halves(shape: Shape, axis: int) -> Definition:
    """The product of the first half of an axis with the second, which ones fill to its length."""
    half = -(-shape[axis] // 2)
    extents = tuple(half if a == axis else n for a, n in enumerate(shape))
    whole = straight(extents)
    offsets = tuple(half if a == axis else 0 for a in range(len(shape)))
    upper = replace(whole, shape=shape, offsets=offsets, fill=1 if shape[axis] % 2 else None)
    lower = replace(whole, shape=shape)
    return Definition(extents, whole, (lower, upper), "x0 * x1", dtype=I64.name)


def _is_exact_in_floats(op: Definition) -> bool:
    """True if doubles represent all sums of products of integers exactly."""
    widths = sum(8 * kind.size_bytes for kind in op.numerics.operands)
    return widths + prod(op.extents[a] for a in op.gathered).bit_length() <= _EXACT_BITS


def _is_summed_in_halves(op: Definition) -> bool:
    """True if doubles represent the sums of both halves of 64-bit integers exactly."""
    terms = prod(op.extents[a] for a in op.gathered)
    plain = op.gather == "sum" and op.finish == "x0" and op.numerics.sums == I64
    return plain and _HALF_BITS + terms.bit_length() <= _EXACT_BITS


def _summed_in_halves(op: Definition) -> tuple[_Step, ...]:
    """Steps that map the body, sum its upper and lower 32 bits apart in doubles, and join them."""
    kinds, steps = ",".join(kind.name for kind in op.numerics.operands), _Steps(op)
    first, shape, read = _body_of(op, op.body, f"{kinds}:{I64}")
    made, sums = steps.add(first, *range(len(op.operands))), list[int]()
    for half in (f"x0 >> {_HALF_BITS}", f"x0 & {(1 << _HALF_BITS) - 1}"):
        place = straight(shape)
        part = steps.add(Definition(shape, place, (place,), half, dtype=I64.name), made)
        part = steps.add(_cast(shape, f"{I64}:{F64}"), part)
        gathered = replace(op, operands=(read,), body="x0", dtype=F64.name, tensors=())
        part = steps.reduce(gathered, part)
        sums.append(steps.add(_cast(op.out_shape, f"{F64}:{F64}:{I64}"), part))
    place, joined = straight(op.out_shape), f"(x0 << {_HALF_BITS}) + x1"
    whole = Definition(op.out_shape, place, (place, place), joined, dtype=I64.name)
    _written_back(steps, steps.add(whole, *sums), op.out_shape, op.numerics)
    return steps.all


def _product_in_floats(op: Definition) -> tuple[_Step, ...]:
    """Steps that convert operands to doubles, multiply, and convert to the type of the result."""
    steps, kinds = _Steps(op), op.numerics.operands
    doubles = [
        steps.add(_cast(access.shape, f"{kind}:{F64}"), number)
        for number, (access, kind) in enumerate(zip(op.operands, kinds, strict=True))
    ]
    made = steps.reduce(replace(op, dtype=F64.name, tensors=()), *doubles)
    made = steps.add(_cast(op.out_shape, f"{F64}:{F64}:{I64}"), made)
    _written_back(steps, made, op.out_shape, op.numerics)
    return steps.all


def _cast(shape: Shape, types: str) -> Definition:
    return Definition(shape, straight(shape), (straight(shape),), dtype=types)


def _written_back(steps: _Steps, number: int, shape: Shape, numerics: Numerics) -> None:
    """Append the steps from sums in 64-bit integers to the result: `Numerics.write_back`."""
    own, sums, result = I64, numerics.sums, numerics.result
    low = max(sums.limits[0], result.limits[0])
    high = min(sums.limits[1], result.limits[1])
    limited = numerics.saturate and result != BOOL and (low, high) != sums.limits
    body = f"min(max(x0, {low}), {high})" if limited else "x0"
    for kind, expression in ((sums, "x0"), (result, body)) if limited else ((result, "x0"),):
        if kind != own or expression != "x0":
            types = own.name if kind == own else f"{own}:{own}:{kind}:even:wrap"
            place = straight(shape)
            step = Definition(shape, place, (place,), expression, dtype=types)
            own, number = kind, steps.add(step, number)


def _finished(op: Definition) -> tuple[_Step, ...]:
    """Steps that compute the sums, then `finish` over them."""
    kept, steps = tuple(op.extents[a] for a in op.kept), _Steps(op)
    sums = replace(op, result=straight(kept, op.kept), finish="x0", tensors=())
    made = steps.reduce(sums, *range(len(op.operands)))
    steps.add(_placed(op, op.kept, op.finish), made)
    return steps.all


def _placed(op: Definition, order: Sequence[int], expression: str = "x0") -> Definition:
    """The step that writes values along kept axes, in `order`, to the result's tensor."""
    number, kept = {a: i for i, a in enumerate(order)}, tuple(op.extents[a] for a in order)
    result = op.result.renamed(number)
    return Definition(kept, result, (straight(kept),), expression, dtype=op.out_dtype)


def _mapped(op: Definition) -> tuple[_Step, ...]:
    """Steps that map the body along the axes that its operands have, then gather it."""
    numerics = op.numerics
    inner = replace(numerics, result=numerics.units, rounding="even", saturate=True)
    outer = replace(numerics, operands=(numerics.units,))
    body, _, read = _body_of(op, op.body, str(inner))
    gathered = replace(op, operands=(read,), body="x0", dtype=str(outer), tensors=())
    steps = _Steps(op)
    steps.add(gathered, steps.add(body, *range(len(op.operands))))
    return steps.all


def _body_of(op: Definition, body: str, types: str) -> tuple[Definition, Shape, Access]:
    """A map of `body` along the axes that operands have, its extents, its result's access."""
    axes = tuple(a for a in range(len(op.extents)) if any(a in x.axes for x in op.operands))
    shape, number = tuple(op.extents[a] for a in axes), {a: i for i, a in enumerate(axes)}
    operands = tuple(x.renamed(number) for x in op.operands)
    made = Definition(shape, straight(shape), operands, body, dtype=types)
    return made, shape, straight(shape, axes)


def _product(op: Definition) -> tuple[_Step, ...]:
    """The steps of a contraction of two operands; each is copied first unless loops around a matrix
    product can read it as it is.
    """
    roles = matrix_roles(op)
    turning = backwards(op)
    accesses = [x.turned(op.extents, turning) for x in op.operands]
    steps, numbers = _Steps(op), list(range(len(op.operands)))
    for i, (access, cut) in enumerate(zip(accesses, roles.operands, strict=True)):
        if not cut.as_it_lies:
            copy, accesses[i] = _copied(access, op.extents, op.operand_dtypes[i])
            numbers[i] = steps.add(copy, i)
    moving = [(a, s) for place in op.result.terms for a, s in sorted(place, key=lambda t: -t[1])]
    order = tuple(a for a, _ in moving if op.extents[a] > 1)
    whole = op.result.is_whole(op.extents)
    result = op.result if whole else straight(tuple(op.extents[a] for a in order), order)
    made = _steps_of(
        steps, replace(op, result=result, operands=tuple(accesses), tensors=()), numbers
    )
    if not whole:
        steps.add(_placed(op, order), made)
    return steps.all


def _steps_of(steps: _Steps, op: Definition, numbers: Sequence[int]) -> int:
    """Append the named operator that the contraction equals, with the moves around it, or else the
    contraction itself; returns the number of its result.
    """
    found = recognised(op)
    if found is None:
        return steps.add(op, *numbers)
    taken = [numbers[operand] for operand in found.operands]
    for i, chain in enumerate(found.arranging):
        for each in chain:
            taken[i] = steps.add(each, taken[i])
    made = steps.add(found.op, *taken)
    for each in found.restoring:
        made = steps.add(each, made)
    return made


def _copied(access: Access, extents: Shape, dtype: str) -> tuple[Definition, Access]:
    """A copy of the elements that are reached, all forwards, and the access of the copy. An axis
    that is alone in its dimension, or runs against another one, gets a dimension of its own.
    """
    shape: list[int] = []
    source: list[tuple[tuple[tuple[int, int], ...], int]] = []
    target: list[tuple[tuple[tuple[int, int], ...], int]] = []
    whole = Box.whole(extents)
    for d, place in enumerate(access.terms):
        terms = [(a, s) for a, s in place if extents[a] > 1]
        low, high = access.span(d, whole)
        if len(terms) == 1 or len({s > 0 for _, s in terms}) > 1:
            numbers = range(len(shape), len(shape) + len(terms))
            source.append((tuple((i, s) for i, (_, s) in zip(numbers, terms, strict=True)),
                           access.offsets[d]))  # fmt: skip
            shape += [extents[a] for a, _ in terms]
            target += [(((a, 1),), 0) for a, _ in terms]
            continue
        back = any(s < 0 for _, s in terms)
        source.append((((len(shape), -1 if back else 1),), high - 1 if back else low))
        shape.append(high - low)
        offset = high - 1 - access.offsets[d] if back else access.offsets[d] - low
        target.append((tuple((a, -s if back else s) for a, s in terms), offset))
    extent = tuple(shape)
    taken = Access(access.shape, tuple(t for t, _ in source), tuple(o for _, o in source),
                   access.fill)  # fmt: skip
    copy = Definition(extent, straight(extent), (taken,), dtype=dtype)
    return copy, Access(extent, tuple(t for t, _ in target), tuple(o for _, o in target))


def _pairs(op: Definition) -> tuple[_Step, ...]:
    """Steps that multiply two factors at a time, in the order with the fewest operations. Where all
    axes stay, factors far smaller than their product are first copied into its order of axes.
    """
    steps, waiting = _Steps(op), list(enumerate(op.operands))
    for first, second in _order(op):
        left, right = waiting[first], waiting[second]
        rest = [x for i, x in enumerate(waiting) if i not in (first, second)]
        needed = op.result.axes.union(*(x.axes for _, x in rest))
        if rest and (both := left[1].axes | right[1].axes) <= needed:
            size = prod(op.extents[a] for a in both)
            left, right = (_turned(x, op, size, steps) for x in (left, right))
        made = _pair(op, left[1], right[1], needed, last=not rest)
        axes = tuple(sorted((left[1].axes | right[1].axes) & needed))
        shape = tuple(op.extents[a] for a in axes)
        waiting = [*rest, (steps.reduce(made, left[0], right[0]), straight(shape, axes))]
    return steps.all


def _turned(
    factor: tuple[int, Access], op: Definition, size: int, steps: _Steps
) -> tuple[int, Access]:
    """A factor of a product of `size` elements, with its axes put in order if that is cheap."""
    number, access = factor
    axes = tuple(sorted(access.axes))
    moved = [a for terms in access.terms for a, _ in terms]
    plain = access == straight(access.shape, tuple(moved)) and moved != [*axes]
    if not plain or prod(access.shape) * _FAR_SMALLER > size:
        return factor
    copy, own = _ordered(access, axes, op)
    return steps.add(copy, number), own


def _pair(
    op: Definition, left: Access, right: Access, needed: frozenset[int], *, last: bool
) -> Definition:
    """The product of two factors, summed over the axes that nothing else needs."""
    if last:
        gone = frozenset().union(*(x.axes for x in op.operands)) - left.axes - right.axes
        extents = tuple(1 if a in gone - op.result.axes else n for a, n in enumerate(op.extents))
        return replace(op, extents=extents, operands=(left, right), body="x0 * x1", tensors=())
    axes = tuple(sorted(left.axes | right.axes))
    number = {a: i for i, a in enumerate(axes)}
    kept = tuple(a for a in axes if a in needed)
    shape = tuple(op.extents[a] for a in kept)
    return Definition(
        tuple(op.extents[a] for a in axes),
        straight(shape, kept).renamed(number),
        (left.renamed(number), right.renamed(number)),
        "x0 * x1",
        "sum",
        dtype=op.dtype,
    )


def _order(op: Definition) -> list[tuple[int, int]]:
    """Pairs of factors to multiply, by index in the queue; each product joins its end."""
    axes = tuple(x.axes for x in op.operands)
    found = _cheapest(op.extents, op.result.axes, axes, greedy=len(axes) > _MOST_TRIED)
    return list(found[1])


def _cheapest(
    extents: Shape, result: frozenset[int], axes: tuple[frozenset[int], ...], *, greedy: bool
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The fewest operations, and the pairs that need them."""
    if len(axes) == 1:
        return 0, ()
    every = []
    for first, second in combinations(range(len(axes)), 2):
        both = axes[first] | axes[second]
        rest = tuple(x for i, x in enumerate(axes) if i not in (first, second))
        made = both & result.union(*rest)
        each = 1 if made == both else 2  # a multiplication, and an addition if an axis is summed
        every.append((each * prod(extents[a] for a in both), (first, second), rest, made))
    if greedy:
        every = [min(every, key=lambda one: one[0])]
    found = []
    for work, pair, rest, made in every:
        beyond, pairs = _cheapest(extents, result, (*rest, made), greedy=greedy)
        found.append((work + beyond, (pair, *pairs)))
    return min(found)
