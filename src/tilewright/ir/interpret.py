"""The semantics of the IR: run a program on NumPy arrays, one mesh of cores in lockstep.

In: an instantiated program of any stage and its input tensors (in the program's storage order).
Out: its output tensors. A transfer takes effect at its wait, never earlier; until then the slot of
a fetch must not be accessed, and the slot of a store must not be written. Results that depend on an
element that nothing has written are tracked and reported. Generated code and both simulators are
judged against this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias, TypeVar, assert_never, cast

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate
from tilewright.ir import nodes as ir
from tilewright.ir.primitives import Repack

Written = npt.NDArray[np.bool_]
Index = Any


@dataclass(frozen=True)
class _Elements:
    """Elements that were read, and a mask of the written ones; None for all."""

    values: Array
    written: Written | None = None

    def changed(self, change: Callable[[Array], Array]) -> _Elements:
        """These elements after a change of order or shape, with their mask changed alike."""
        written = None if self.written is None else change(self.written)
        return _Elements(change(self.values), written)


@dataclass(frozen=True)
class _Memory:
    """The elements of a tensor, or of a buffer in every core; `written` is None if all are.

    An unwritten element may be moved and computed with; everything that depends on it is unwritten,
    too. So reads of uninitialised memory show in results of any element type: unwritten floats
    become NaN; for integers, which have no NaN, the program is refused.
    """

    values: Array
    written: Written | None

    @classmethod
    def given(cls, values: Array) -> _Memory:
        """Memory of given values, which is only read."""
        return cls(values, None)

    @classmethod
    def fresh(cls, shape: int | tuple[int, ...], kind: str) -> _Memory:
        """Unwritten elements of the type called `kind`."""
        return cls(np.zeros(shape, dtype(kind).numpy), np.zeros(shape, bool))

    def view(self, change: Callable[[Array], Array]) -> _Memory:
        """A view of the elements through `change`, which must not copy."""
        return _Memory(change(self.values), None if self.written is None else change(self.written))

    def read(self, index: Index) -> _Elements:
        """The elements at `index`, any NumPy index; `...` for all."""
        if self.written is None:
            return _Elements(self.values[index])
        return _part(self.values[index], self.written[index])

    def write(self, index: Index, part: _Elements) -> None:
        """Write `part`, of the index's shape, at `index`."""
        self.values[index] = part.values
        if self.written is not None:
            self.written[index] = True if part.written is None else part.written

    def result(self, name: str, shape: tuple[int, ...], *, masked: bool = False) -> Array:
        """The whole tensor. Raises ProgramError for unwritten integers, unless `masked`."""
        values = self.values.reshape(shape)
        if self.written is None or self.written.all():
            return values
        missing = ~self.written.reshape(shape)
        if values.dtype.kind != "f" and masked:
            return np.ma.masked_array(values, missing)
        if values.dtype.kind != "f":
            place = ", ".join(str(int(i)) for i in np.argwhere(missing)[0])
            raise ProgramError(
                f"{name}[{place}] depends on an element that nothing has written; "
                f"{int(missing.sum())} of {missing.size} elements do",
                fix="fill or fetch what is read first",
            )
        values[missing] = np.nan
        return values


def _part(values: Array, written: Written) -> _Elements:
    return _Elements(values, None if written.all() else written)


Array = npt.NDArray[Any]
Meaning = Callable[[tuple[Array, ...]], Array]


def _computed(
    meaning: Meaning, operands: tuple[_Elements, ...], dependence: Meaning | None = None
) -> _Elements:
    """Apply `meaning` to the operands; results that depend on unwritten elements are unwritten.

    To find these, `dependence` (by default `meaning`) is applied to NaN in place of the unwritten
    elements and 0 elsewhere: NaN results are unwritten.
    """
    result = meaning(tuple(part.values for part in operands))
    if all(part.written is None for part in operands):
        return _Elements(result)
    marks = (np.zeros(part.values.shape) for part in operands)
    marked = tuple(
        mark if part.written is None else np.where(part.written, mark, np.nan)
        for mark, part in zip(marks, operands, strict=True)
    )
    return _part(result, ~np.isnan((dependence or meaning)(marked)))


Env = dict[str, Any]
Cores = slice | npt.NDArray[np.bool_]
"""An index of cores of the mesh, in row-major order."""
EVERY_CORE = slice(None)
T = TypeVar("T")
Find: TypeAlias = Callable[[], T]
_OF_THE_MESH = frozenset(("rid", "cid", "mesh_rows", "mesh_columns"))
"""Symbols whose values are fixed for a whole run."""
_MOST_KNOWN = 1 << 16
"""Most cached values at a time, since those of inner loops would exhaust memory."""


@dataclass(frozen=True)
class _Pending:
    """An outstanding transfer, before its wait."""

    direction: ir.Direction
    deliver: Callable[[], None]


@dataclass
class _State:
    mesh: tuple[int, int]
    tensors: dict[str, _Memory]
    shapes: dict[str, tuple[int, ...]]
    owners: dict[str, str]
    scratchpads: dict[str, _Memory]
    slots: dict[str, tuple[int, int]]
    pending: dict[tuple[str, int], list[_Pending]] = field(default_factory=dict)
    loops: dict[int, tuple[str, ...]] = field(default_factory=dict)
    known: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def once(self, owner: ir.Stmt | ir.View, numbers: Iterable[Expr], env: Env, find: Find[T]) -> T:
        """Result of `find` for `numbers` of `owner`, cached by the loop variables in these."""
        loops = self.loops.get(id(owner))
        if loops is None:
            used = frozenset[str]().union(*(e.symbols for e in numbers))
            loops = self.loops[id(owner)] = tuple(sorted(used - _OF_THE_MESH))
        key = (id(owner), *map(env.get, loops))
        if key not in self.known:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[key] = find()
        return cast(T, self.known[key])


def interpret(
    program: ir.Program,
    inputs: Mapping[str, Array],
    mesh: tuple[int, int] = (8, 8),
    *,
    masked: bool = False,
) -> dict[str, Array]:
    """Run `program` and return its output tensors, shaped as declared. With `masked`, integers that
    nothing has written are masked.

    Raises ProgramError for a missing input, a slot accessed while a transfer on it is outstanding,
    a tile larger than its slot, or, without `masked`, an unwritten integer in a result.
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
    outputs = (t.name for t in program.tensors if t.is_result and not t.storage)
    return {
        name: state.tensors[name].result(name, state.shapes[name], masked=masked)
        for name in outputs
    }


def _initial_state(
    program: ir.Program, inputs: Mapping[str, Array], mesh: tuple[int, int]
) -> _State:
    known = {"mesh_rows": mesh[0], "mesh_columns": mesh[1]}
    shapes = {t.name: tuple(int(evaluate(e, known)) for e in t.shape) for t in program.tensors}
    tensors = {t.name: _memory(t, shapes[t.name], inputs) for t in program.tensors if not t.storage}
    owners = {t.name: t.memory for t in program.tensors}
    slots = {
        b.name: (int(evaluate(b.elements, known)), int(evaluate(b.copies, known)))
        for b in program.buffers
    }
    scratchpads = {
        b.name: _Memory.fresh((prod(mesh), prod(slots[b.name])), b.dtype) for b in program.buffers
    }
    return _State(mesh, tensors, shapes, owners, scratchpads, slots)


def _memory(tensor: ir.Tensor, shape: tuple[int, ...], inputs: Mapping[str, Array]) -> _Memory:
    if not tensor.is_given and tensor.kind != "updated":
        return _Memory.fresh(prod(shape), tensor.dtype)
    if tensor.name not in inputs:
        raise ProgramError(f"input tensor {tensor.name!r} is missing")
    given = inputs[tensor.name]
    if given.shape != shape:
        raise ProgramError(
            f"input tensor {tensor.name!r} has shape {given.shape}, expected {shape}"
        )
    values = np.ascontiguousarray(given, dtype(tensor.dtype).numpy).reshape(-1)
    return _Memory.given(values.copy() if tensor.is_result else values)


def _run(body: tuple[ir.Stmt, ...], env: Env, state: _State) -> None:
    for stmt in body:
        match stmt:
            case ir.For(var, extent, inner):
                for i in range(int(evaluate(extent, env))):
                    _run(inner, {**env, var: i}, state)
            case ir.If(condition, then, orelse):
                _run(then if evaluate(condition, env) else orelse, env, state)
            case ir.Transfer():
                _start(stmt, env, state)
            case ir.Wait(buffer, slot):
                for transfer in state.pending.pop((buffer, int(evaluate(slot, env))), []):
                    transfer.deliver()
            case ir.Call():
                _call(stmt, env, state)
            case ir.Barrier():
                pass
            case _:
                assert_never(stmt)


def _start(stmt: ir.Transfer, env: Env, state: _State) -> None:
    slot = int(evaluate(stmt.slot, env))
    writes = stmt.direction == "get"
    _check_free(state, (stmt.buffer, slot), f"a {stmt.direction}", writes=writes)
    pending = state.pending.setdefault((stmt.buffer, slot), [])
    pending.append(_Pending(stmt.direction, lambda: _deliver(stmt, slot, env, state)))


def _check_free(state: _State, slot: tuple[str, int], who: str, *, writes: bool) -> None:
    """Raise where an outstanding transfer forbids the access; several may read one slot."""
    for other in state.pending.get(slot, ()):
        if writes or other.direction == "get":
            verb = "writes" if writes else "reads"
            raise ProgramError(
                f"{who} {verb} {slot[0]}[{slot[1]}] while a {other.direction} on it is outstanding",
                fix=f"wait for {slot[0]}[{slot[1]}] first",
            )


def _deliver(stmt: ir.Transfer, slot: int, env: Env, state: _State) -> None:
    rank = len(stmt.ranges)
    numbers = (*(r.extent for r in stmt.ranges), *(r.step for r in stmt.ranges))
    for values, cores in _alike(stmt, numbers, env, state):
        _move(stmt, slot, (values[:rank], values[rank:]), env, state, cores)


def _alike(
    owner: ir.Call | ir.Transfer, numbers: tuple[Expr, ...], env: Env, state: _State
) -> list[tuple[tuple[int, ...], Cores]]:
    """The distinct values of `numbers` of `owner`, each with the cores that share them."""

    def found() -> list[tuple[tuple[int, ...], Cores]]:
        if not numbers:  # a tensor without dimensions
            return [((), EVERY_CORE)]
        values = [np.broadcast_to(evaluate(e, env), state.mesh).reshape(-1) for e in numbers]
        table = np.stack(values, axis=-1)
        rows = sorted(set(map(tuple, table.tolist())))
        if len(rows) == 1:
            return [(rows[0], EVERY_CORE)]
        return [(row, (table == row).all(axis=-1)) for row in rows]

    return state.once(owner, numbers, env, found)


def _scalar(value: Any) -> int:
    return int(value.flat[0]) if isinstance(value, np.ndarray) else int(value)


def _move(
    stmt: ir.Transfer, slot: int, numbers: _Numbers, env: Env, state: _State, cores: Cores
) -> None:
    elements, _ = state.slots[stmt.buffer]
    first = int(evaluate(stmt.first, env))
    count = prod(numbers[0])
    if not 0 <= first <= elements - count:
        where = f", from {first} on" if first else ""
        raise ProgramError(
            f"a tile of {count} elements does not fit {stmt.buffer} of {elements}{where}"
        )
    shape = state.shapes[stmt.tensor]
    index, inside = _region(shape, stmt.ranges, numbers, env, state.mesh, cores)
    place = slice(slot * elements + first, slot * elements + first + count)
    memory, pads = state.tensors[state.owners[stmt.tensor]], state.scratchpads[stmt.buffer]
    if stmt.direction == "get":
        pads.write((cores, place), _gathered(memory, index, inside))
    else:
        _scattered(memory, index, inside, pads.read((cores, place)))


def _gathered(memory: _Memory, index: Array, inside: Array | None) -> _Elements:
    """The elements at `index`; zeros for indices outside the tensor."""
    if inside is None:
        return memory.read(index)
    part = memory.read(np.where(inside, index, 0))
    written = None if part.written is None else part.written | ~inside
    return _Elements(np.where(inside, part.values, memory.values.dtype.type(0)), written)


def _scattered(memory: _Memory, index: Array, inside: Array | None, part: _Elements) -> None:
    """Write a part of a tensor; elements outside it are dropped."""
    if inside is None:
        memory.write(index, part)
    else:
        memory.write(index[inside], part.changed(lambda values: values[inside]))


_Numbers = tuple[tuple[int, ...], tuple[int, ...]]
"""The extents and the steps of ranges."""


def _region(
    shape: tuple[int, ...],
    ranges: tuple[ir.Range, ...],
    numbers: _Numbers,
    env: Env,
    mesh: tuple[int, int],
    cores: Cores = EVERY_CORE,
) -> tuple[Array, Array | None]:
    """Flat tensor indices (cores, elements), and a mask of those inside it; None for all."""
    rank, count = len(shape), prod(mesh) if isinstance(cores, slice) else int(cores.sum())
    base: Any = 0
    inside: Any = None
    for d, (r, extent, step) in enumerate(zip(ranges, *numbers, strict=True)):
        start = _on_cores(evaluate(r.start, env), mesh, cores)
        base = base * shape[d] + start
        stop = shape[d] if r.stop is None else _scalar(evaluate(r.stop, env))
        last = start + (extent - 1) * step
        if _least(start, last) < 0 or _least(-start, -last) <= -stop:
            places = np.reshape(start, (-1, 1)) + step * np.arange(extent)
            within = (places >= 0) & (places < stop)
            within = within.reshape(len(places), *(extent if a == d else 1 for a in range(rank)))
            inside = within if inside is None else inside & within
    index = np.reshape(base, (-1, 1)) + _offsets(shape, *numbers)
    if inside is not None:
        inside = np.broadcast_to(inside, (count, *numbers[0])).reshape(count, -1)
    return np.broadcast_to(index, (count, index.shape[1])), inside


@lru_cache(maxsize=64)
def _offsets(shape: tuple[int, ...], extents: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Flat indices of the elements of a region, relative to its first one."""
    offsets = np.zeros(1, np.int64)
    for size, extent, step in zip(shape, extents, steps, strict=True):
        offsets = (offsets[:, None] * size + step * np.arange(extent)).reshape(-1)
    return offsets


def _on_cores(start: Any, mesh: tuple[int, int], cores: Cores) -> Any:
    """Start of a range on each of `cores`, or one number if it is uniform."""
    if not isinstance(start, np.ndarray):
        return int(start)
    return np.broadcast_to(start, mesh).reshape(-1)[cores]


def _least(*numbers: Any) -> int:
    return min(int(n.min()) if isinstance(n, np.ndarray) else n for n in numbers)


def _call(call: ir.Call, env: Env, state: _State) -> None:
    for i, operand in enumerate(call.operands):
        if isinstance(operand, ir.View):
            slot = (operand.buffer, int(evaluate(operand.slot, env)))
            _check_free(state, slot, call.primitive.name, writes=i == 0)
    if isinstance(call.primitive, Repack):
        _repack(call, env, state)
        return
    letters = _axis_letters(call)
    operands = [_load(o, axes, env, state) for o, axes in zip(call.operands, letters, strict=True)]
    parts = [part for part, _ in operands]
    if not call.primitive.accumulates:
        parts[0] = _Elements(parts[0].values)
    primitive = call.primitive
    result = _computed(primitive.meaning, tuple(parts), primitive.dependence)
    _store(call.operands[0], result, operands[0][1], env, state)


def _axis_letters(call: ir.Call) -> list[str]:
    """Each operand's order of axes: the primitive's own first, then the others as in operand 0."""
    rest = call.other_axes
    return [call.primitive.axes_of(i, rest) for i in range(len(call.operands))]


Placement = tuple[tuple[int, ...], tuple[int, ...]]


def _load(
    operand: ir.Tile | ir.View, axes: str, env: Env, state: _State
) -> tuple[_Elements, Placement]:
    """The operand's values, one dimension per letter of `axes`, with the order and shape that undo
    the change.
    """
    part = (
        _tile_part(operand, env, state)
        if isinstance(operand, ir.Tile)
        else _view(operand, env, state).read(...)
    )
    extents = part.values.shape[2:]
    order = tuple(d for letter in axes for d, role in enumerate(operand.roles) if role == letter)
    order += tuple(d for d, role in enumerate(operand.roles) if role == ".")
    moved = part.changed(lambda local: local.transpose(0, 1, *(d + 2 for d in order)))
    sizes = dict.fromkeys(axes, 1)
    for d, role in enumerate(operand.roles):
        if role != ".":
            sizes[role] *= extents[d]
    shape = (*state.mesh, *(sizes[a] for a in axes))
    return moved.changed(lambda local: local.reshape(shape)), (order, moved.values.shape)


def _store(
    operand: ir.Tile | ir.View, part: _Elements, placement: Placement, env: Env, state: _State
) -> None:
    order, shape = placement
    back = (0, 1, *(int(d) + 2 for d in np.argsort(order)))
    local = part.changed(lambda values: values.reshape(shape).transpose(back))
    if isinstance(operand, ir.Tile):
        index, inside, _extents = _tile_region(operand, env, state)
        flat = local.changed(lambda values: values.reshape(index.shape))
        _scattered(state.tensors[state.owners[operand.tensor]], index, inside, flat)
    else:
        _view(operand, env, state).write(..., local)


def _tile_region(
    tile: ir.Tile, env: Env, state: _State
) -> tuple[Array, Array | None, tuple[int, ...]]:
    extents = _shape((r.extent for r in tile.ranges), env)
    steps = _shape((r.step for r in tile.ranges), env)
    shape = state.shapes[tile.tensor]
    index, inside = _region(shape, tile.ranges, (extents, steps), env, state.mesh)
    return index, inside, extents


def _tile_part(tile: ir.Tile, env: Env, state: _State) -> _Elements:
    index, inside, extents = _tile_region(tile, env, state)
    part = _gathered(state.tensors[state.owners[tile.tensor]], index, inside)
    return part.changed(lambda values: values.reshape(*state.mesh, *extents))


def _view(view: ir.View, env: Env, state: _State) -> _Memory:
    """A writable array of a view's elements: (mesh rows, mesh columns, extents)."""
    numbers = (*view.shape, *(e for r in view.ranges for e in (r.start, r.extent, r.step)))
    shape, box = state.once(view, numbers, env, lambda: _box(view, env))
    elements, _ = state.slots[view.buffer]
    slot, count = int(evaluate(view.slot, env)), prod(shape)
    if count > elements:
        raise ProgramError(f"a tile of {count} elements does not fit {view.buffer} of {elements}")
    place = slice(slot * elements, slot * elements + count)

    def of(pads: Array) -> Array:
        whole: Array = pads[:, place].reshape(*state.mesh, *shape)
        return whole[box]

    return state.scratchpads[view.buffer].view(of)


def _box(view: ir.View, env: Env) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    """The shape of the packed tile, and the view's part of it, equal in every core."""
    every = (slice(None), slice(None))
    return _shape(view.shape, env), (*every, *(_slice(r, env) for r in view.ranges))


def _shape(shape: Iterable[Expr], env: Env) -> tuple[int, ...]:
    return tuple(_integer(e, env) for e in shape)


def _integer(e: Expr, env: Env) -> int:
    """The value of an expression that is equal on all cores."""
    return e.value if isinstance(e, Const) else _scalar(evaluate(e, env))


def _slice(r: ir.Range, env: Env) -> slice:
    start, extent, step = (_integer(e, env) for e in (r.start, r.extent, r.step))
    return slice(start, start + (extent - 1) * step + 1 if extent else start, step)


def _repack(call: ir.Call, env: Env, state: _State) -> None:
    """Change the packed shape of the tile in a slot."""
    target, source = call.operands
    if not (isinstance(target, ir.View) and isinstance(source, ir.View)):
        raise ProgramError("repack works on views")
    elements, _ = state.slots[target.buffer]
    base = int(evaluate(target.slot, env)) * elements
    pads, rank = state.scratchpads[target.buffer], len(target.shape)
    for shapes, cores in _alike(call, (*target.shape, *source.shape), env, state):
        new, old = shapes[:rank], shapes[rank:]
        tile = pads.read((cores, slice(base, base + prod(old))))
        count = len(tile.values)
        ground = _Elements(np.empty((count, *new), tile.values.dtype))
        packed = _computed(call.primitive.meaning, (ground, _shaped(tile, (count, *old))))
        flat = _shaped(packed, (count, prod(new)))
        pads.write((cores, slice(base, base + prod(new))), flat)


def _shaped(part: _Elements, shape: tuple[int, ...]) -> _Elements:
    return part.changed(lambda values: values.reshape(shape))
