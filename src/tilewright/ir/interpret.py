"""The meaning of the IR: run a program on NumPy arrays, one mesh of cores in lockstep.

In: an instantiated program of any stage and its input tensors (in the program's storage order).
Out: its output tensors. A transfer takes effect at its wait, never earlier; until then a slot that
is fetched to must not be touched, and one that is stored from must not be written. Scratchpads and
results start as NaN, so an uninitialised read shows in the numbers. Generated code and both
simulators are judged against this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Expr, evaluate
from tilewright.ir.nodes import (
    Barrier,
    Buffer,
    Call,
    Direction,
    For,
    If,
    Program,
    Range,
    Stmt,
    Tensor,
    Tile,
    Transfer,
    View,
    Wait,
)
from tilewright.ir.primitives import PRIMITIVES

Array = npt.NDArray[Any]
Env = dict[str, Any]
DTYPES: dict[str, Any] = {"f64": np.float64, "f32": np.float32}


@dataclass(frozen=True)
class _Pending:
    """A transfer that is not waited for yet."""

    direction: Direction
    deliver: Callable[[], None]


@dataclass
class _State:
    mesh: tuple[int, int]
    tensors: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]
    owners: dict[str, str]
    scratchpads: dict[str, Array]
    slots: dict[str, tuple[int, int]]
    pending: dict[tuple[str, int], list[_Pending]] = field(default_factory=dict)


def interpret(
    program: Program, inputs: Mapping[str, Array], mesh: tuple[int, int] = (8, 8)
) -> dict[str, Array]:
    """Run `program` and return its output tensors, shaped as declared.

    Raises ProgramError for a missing input, a slot touched while a transfer on it is outstanding,
    or a tile larger
    than its slot.
    """
    state = _initial_state(program, inputs, mesh)
    rows, columns = mesh
    env: Env = {
        "rid": np.arange(rows)[:, None],
        "cid": np.arange(columns)[None, :],
        "mesh_rows": rows,
        "mesh_columns": columns,
    }
    _run(program.body, env, state)
    if state.pending:
        name, slot = next(iter(state.pending))
        raise ProgramError(f"a transfer on {name}[{slot}] is never waited for")
    outputs = (t.name for t in program.tensors if t.kind == "output" and not t.storage)
    return {name: state.tensors[name].reshape(state.shapes[name]) for name in outputs}


def _initial_state(program: Program, inputs: Mapping[str, Array], mesh: tuple[int, int]) -> _State:
    known = {"mesh_rows": mesh[0], "mesh_columns": mesh[1]}
    shapes = {t.name: tuple(int(evaluate(e, known)) for e in t.shape) for t in program.tensors}
    tensors = {
        t.name: _tensor_data(t, shapes[t.name], inputs) for t in program.tensors if not t.storage
    }
    owners = {t.name: t.memory for t in program.tensors}
    slots = {
        b.name: (int(evaluate(b.elements, known)), int(evaluate(b.copies, known)))
        for b in program.buffers
    }
    scratchpads = {b.name: _poisoned(b, mesh, slots[b.name]) for b in program.buffers}
    return _State(mesh, tensors, shapes, owners, scratchpads, slots)


def _poisoned(buffer: Buffer, mesh: tuple[int, int], slot: tuple[int, int]) -> Array:
    return np.full((*mesh, slot[0] * slot[1]), np.nan, DTYPES[buffer.dtype])


def _tensor_data(tensor: Tensor, shape: tuple[int, ...], inputs: Mapping[str, Array]) -> Array:
    if not tensor.is_given:
        return np.full(int(np.prod(shape)), np.nan, DTYPES[tensor.dtype])
    if tensor.name not in inputs:
        raise ProgramError(f"input tensor {tensor.name!r} is missing")
    given = inputs[tensor.name]
    if given.shape != shape:
        raise ProgramError(
            f"input tensor {tensor.name!r} has shape {given.shape}, expected {shape}"
        )
    return np.ascontiguousarray(given, DTYPES[tensor.dtype]).reshape(-1)


def _run(body: tuple[Stmt, ...], env: Env, state: _State) -> None:
    for stmt in body:
        match stmt:
            case For(var, extent, inner):
                for i in range(int(evaluate(extent, env))):
                    _run(inner, {**env, var: i}, state)
            case If(condition, then, orelse):
                _run(then if evaluate(condition, env) else orelse, env, state)
            case Transfer():
                _start(stmt, env, state)
            case Wait(buffer, slot):
                for transfer in state.pending.pop((buffer, int(evaluate(slot, env))), []):
                    transfer.deliver()
            case Call():
                _call(stmt, env, state)
            case Barrier():
                pass
            case _:
                assert_never(stmt)


def _start(stmt: Transfer, env: Env, state: _State) -> None:
    slot = int(evaluate(stmt.slot, env))
    writes = stmt.direction == "get"
    _check_free(state, (stmt.buffer, slot), f"a {stmt.direction}", writes=writes)
    frozen = dict(env)
    pending = state.pending.setdefault((stmt.buffer, slot), [])
    pending.append(_Pending(stmt.direction, lambda: _deliver(stmt, slot, frozen, state)))


def _check_free(state: _State, slot: tuple[str, int], who: str, *, writes: bool) -> None:
    """Raise where an outstanding transfer forbids the access; several may read one slot."""
    for other in state.pending.get(slot, ()):
        if writes or other.direction == "get":
            verb = "writes" if writes else "reads"
            raise ProgramError(
                f"{who} {verb} {slot[0]}[{slot[1]}] while a {other.direction} on it is outstanding",
                fix=f"wait for {slot[0]}[{slot[1]}] first",
            )


def _deliver(stmt: Transfer, slot: int, env: Env, state: _State) -> None:
    rank = len(stmt.ranges)
    numbers = [*(r.extent for r in stmt.ranges), *(r.step for r in stmt.ranges)]
    for values, cores in _alike(numbers, env, state.mesh):
        _move(stmt, slot, values[:rank], env, state, cores)


def _alike(
    numbers: Sequence[Expr], env: Env, mesh: tuple[int, int]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """The distinct values of `numbers`, each with a mask of the cores that have them."""
    values = [evaluate(e, env) for e in numbers]
    if not any(isinstance(v, np.ndarray) for v in values):
        yield tuple(int(v) for v in values), np.ones(mesh, bool)
        return
    table = np.stack([np.broadcast_to(v, mesh) for v in values], axis=-1)
    for row in sorted(set(map(tuple, table.reshape(-1, len(values)).tolist()))):
        yield row, (table == row).all(axis=-1)


def _scalar(value: Any) -> int:
    return int(value.flat[0]) if isinstance(value, np.ndarray) else int(value)


def _move(
    stmt: Transfer, slot: int, extents: tuple[int, ...], env: Env, state: _State, cores: Array
) -> None:
    elements, _ = state.slots[stmt.buffer]
    count = prod(extents)
    if count > elements:
        raise ProgramError(f"a tile of {count} elements does not fit {stmt.buffer} of {elements}")
    index, inside = _region(state.shapes[stmt.tensor], stmt.ranges, extents, env, cores)
    place = slice(slot * elements, slot * elements + count)
    memory = state.tensors[state.owners[stmt.tensor]]
    if stmt.direction == "get":
        values = np.where(inside, memory[np.where(inside, index, 0)], 0.0)
        state.scratchpads[stmt.buffer][cores, place] = values
    else:
        memory[index[inside]] = state.scratchpads[stmt.buffer][cores, place][inside]


def _region(
    shape: tuple[int, ...],
    ranges: tuple[Range, ...],
    extents: tuple[int, ...],
    env: Env,
    cores: Array,
) -> tuple[Array, Array]:
    """Flat tensor indices (cores, elements) and whether each lies inside the tensor."""
    rank, count = len(shape), int(cores.sum())
    index: Any = np.zeros((count, *([1] * rank)), np.int64)
    inside: Any = np.ones((count, *([1] * rank)), bool)
    for d, r in enumerate(ranges):
        start = np.broadcast_to(np.asarray(evaluate(r.start, env)), cores.shape)[cores]
        place = start[:, None] + _scalar(evaluate(r.step, env)) * np.arange(extents[d])
        place = place.reshape(count, *(extents[d] if i == d else 1 for i in range(rank)))
        index = index * shape[d] + place
        inside = inside & ((place >= 0) & (place < shape[d]))
    return index.reshape(count, -1), inside.reshape(count, -1)


def _call(call: Call, env: Env, state: _State) -> None:
    for i, operand in enumerate(call.operands):
        if isinstance(operand, View):
            slot = (operand.buffer, int(evaluate(operand.slot, env)))
            _check_free(state, slot, call.primitive, writes=i == 0)
    if call.primitive == "repack":
        _repack(call, env, state)
        return
    primitive = PRIMITIVES[call.primitive]
    letters = _axis_letters(call)
    operands = [_load(o, axes, env, state) for o, axes in zip(call.operands, letters, strict=True)]
    arrays = tuple(a for a, _ in operands)
    result = primitive.meaning(dict(call.attributes), arrays)
    _store(call.operands[0], result, operands[0][1], env, state)


def _axis_letters(call: Call) -> list[str]:
    """The order of axes each operand is handed in: the primitive's own first, then the rest as in
    operand 0.
    """
    own = PRIMITIVES[call.primitive].axes
    named = set("".join(own))
    rest = "".join(dict.fromkeys(c for c in call.operands[0].roles if c not in named and c != "."))
    return [own[min(i, len(own) - 1)] + rest for i in range(len(call.operands))]


Placement = tuple[tuple[int, ...], tuple[int, ...]]


def _load(operand: Tile | View, axes: str, env: Env, state: _State) -> tuple[Array, Placement]:
    """The operand's values with one dimension per letter of `axes`, and (order, shape) to undo the
    change.
    """
    local = (
        _tile_values(operand, env, state)
        if isinstance(operand, Tile)
        else _view(operand, env, state)
    )
    order = tuple(d for letter in axes for d, role in enumerate(operand.roles) if role == letter)
    order += tuple(d for d, role in enumerate(operand.roles) if role == ".")
    moved = local.transpose(0, 1, *(d + 2 for d in order))
    sizes = dict.fromkeys(axes, 1)
    for d, role in enumerate(operand.roles):
        if role != ".":
            sizes[role] *= local.shape[d + 2]
    return moved.reshape(*moved.shape[:2], *(sizes[a] for a in axes)), (order, moved.shape)


def _store(
    operand: Tile | View, values: Array, placement: Placement, env: Env, state: _State
) -> None:
    order, shape = placement
    back = np.argsort(order)
    local = values.reshape(shape).transpose(0, 1, *(d + 2 for d in back))
    if isinstance(operand, Tile):
        index, inside, _extents = _tile_region(operand, env, state)
        flat = local.reshape(index.shape)
        state.tensors[state.owners[operand.tensor]][index[inside]] = flat[inside]
    else:
        _view(operand, env, state)[...] = local


def _tile_region(tile: Tile, env: Env, state: _State) -> tuple[Array, Array, tuple[int, ...]]:
    extents = tuple(_scalar(evaluate(r.extent, env)) for r in tile.ranges)
    everyone = np.ones(state.mesh, bool)
    index, inside = _region(state.shapes[tile.tensor], tile.ranges, extents, env, everyone)
    return index, inside, extents


def _tile_values(tile: Tile, env: Env, state: _State) -> Array:
    index, inside, extents = _tile_region(tile, env, state)
    memory = state.tensors[state.owners[tile.tensor]]
    return np.where(inside, memory[np.where(inside, index, 0)], 0.0).reshape(*state.mesh, *extents)


def _view(view: View, env: Env, state: _State) -> Array:
    """The view's elements in the scratchpads, writable: (mesh rows, mesh columns, extents)."""
    elements, _ = state.slots[view.buffer]
    shape = _shape(view.shape, env)
    slot, count = int(evaluate(view.slot, env)), int(np.prod(shape))
    if count > elements:
        raise ProgramError(f"a tile of {count} elements does not fit {view.buffer} of {elements}")
    pads = state.scratchpads[view.buffer][:, :, slot * elements : slot * elements + count]
    box = tuple(_slice(r, env) for r in view.ranges)
    return pads.reshape(*pads.shape[:2], *shape)[(slice(None), slice(None), *box)]


def _shape(shape: tuple[Expr, ...], env: Env) -> tuple[int, ...]:
    return tuple(_scalar(evaluate(e, env)) for e in shape)


def _slice(r: Range, env: Env) -> slice:
    start, extent, step = (_scalar(evaluate(e, env)) for e in (r.start, r.extent, r.step))
    return slice(start, start + (extent - 1) * step + 1 if extent else start, step)


def _repack(call: Call, env: Env, state: _State) -> None:
    """Change the packed shape of the tile in a slot: zeros where it grows, cropped where it
    shrinks.
    """
    target, source = call.operands
    if not (isinstance(target, View) and isinstance(source, View)):
        raise ProgramError("repack works on views")
    elements, _ = state.slots[target.buffer]
    base = int(evaluate(target.slot, env)) * elements
    pads, rank = state.scratchpads[target.buffer], len(target.shape)
    for shapes, cores in _alike((*target.shape, *source.shape), env, state.mesh):
        new, old = shapes[:rank], shapes[rank:]
        count = int(cores.sum())
        kept = (slice(None), *(slice(0, min(a, b)) for a, b in zip(new, old, strict=True)))
        packed = np.zeros((count, *new), pads.dtype)
        packed[kept] = pads[cores, base : base + prod(old)].reshape(count, *old)[kept]
        pads[cores, base : base + prod(new)] = packed.reshape(count, -1)
