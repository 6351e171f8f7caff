"""Checks of generated code: run it on the host and compare with the operator's reference.

In: a candidate with its program and its generated code. Out: "exact" if every element equals the
reference (in large products, if random sums of elements do); "within bound" if no element deviates
further than rounding allows; otherwise CheckFailed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import inf, prod
from typing import Literal

import numpy as np

from tilewright.codegen.artifact import RUNS, Array, Arrays, Artifact
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CheckFailed
from tilewright.common.expr import Expr, evaluate
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.network.results import distances, largest_difference
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.report.view import CheckResult
from tilewright.seeds.nest import TensorSpec
from tilewright.seeds.space import Seed, arranged, interface, parameters

Data = Literal["integers", "floats"]

_ROUNDINGS_PER_TERM = 8
"""A direct sum rounds each term once; Winograd's transforms multiply that."""
_ELEMENTS_AT_A_TIME = 1 << 20
_ELEMENTS_IN_CACHE = 1 << 16
_MOST_COMPARED = 1 << 28
"""Operations up to which results are compared elementwise; above, random sums are tried first."""
_EXACT = 1 << 53
"""Integers up to this, and their sums, are exact in double precision."""
_UNBOUNDED = np.errstate(over="ignore", invalid="ignore")
"""A user's operands may overflow, in the reference as in the code."""


def program_inputs(
    op: Op, seed: Seed, program: Program, operands: Sequence[Array]
) -> dict[str, Array]:
    """The operands as the program's input tensors, in its storage order.

    A seed's tensor may split a dimension of the operator's into several.
    """
    values, inputs = parameters(op), {}
    for name, array in zip(seed.operands, arranged(op, seed, tuple(operands)), strict=True):
        extents = {d: evaluate(e, values) for d, e in _dims(seed, name)}
        logical = array.reshape(tuple(extents.values()))
        axes = [list(extents).index(d) for d in program.tensor(name).dims]
        element = dtype(program.tensor(name).dtype).numpy
        inputs[name] = np.asarray(logical.transpose(axes), element)
    return inputs


def operator_result(op: Op, seed: Seed, program: Program, outputs: Arrays) -> Array:
    """The operator's result, restored from the program's output tensors."""
    stored = program.tensor(seed.result).dims
    axes = [stored.index(d) for d, _ in _dims(seed, seed.result)]
    result: Array = interface(op.kind).restore(op, outputs[seed.result].transpose(axes))
    return result


def _dims(seed: Seed, name: str) -> tuple[tuple[str, Expr], ...]:
    tensors: dict[str, TensorSpec] = {t.name: t for t in seed.tensors}
    return tensors[name].dims


def random_operands(op: Op, data: Data, seed: int) -> tuple[Array, ...]:
    """Operands of small integers, whose sums are exact, or of normally distributed floats.

    Integer types get arbitrary values of the type, since their sums are always exact.
    """
    generator = np.random.default_rng(seed)
    pairs = tuple(zip(op.input_shapes, op.numerics.operands, strict=True))
    if not op.numerics.is_float:
        return tuple(
            generator.integers(*kind.limits, shape, kind.numpy, endpoint=True)
            for shape, kind in pairs
        )
    if data == "integers":
        return tuple(generator.integers(-2, 3, s, np.int8).astype(kind.numpy) for s, kind in pairs)
    return tuple(generator.standard_normal(s).astype(kind.numpy) for s, kind in pairs)


def check_code(
    op: Op,
    seed: Seed,
    program: Program,
    artifact: Artifact,
    machine: Machine,
    operands: Sequence[Array],
) -> CheckResult:
    """Run `artifact` on `operands` and compare it with the reference of `op`.

    Raises CheckFailed with the worst element, SimulationError for an illegal operation of the code,
    ToolError where the target cannot run on the host.
    """
    runs = RUNS.required(machine)
    outputs = runs.run(artifact, machine, program_inputs(op, seed, program, operands))
    return judge(op, operands, operator_result(op, seed, program, outputs), seed.name)


@_UNBOUNDED
def judge(op: Op, operands: Sequence[Array], found: Array, algorithm: str) -> CheckResult:
    """Judge a result: exact, within rounding, or CheckFailed.

    The bound on an element is proportional to the terms of its sum, the unit round-off, and the sum
    of the terms' magnitudes (the reference on absolute values). Integers have no tolerance. Equal
    infinities do not differ, nor do two NaNs.
    """
    if _sums_agree(op, operands, found) or _is_exact(op, operands, found):
        return "exact"
    expected = op.reference(*operands)
    limit = np.nan_to_num(_limit(op, operands, expected), nan=0.0, posinf=np.inf)
    apart = distances(found, expected)
    excess = np.where(np.isinf(apart), np.inf, apart - limit)
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    if excess[worst] <= 0 and op.numerics.is_float:
        return "within bound"
    place = ", ".join(str(int(i)) for i in worst)
    raise CheckFailed(
        f"{algorithm} of {op.describe()}: element [{place}] is {found[worst]:.9g}, the reference "
        f"is {expected[worst]:.9g}, more than {limit[worst]:.3g} apart; "
        f"{int((excess > 0).sum())} of {expected.size} elements are wrong"
    )


def _is_exact(op: Op, operands: Sequence[Array], found: Array) -> bool:
    """True if every element equals the reference, which is computed portion by portion: portions
    that fit a cache take a third of the time of the whole.
    """
    axis, whole = _portioned(op, operands, found), Box.whole(op.out_shape)
    extent = op.out_shape[axis]
    step = max(1, _ELEMENTS_AT_A_TIME * extent // whole.size)
    for start in range(0, extent, step):
        region = op.computable(whole.along(axis, (start, min(extent, start + step))))
        needed = (x[box.slices] for x, box in zip(operands, op.needed(region), strict=True))
        expected = op.part(region).reference(*needed)
        if not _are_equal(found[region.slices], expected):
            return False
    return True


def _sums_agree(op: Op, operands: Sequence[Array], found: Array) -> bool:
    """True if a random combination of the result's slices along one axis equals the product with
    the same combination of one operand's slices: a product with a vector instead of a matrix
    (Freivalds, Probabilistic Machines Can Use Less Running Time, 1977).

    Only for large floating-point products of integer values, where all arithmetic is exact. A
    single wrong element along the axis is always found; several that happen to cancel are missed
    with a probability below 2^-16. False is inconclusive.
    """
    moved = _moving(op) if op.flops > _MOST_COMPARED and op.numerics.is_float else None
    if moved is None:
        return False
    axis, which, dimension = moved
    extent, terms = op.out_shape[axis], op.flops // (2 * found.size)
    most = max(1.0, terms * prod(max(_largest(x[p]) for p in _portions(x)) for x in operands))
    largest = int(_EXACT // (extent * most))
    if largest < 1 << 16 or most > 2 / np.finfo(op.numerics.sums.numpy).eps:
        return False
    multiples = np.random.default_rng(0).integers(1, largest, extent).astype(np.float64)
    whole = np.moveaxis(found, axis, 0)
    sums = np.empty(whole.shape[1:])
    for portion in _portions(whole, uncut=1):
        part = whole[portion]
        if not _largest(part) <= most:
            return False
        sums[portion[1:]] = np.tensordot(multiples, part, 1)
    given = [np.asarray(x, np.float64) for x in operands]
    along = np.tensordot(multiples, given[which], (0, dimension))
    given[which] = np.expand_dims(along, dimension)
    region = Box.whole(op.out_shape).along(axis, (0, 1))
    own = replace(op.part(region), dtype="f64")  # type: ignore[type-var]  # they are dataclasses
    needed = (x[box.slices] for x, box in zip(given, op.needed(region), strict=True))
    expected = own.reference(*needed)
    return np.array_equal(np.expand_dims(sums, axis), expected)


def _largest(x: Array) -> float:
    """The largest magnitude; infinite if some element is no integer."""
    return max(-float(x.min()), float(x.max())) if np.array_equal(x, np.rint(x)) else inf


def _portions(x: Array, *, uncut: int = 0) -> Iterator[tuple[slice, ...]]:
    """Portions of the array that fit a cache; the first `uncut` axes are whole in each."""
    steps, size = list(x.shape), x.size
    for axis in sorted(range(uncut, x.ndim), key=lambda axis: -abs(x.strides[axis])):
        row = size // steps[axis]
        steps[axis] = min(steps[axis], max(1, _ELEMENTS_IN_CACHE // row))
        size = row * steps[axis]
    for starts in product(*map(range, [0] * x.ndim, x.shape, steps)):
        yield tuple(slice(a, a + n) for a, n in zip(starts, steps, strict=True))


def _moving(op: Op) -> tuple[int, int, int] | None:
    """(axis of a product's result, operand number, operand dimension) of an axis that indexes one
    operand alone; None if there is none. Of several, the one that reduces the largest operand to a
    vector, since that takes longest to multiply.
    """
    if op.convolution is None and op.matrix_product is None:
        return None
    whole, found = Box.whole(op.out_shape), []
    for axis, extent in enumerate(op.out_shape):
        ends = [op.needed(whole.along(axis, side)) for side in ((0, 1), (extent - 1, extent))]
        moving = [
            (which, dimension, sides)
            for which, (first, last) in enumerate(zip(*ends, strict=True))
            for dimension, sides in enumerate(zip(first.sides, last.sides, strict=True))
            if sides[0] != sides[1]
        ]
        if len(moving) == 1 and moving[0][2] == ((0, 1), (extent - 1, extent)):
            which, dimension, _ = moving[0]
            found.append((prod(op.input_shapes[which]), extent, axis, which, dimension))
    return max(found)[2:] if found else None


def _are_equal(found: Array, expected: Array) -> bool:
    """True if all elements are equal, NaN to NaN. Plain comparison comes first: the search for NaN
    is slower and rarely needed.
    """
    return np.array_equal(found, expected) or (
        expected.dtype.kind == "f" and np.array_equal(found, expected, equal_nan=True)
    )


def _portioned(op: Op, operands: Sequence[Array], found: Array) -> int:
    """The axis with the largest memory stride of the result, among those whose portions need only
    portions of the largest operand; 0 if there is none.
    """
    whole = Box.whole(op.out_shape)
    largest = max(range(len(operands)), key=lambda i: operands[i].size)
    axes = [
        axis
        for axis, extent in enumerate(op.out_shape)
        if extent > 1
        and op.needed(op.computable(whole.along(axis, (0, extent // 2))))[largest].size
        < operands[largest].size
    ]
    return max(axes, key=lambda axis: abs(found.strides[axis]), default=0)


def _limit(op: Op, operands: Sequence[Array], expected: Array) -> Array:
    """Bound on the absolute error of each element."""
    if not op.numerics.is_float:
        return np.zeros(expected.shape)
    terms = max(1, op.flops // (2 * max(1, expected.size)))
    unit = np.finfo(op.numerics.sums.numpy).eps
    magnitude = op.with_magnitudes().reference(*(np.abs(x) for x in operands)).astype(np.float64)
    limit: Array = _ROUNDINGS_PER_TERM * terms * unit * magnitude
    return limit


@_UNBOUNDED
def relative_error(op: Op, operands: Sequence[Array], found: Array) -> float:
    """The largest deviation from the reference, relative to the largest finite result; 0 if all are
    0, infinite where non-finite elements differ.
    """
    return largest_difference({"": found}, {"": op.reference(*operands)})
