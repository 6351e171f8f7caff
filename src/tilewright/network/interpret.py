"""Reference execution of a plan: stages run in order by the semantics of their programs.

In: a plan, the inputs of one group and the weights. Out: the outputs. A stage sees only the values
that its arguments name; reading an element that no stage has written is an error rather than a
wrong number. A stage without a program is interpreted by its operator, and code that a kernel runs
after its program by its expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.dtypes import converted, dtype
from tilewright.common.errors import GraphError, ShapeError, SimulationError
from tilewright.common.expr import evaluate
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.constants import WithAhead
from tilewright.graph.weights import in_parts
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.ir.scalar import parse_scalar
from tilewright.network.plan import Plan, Stage, Value
from tilewright.network.planning.epilogues import Finished
from tilewright.network.planning.form import row_major
from tilewright.network.planning.forms import Forms
from tilewright.ops.mapping import InMemory


def interpret_plan(
    plan: Plan,
    inputs: Arrays,
    weights: Arrays,
    by_operator: Callable[[Stage], bool] = lambda _: False,
) -> dict[str, Array]:
    """The outputs of one group, by name.

    A stage for which `by_operator` is true is computed by its operator in one step: for products
    whose programs have the operator's bits. Raises GraphError for a missing tensor, SimulationError
    for a read of an unwritten element.
    """
    return interpret_groups(plan, [inputs], weights, by_operator)[0]


def interpret_groups(
    plan: Plan,
    inputs: Sequence[Arrays],
    weights: Arrays,
    by_operator: Callable[[Stage], bool] = lambda _: False,
) -> list[dict[str, Array]]:
    """The outputs of groups with `inputs` of their own, all of which run a stage before any runs
    the next. Raises as `interpret_plan` does.
    """
    known = {n: np.concatenate([*parts]) for n, parts in constants(plan, weights)}
    known |= dict(_filled(plan))
    memories = [{**known, **_stored_inputs(plan, own)} for own in inputs]
    seen = [(n, v.origin) for n, v in enumerate(plan.values) if v.origin is not None]
    last = {
        v: number
        for number, (stage, use) in enumerate(zip(plan.stages, plan.uses, strict=True))
        for v in (*stage.reads, *use.reads, stage.writes)
    }
    kept = {value for _, value, _ in plan.outputs}
    for number, stage in enumerate(plan.stages):
        for memory in memories:
            found = ((n, memories[group].get(v)) for n, (v, group) in seen if n in stage.reads)
            memory |= {n: array for n, array in found if array is not None}
        together = len(memories) > 1 and stage.division is not None
        for runs in [memories] if together else [[memory] for memory in memories]:
            _run_stage(plan, stage, runs, as_operator=by_operator(stage))
        for memory in memories:
            for value in {*memory} - kept:
                if last.get(value, -1) == number:
                    del memory[value]
    return [
        {
            name: form.read(_require_written(plan, value, memory[value], "the outputs"))
            for name, value, form in plan.outputs
        }
        for memory in memories
    ]


def _filled(plan: Plan) -> Iterator[tuple[int, Array]]:
    """(number, elements) of each value that is filled ahead of the first stage."""
    for number, value in enumerate(plan.values):
        if value.ahead:
            array = _unwritten(value.form.elements, value.dtype)
            around = value.form.places().reshape(-1) < 0
            array[around] = converted(np.full(1, value.filled), dtype(value.dtype))
            yield number, array


def _stored_inputs(plan: Plan, inputs: Arrays) -> dict[int, Array]:
    """The inputs in memory order, by value number."""
    for name, _ in plan.inputs:
        if name not in inputs:
            raise GraphError(f"no numbers are given for {quoted(name)}")
    return {value: plan.values[value].form.stored(inputs[name]) for name, value in plan.inputs}


def constants(plan: Plan, weights: Arrays) -> Iterator[tuple[int, Iterator[Array]]]:
    """(number, elements in memory order, part by part) of each constant, computed from the
    weights.
    """
    known = WithAhead(weights, plan.ahead)
    return (
        (number, _constant_parts(value, known))
        for number, value in enumerate(plan.values)
        if value.role == "constant"
    )


def _constant_parts(value: Value, weights: Arrays) -> Iterator[Array]:
    kind = dtype(value.dtype)
    for stored in _stored_parts(value, weights):
        yield np.asarray(converted(stored, kind) if kind.kind == "fixed" else stored, kind.numpy)


def _stored_parts(value: Value, weights: Arrays) -> Iterator[Array]:
    """The elements of a constant in memory order, in double precision if made of weights. Raises
    ShapeError where they are too few or too many.
    """
    form = value.form
    if value.numbers is not None:
        yield from form.stored_parts(value.numbers)
        return
    assert value.made is not None
    expression, names = value.made
    if len(names) == 1 and form == row_major(form.shape):
        given = 0
        for part in in_parts(weights, names[0]):
            given += part.size
            yield _evaluated(expression, [part], value.dtype)
        _require_numbers(value, given)
        return
    found = _evaluated(expression, [weights[name] for name in names], value.dtype)
    _require_numbers(value, found.size)
    yield from form.stored_parts(found.reshape(form.shape))


def _require_numbers(value: Value, given: int) -> None:
    """Raise ShapeError unless so many numbers are those of a constant."""
    wanted = prod(value.form.shape)
    if given != wanted:
        raise ShapeError(f"{quoted(value.name)} takes {wanted} numbers, found {given}")


def _evaluated(expression: str, operands: Sequence[Array], kind: str) -> Array:
    bits = dtype(kind).fraction_bits
    reals = [np.asarray(operand, np.float64) for operand in operands]
    if bits:  # elsewhere a copy, of up to most of a gigabyte
        reals = [real / 2.0**bits for real in reals]
    with np.errstate(all="ignore"):  # constants may be infinite or NaN
        return np.asarray(parse_scalar(expression).value(reals))


def _run_stage(
    plan: Plan, stage: Stage, memories: Sequence[dict[int, Array]], *, as_operator: bool
) -> None:
    """Run one stage; elements of its result that it does not write keep their values. The result is
    stored in every group's memory.
    """
    own, before = plan.values[stage.writes], memories[0].get(stage.writes)
    whole = _unwritten(own.form.elements, own.dtype) if before is None else before.copy()
    results = _whole(plan, stage, memories[0]) if as_operator else _results(plan, stage, memories)
    for start, result in results:
        part = whole[start : start + result.size]
        written = ~_missing(result[: part.size])
        part[written] = result[: part.size][written]
    for memory in memories:
        memory[stage.writes] = whole


def _unwritten(size: int, kind: str) -> Array:
    """Elements in the unwritten state: NaN, or masked where the type has no NaN."""
    numpy = dtype(kind).numpy
    if dtype(kind).is_float:
        return np.full(size, np.nan, numpy)
    return np.ma.masked_array(np.zeros(size, numpy), np.ones(size, np.bool_))


def _missing(elements: Array) -> Array:
    """Mask of elements that are unwritten or NaN."""
    if isinstance(elements, np.ma.MaskedArray):
        return np.ma.getmaskarray(elements)
    return np.isnan(elements)


def _results(
    plan: Plan, stage: Stage, memories: Sequence[Mapping[int, Array]]
) -> Iterator[tuple[int, Array]]:
    """(offset of the first element, elements) that each group writes; others are missing."""
    memory = memories[0]
    if stage.scheduled.candidate is None:
        operands = [
            _require_written(plan, value, memory.get(value), stage.name) for value in stage.reads
        ]
        assert stage.op.in_memory is not None
        yield 0, _by_operator(stage.op.in_memory, operands)
    elif isinstance(stage.candidate, Finished):
        yield 0, _finished(plan, stage, stage.candidate, memory)
    else:
        program = plan.program(stage)
        for group in range(stage.groups):
            starts = stage.starts(group)
            tensors = _tensors(plan, stage, program, starts, memories[group % len(memories)])
            yield starts[-1], _interpreted(plan, program, tensors, stage.arguments[-1][0])


def _whole(plan: Plan, stage: Stage, memory: Mapping[int, Array]) -> Iterator[tuple[int, Array]]:
    """The result of a product, computed by its operator."""
    forms = Forms().of(stage.candidate)
    *given, (result, _) = stage.arguments
    operands = [
        forms[name].read(_require_written(plan, v, memory.get(v), stage.name)) for name, v in given
    ]
    yield 0, forms[result].stored(stage.op.reference(*operands))


def _by_operator(op: InMemory, operands: Sequence[Array]) -> Array:
    shaped = [x.reshape(shape) for x, shape in zip(operands, op.input_shapes, strict=True)]
    written = np.zeros(op.out_shape, np.bool_)
    extents = op.extents[: op.outer]
    op.result.write(written, extents, np.ones(extents, np.bool_))
    found = op.reference(*shaped)
    if dtype(op.out_dtype).is_float:
        return np.where(written, found, np.nan).reshape(-1)
    return np.ma.masked_array(found, ~written).reshape(-1)


def _tensors(
    plan: Plan, stage: Stage, program: Program, starts: Sequence[int], memory: Mapping[int, Array]
) -> dict[str, Array]:
    """The tensors that a stage's program reads, by name, each from its element in `starts` on."""
    found = {}
    for (name, value), start in zip(stage.arguments[:-1], starts, strict=False):
        if name in {tensor.name for tensor in program.tensors}:
            held = _require_written(plan, value, memory.get(value), stage.name)
            shape = tuple(int(evaluate(e, {})) for e in program.tensor(name).shape)
            found[name] = _share(held, start, prod(shape)).reshape(shape)
    return found


def _interpreted(plan: Plan, program: Program, tensors: Arrays, result: str) -> Array:
    mesh = (plan.machine.mesh.rows, plan.machine.mesh.columns)
    return interpret(program, tensors, mesh, masked=True)[result].reshape(-1)


def _finished(plan: Plan, stage: Stage, candidate: Finished, memory: Mapping[int, Array]) -> Array:
    """The product's result after the epilogue, stored inside its border."""
    program, starts = candidate.program(plan.machine), (0,) * len(stage.arguments)
    tensors = _tensors(plan, stage, program, starts, memory)
    result = _interpreted(plan, program, tensors, stage.arguments[-1][0])
    found = candidate.own.read(result)
    if candidate.epilogue is not None:
        elements, beside = [found], stage.reads[len(candidate.seed.operands) :]
        for value, (axes, _) in zip(beside, candidate.epilogue.beside, strict=True):
            operand = _require_written(plan, value, memory.get(value), stage.name)
            along = [n if axis in axes else 1 for axis, n in enumerate(found.shape)]
            elements.append(plan.values[value].form.read(operand).reshape(along))
        found = np.asarray(parse_scalar(candidate.epilogue.expression).value(elements))
    places = candidate.form.places().reshape(-1)
    return np.where(places < 0, np.nan, found.reshape(-1)[np.maximum(places, 0)])


def _share(held: Array, start: int, size: int) -> Array:
    """`size` elements from `start` on, padded with NaN (0 for integers) past the end."""
    part = held[start : start + size]
    beyond = size - part.size
    unknown = np.nan if held.dtype.kind == "f" else 0
    return np.pad(part, (0, beyond), constant_values=unknown) if beyond else part


def _require_written(plan: Plan, value: int, held: Array | None, who: str) -> Array:
    """The array held for `value`. Raises SimulationError if an element is unwritten or NaN."""
    own = plan.values[value]
    if held is None:
        raise SimulationError(f"{who}: nothing has written {quoted(own.name)}")
    missing = int(_missing(held).sum())
    if missing:
        raise SimulationError(
            f"{who}: {missing} of {held.size} elements of {quoted(own.name)} are no numbers: "
            "nothing has written them, or they came out so",
            fix="give numbers whose results are finite, to tell which",
        )
    return np.asarray(held)
