"""What a plan means: its stages run one after the other by the meaning of their programs.

In: a plan, the inputs of one group and the weights. Out: the outputs. Each stage sees the values
that its arguments name and no others; an element that no stage has written and one reads is an
error and not a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

import numpy as np

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError, SimulationError
from tilewright.common.expr import evaluate
from tilewright.graph.names import quoted
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.ir.scalar import parse_scalar
from tilewright.network.ahead import WithAhead
from tilewright.network.plan import Plan, Stage, Value

Run = Callable[[Stage, Program, Mapping[str, Array]], Array]
"""The result of a stage's program, from its tensors by name; what it leaves unwritten is NaN."""


def interpret_plan(
    plan: Plan,
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array],
    run: Run | None = None,
) -> dict[str, Array]:
    """The outputs of one group by name, each stage run by `run`, or by the interpreter.

    Raises GraphError for a missing tensor, SimulationError for an element that is read and that
    nothing has written.
    """
    memory = dict(constants(plan, weights))
    for name, value in plan.inputs:
        if name not in inputs:
            raise GraphError(f"no numbers are given for {quoted(name)}")
        memory[value] = plan.values[value].form.stored(inputs[name])
    last = {v: n for n, stage in enumerate(plan.stages) for v in (*stage.reads, stage.writes)}
    kept = {value for _, value, _ in plan.outputs}
    for number, stage in enumerate(plan.stages):
        _run_stage(plan, stage, memory, run or _interpreted(plan))
        for value in {*stage.reads, stage.writes} - kept:
            if last[value] == number:
                memory.pop(value, None)
    return {
        name: form.read(_written(plan, value, memory[value], "the outputs"))
        for name, value, form in plan.outputs
    }


def constants(plan: Plan, weights: Mapping[str, Array]) -> Iterator[tuple[int, Array]]:
    """(its number, its elements in memory order) of each constant, made of the weights."""
    weights = WithAhead(weights, plan.ahead)
    for number, value in enumerate(plan.values):
        if value.role == "constant":
            stored = value.form.stored(_made(value, weights))
            yield number, stored.astype(dtype(value.dtype).numpy, copy=False)


def _made(value: Value, weights: Mapping[str, Array]) -> Array:
    if value.numbers is not None:
        return value.numbers
    assert value.made is not None
    expression, names = value.made
    operands = [np.asarray(weights[name], np.float64) for name in names]
    with np.errstate(all="ignore"):  # infinities and what is no number are constants, too
        found: Array = np.asarray(parse_scalar(expression).value(operands))
    return found.reshape(value.form.shape)


def _interpreted(plan: Plan) -> Run:
    mesh = (plan.machine.mesh.rows, plan.machine.mesh.columns)

    def run(stage: Stage, program: Program, tensors: Mapping[str, Array]) -> Array:
        return interpret(program, tensors, mesh)[stage.arguments[-1][0]]

    return run


def _run_stage(plan: Plan, stage: Stage, memory: dict[int, Array], run: Run) -> None:
    """Run one stage; what it leaves unwritten of its result stays as it was."""
    program, target = stage.candidate.program(plan.machine), stage.writes
    size = prod(d.extent for d in plan.values[target].form.dims)
    before = memory.get(target)
    whole = np.full(size, np.nan) if before is None else before.copy()
    for group in range(stage.groups):
        starts = stage.starts(group)
        tensors = {}
        for (name, value), start in zip(stage.arguments[:-1], starts, strict=False):
            held = _written(plan, value, memory.get(value), stage.name)
            shape = tuple(int(evaluate(e, {})) for e in program.tensor(name).shape)
            tensors[name] = _share(held, start, prod(shape)).reshape(shape)
        result = run(stage, program, tensors).reshape(-1)
        if before is None and group == 0:
            whole = whole.astype(result.dtype)
        part = whole[starts[-1] : starts[-1] + result.size]
        result = result[: part.size]
        part[...] = np.where(np.isnan(result), part, result)
    memory[target] = whole


def _share(held: Array, start: int, size: int) -> Array:
    """The elements from a place on; what goes beyond the last one is not there to be read."""
    part = held[start : start + size]
    beyond = size - part.size
    return np.pad(part, (0, beyond), constant_values=np.nan) if beyond else part


def _written(plan: Plan, value: int, held: Array | None, who: str) -> Array:
    """What is held of a value; every element of it has to be written."""
    own = plan.values[value]
    if held is None:
        raise SimulationError(f"{who}: nothing has written {quoted(own.name)}")
    missing = int(np.isnan(held).sum())
    if missing:
        raise SimulationError(
            f"{who}: {missing} of {held.size} elements of {quoted(own.name)} are no numbers: "
            "nothing has written them, or they came out so",
            fix="give numbers whose results are finite, to tell which",
        )
    return held
