"""In which form a candidate takes and gives each of its operator's tensors.

In: a candidate. Out: forms, found by sending the numbers of elements through the same functions
that bring an operator's operands into the storage order of a program: what any seed does with
layouts, blocks and borders is understood without a word from it.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.expr import evaluate
from tilewright.network.form import Form, canonical, form_of
from tilewright.ops import Op
from tilewright.seeds.space import Seed, interface
from tilewright.tune.candidate import Candidate


class Forms:
    """Looks up forms; a tensor of a seed is sent through once, whatever the order of its dims."""

    def __init__(self) -> None:
        self._plain: dict[tuple[Op, str, str, tuple[int, ...]], Form] = {}

    def of(self, candidate: Candidate, *, constants: bool = True) -> dict[str, Form]:
        """The form of each operand and of the result, by the name of the seed's tensor; those of
        `constants`, which may be large, only if asked for.
        """
        layouts = candidate.joint_layouts()
        kinds = {t.name: t.kind for t in candidate.seed.tensors}
        names = (*candidate.seed.operands, candidate.seed.result)
        return {
            name: self._form(candidate, name, layouts.get(name, ()))
            for name in names
            if constants or kinds[name] != "constant"
        }

    def _form(self, candidate: Candidate, name: str, order: tuple[str, ...]) -> Form:
        extents = _extents(candidate, name)
        key = (candidate.op, candidate.seed.name, name, tuple(extents.values()))
        if key not in self._plain:
            result = name == candidate.seed.result
            made = _result_form if result else _operand_form
            self._plain[key] = made(candidate.op, candidate.seed, name, tuple(extents.values()))
        plain, dims = self._plain[key], list(extents)
        ordered = [plain.dims[dims.index(d)] for d in order or dims]
        return canonical(plain.shape, ordered, plain.before)


def _extents(candidate: Candidate, name: str) -> dict[str, int]:
    """The extents of a tensor's dimensions as the seed declares them."""
    dims = next(t.dims for t in candidate.seed.tensors if t.name == name)
    return {d: int(evaluate(e, candidate.values)) for d, e in dims}


def _operand_form(op: Op, seed: Seed, name: str, extents: tuple[int, ...]) -> Form:
    """The form of an operand, its dimensions as declared."""
    given = tuple(
        np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64).reshape(shape)
        for shape in op.input_shapes
    )
    index = seed.operands.index(name)
    arranged = interface(op.kind).arrange(op, given)[index]
    return form_of(op.input_shapes[index], arranged.reshape(extents))


def _result_form(op: Op, seed: Seed, name: str, extents: tuple[int, ...]) -> Form:
    """The form of the result: where in memory each element comes from, turned round."""
    count = int(np.prod(extents))
    memory = np.arange(count, dtype=np.int64).reshape(extents)
    taken = interface(op.kind).restore(op, memory).reshape(-1)
    numbers = np.zeros(count, np.int64)
    numbers[taken] = np.arange(1, taken.size + 1)
    return form_of(op.out_shape, numbers.reshape(extents))
