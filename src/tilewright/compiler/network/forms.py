"""In which form a candidate takes and gives each of its operator's tensors.

In: a candidate. Out: forms, found by sending the numbers of elements through the same functions
that bring an operator's operands into the storage order of a program: what any seed does with
layouts, blocks and borders is understood without a word from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.common.expr import evaluate
from tilewright.ops import Op
from tilewright.seeds.space import Seed, family, parameters
from tilewright.targets.host.network.form import Form, form_of
from tilewright.tune.search import Candidate


def candidate_forms(candidate: Candidate) -> dict[str, Form]:
    """The form of each operand and of the result, by the name of the seed's tensor."""
    layouts = candidate.joint_layouts()
    names = (*candidate.seed.operands, candidate.seed.result)
    orders = tuple((name, layouts.get(name, ())) for name in names)
    op, seed = candidate.op, candidate.seed
    return {
        name: _result_form(op, seed, dims) if name == seed.result else _form(op, seed, name, dims)
        for name, dims in orders
    }


def _extents(op: Op, seed: Seed, name: str) -> dict[str, int]:
    values = parameters(op)
    dims = next(t.dims for t in seed.tensors if t.name == name)
    return {d: int(evaluate(e, values)) for d, e in dims}


def _form(op: Op, seed: Seed, name: str, dims: tuple[str, ...]) -> Form:
    """The form of an operand."""
    given = tuple(
        np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64).reshape(shape)
        for shape in op.input_shapes
    )
    index = seed.operands.index(name)
    arranged = family(op.kind).arrange(op, given)[index]
    extents = _extents(op, seed, name)
    logical = arranged.reshape(tuple(extents.values()))
    order = [list(extents).index(d) for d in dims or extents]
    return form_of(op.input_shapes[index], np.ascontiguousarray(logical.transpose(order)))


def _result_form(op: Op, seed: Seed, dims: tuple[str, ...]) -> Form:
    """The form of the result: where in memory each element comes from, turned round."""
    extents = _extents(op, seed, seed.result)
    stored: Mapping[str, int] = {d: extents[d] for d in dims or extents}
    count = int(np.prod(tuple(stored.values())))
    memory = np.arange(count, dtype=np.int64).reshape(tuple(stored.values()))
    axes = [list(stored).index(d) for d in extents]
    taken = family(op.kind).restore(op, memory.transpose(axes)).reshape(-1)
    numbers = np.zeros(count, np.int64)
    numbers[taken] = np.arange(1, taken.size + 1)
    return form_of(op.out_shape, numbers.reshape(tuple(stored.values())))
