"""Forms in which a candidate reads and writes its operator's tensors.

In: a candidate. Out: forms, found by sending element numbers through the functions that arrange an
operator's operands in a program's storage order. Layouts, blocks and borders of any seed are thus
derived without a declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import prod

import numpy as np

from tilewright.common.expr import evaluate
from tilewright.common.remembered import remembered
from tilewright.network.planning.bordered import Bordered
from tilewright.network.planning.form import Form, Indices, StoredDim, canonical, form_of, like
from tilewright.network.planning.pieces import Share
from tilewright.ops import Op
from tilewright.seeds.pooling import pooled_extents, result_shape
from tilewright.seeds.space import Seed, interface, parameters
from tilewright.tune.candidate import Candidate

_FEW_IMAGES = (2, 8)
"""Batch sizes to derive forms on: enough to show where the next image lies, even in blocks."""
_FEW_TERMS = 8
"""Channels, and rows, columns and terms of a product, on which forms are derived."""


class Forms:
    """Looks up forms; a tensor is sent through once for all seeds that declare equal extents."""

    def __init__(self) -> None:
        self._declared: dict[tuple[object, ...], Form] = {}

    def of(self, candidate: Candidate, *, constants: bool = True) -> dict[str, Form]:
        """The form of each operand and of the result, by the seed's tensor name. Those of
        constants, which may be large, are included only with `constants`.
        """
        return dict(self._forms_of(candidate, constants=constants))

    @remembered
    def _forms_of(self, candidate: Candidate, *, constants: bool) -> dict[str, Form]:
        layouts = candidate.joint_layouts()
        kinds = {t.name: t.kind for t in candidate.seed.tensors}
        names = (*candidate.seed.operands, candidate.seed.result)
        found = {
            name: self._form(candidate, name, layouts.get(name, ()))
            for name in names
            if constants or kinds[name] != "constant"
        }
        if isinstance(candidate, Bordered):
            return {**found, candidate.seed.result: candidate.form}
        return _whole(candidate, found) if isinstance(candidate, Share) else found

    def _form(self, candidate: Candidate, name: str, order: tuple[str, ...]) -> Form:
        seed, dims = candidate.seed, [*_extents(candidate, name, candidate.op)]
        key = (candidate.op, id(seed), name, *candidate.blocks.items())
        plain = self._declared.get(key)
        if plain is None:
            plain = self._declared[key] = _as_declared(candidate, name)
        ordered = [plain.dims[dims.index(d)] for d in order or dims]
        found = canonical(plain.shape, ordered, plain.before)
        return like(found, result_shape(seed, candidate.op)) if _is_pooled(seed, name) else found


def _as_declared(candidate: Candidate, name: str) -> Form:
    """The form with the dimensions that the seed declares. Derived on few images, channels, rows or
    columns where more of them only repeat the pattern.
    """
    op, seed = candidate.op, candidate.seed
    operand = None if name == seed.result else seed.operands.index(name)
    extents = tuple(_extents(candidate, name, op).values())
    shape = _shape(op, operand)
    for few in _smaller(op):
        fewer = tuple(_extents(candidate, name, few).values())
        if _is_more(extents, fewer) == _is_more(shape, _shape(few, operand)):
            grown = _grown(_sent_through(few, operand, fewer), shape, extents)
            if grown is not None:
                return grown
    return _sent_through(op, operand, extents)


def _is_pooled(seed: Seed, name: str) -> bool:
    """True if tensor `name` is a result that the nest pools."""
    return name == seed.result and seed.spaces[-1].nest.pooling is not None


@cache
def _smaller(op: Op) -> Sequence[Op]:
    """Operators of the same pattern with fewer images and channels, or smaller m, n and k."""
    if (conv := op.convolution) is not None:
        names = ("in_channels", "out_channels") if conv.groups == 1 else ()
        channels = {name: min(getattr(conv, name), _FEW_TERMS) for name in names}
        batches = [min(images, conv.batch) for images in _FEW_IMAGES]
        every = [replace(conv, batch=n, **few) for few in (channels, {}) for n in batches]
        return [few for few in dict.fromkeys(every) if few != conv]
    if (product := op.matrix_product) is not None:
        m, n, k = (min(extent, _FEW_TERMS) for extent in (product.m, product.n, product.k))
        return [replace(product, m=m, n=n, k=k)]
    return []


def _is_more(extents: Sequence[int], fewer: Sequence[int]) -> list[Fraction]:
    """Growth factors of the dimensions that differ, sorted; vanished dimensions are skipped."""
    pairs = zip(extents, fewer, strict=True)
    return sorted(Fraction(n, m) for n, m in pairs if n != m and m)


def _grown(form: Form, shape: tuple[int, ...], extents: Sequence[int]) -> Form | None:
    """The form extended along the outermost dimension of each axis. None where another dimension
    grows, or where a single block does not show the distance between blocks.
    """
    dims = []
    for d, extent in zip(form.dims, extents, strict=True):
        several = form.along(d.axis)
        outermost = all(o.step <= d.step for o in several)
        if extent != d.extent and not (outermost and (d.extent > 1 or len(several) == 1)):
            return None
        dims.append(StoredDim(d.axis, d.step, extent))
    return Form(shape, tuple(dims), form.before)


def _shape(op: Op, operand: int | None) -> tuple[int, ...]:
    return op.out_shape if operand is None else op.input_shapes[operand]


def _whole(share: Share, forms: Mapping[str, Form]) -> dict[str, Form]:
    """The forms of whole tensors, from those of a share's pieces, where there are any."""
    found = {name: share.whole_form(name, form) for name, form in forms.items()}
    return {name: form for name, form in found.items() if form is not None}


def _extents(candidate: Candidate, name: str, op: Op) -> dict[str, int]:
    """Extents of a tensor's dimensions as the seed declares them, for an operator; for a pooled
    result, the extents before pooling.
    """
    seed = candidate.seed
    dims = next(t.dims for t in seed.tensors if t.name == name)
    pooled = pooled_extents(seed) if name == seed.result else {}
    values = {**parameters(op), **candidate.blocks}
    return {d: int(evaluate(e, values)) * pooled.get(d, 1) for d, e in dims}


@cache
def _sent_through(op: Op, operand: int | None, extents: tuple[int, ...]) -> Form:
    """The form of operand `operand`, or of the result for None, in declared dimensions."""
    shape = _shape(op, operand)
    if operand is None:
        return form_of(shape, _result_numbers(op, extents))
    given: list[Indices] = [np.broadcast_to(np.int8(0), own) for own in op.input_shapes]
    given[operand] = _narrow_range(prod(shape), first=1).reshape(shape)
    arranged = interface(op.kind).arrange(op, tuple(given))[operand]
    return form_of(shape, arranged.reshape(extents))


def _result_numbers(op: Op, extents: tuple[int, ...]) -> Indices:
    """Row-major element number plus 1 at each place of the result in memory; 0 for none."""
    memory = _narrow_range(prod(extents)).reshape(extents)
    taken = interface(op.kind).restore(op, memory).reshape(-1)
    numbers = np.zeros(memory.size, memory.dtype)
    numbers[taken] = _narrow_range(taken.size, first=1)
    return numbers.reshape(extents)


def _narrow_range(count: int, first: int = 0) -> Indices:
    """`count` successive integers in the narrowest type: tensors may fill much of main memory."""
    last = first + count
    return np.arange(first, last, dtype=np.int32 if last < 2**31 else np.int64)
