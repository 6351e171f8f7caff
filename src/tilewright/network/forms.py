"""In which form a candidate takes and gives each of its operator's tensors.

In: a candidate. Out: forms, found by sending the numbers of elements through the same functions
that bring an operator's operands into the storage order of a program: what any seed does with
layouts, blocks and borders is understood without a word from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from tilewright.common.expr import evaluate
from tilewright.network.bordered import Bordered
from tilewright.network.form import Form, Indices, canonical, form_of, like
from tilewright.network.pieces import Share
from tilewright.ops import Op
from tilewright.seeds.pooling import result_shape
from tilewright.seeds.space import Seed, interface
from tilewright.tune.candidate import Candidate


class Forms:
    """Looks up forms; a tensor is sent through once for all seeds that declare equal extents."""

    def __init__(self) -> None:
        self._plain: dict[tuple[Op, int | None, tuple[int, ...]], Form] = {}

    def of(self, candidate: Candidate, *, constants: bool = True) -> dict[str, Form]:
        """The form of each operand and of the result, by the name of the seed's tensor; those of
        `constants`, which may be large, only if asked for.
        """
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
        seed = candidate.seed
        extents, pooled = _extents(candidate, name), _is_pooled(seed, name)
        operand = None if name == seed.result else seed.operands.index(name)
        key = (candidate.op, operand, tuple(extents.values()))
        if key not in self._plain:
            self._plain[key] = _plain_form(*key)
        plain, dims = self._plain[key], list(extents)
        ordered = [plain.dims[dims.index(d)] for d in order or dims]
        found = canonical(plain.shape, ordered, plain.before)
        return like(found, result_shape(seed, candidate.op)) if pooled else found


def _is_pooled(seed: Seed, name: str) -> bool:
    """Whether the tensor holds windows of what the operator gives."""
    return name == seed.result and seed.spaces[-1].nest.pooling is not None


def _whole(share: Share, forms: Mapping[str, Form]) -> dict[str, Form]:
    """The forms of whole tensors, from those of the pieces of a share that has them."""
    found = {name: share.whole_form(name, form) for name, form in forms.items()}
    return {name: form for name, form in found.items() if form is not None}


def _extents(candidate: Candidate, name: str) -> dict[str, int]:
    """The extents of a tensor's dimensions as the seed declares them; of a pooled result those of
    what is pooled.
    """
    seed = candidate.seed
    dims = next(t.dims for t in seed.tensors if t.name == name)
    if _is_pooled(seed, name):
        dims = seed.spaces[-1].nest.finished.tensor.dims
    return {d: int(evaluate(e, candidate.values)) for d, e in dims}


def _plain_form(op: Op, operand: int | None, extents: tuple[int, ...]) -> Form:
    """The form of an operand, by its index, or of the result, its dimensions as declared."""
    if operand is None:
        return form_of(op.out_shape, _result_numbers(op, extents))
    given: list[Indices] = [np.broadcast_to(np.int8(0), shape) for shape in op.input_shapes]
    shape = op.input_shapes[operand]
    given[operand] = _counted(prod(shape), first=1).reshape(shape)
    arranged = interface(op.kind).arrange(op, tuple(given))[operand]
    return form_of(shape, arranged.reshape(extents))


def _result_numbers(op: Op, extents: tuple[int, ...]) -> Indices:
    """For each place of the result its element: where each comes from in memory, turned round."""
    memory = _counted(prod(extents)).reshape(extents)
    taken = interface(op.kind).restore(op, memory).reshape(-1)
    numbers = np.zeros(memory.size, memory.dtype)
    numbers[taken] = _counted(taken.size, first=1)
    return numbers.reshape(extents)


def _counted(count: int, first: int = 0) -> Indices:
    """So many successive numbers, as narrow as they fit: tensors may fill much of main memory."""
    last = first + count
    return np.arange(first, last, dtype=np.int32 if last < 2**31 else np.int64)
