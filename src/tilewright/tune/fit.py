"""Check that an operator fits a machine, and find the least change that makes it fit.

In: an operator, an algorithm, a machine. Out: bytes of main memory for the operator's tensors, and
a `Shortage` where main memory or the memory of its smallest tiles is too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

import numpy as np

from tilewright.common.errors import CapacityError, ScheduleError, TilewrightError
from tilewright.common.expr import Value, evaluate
from tilewright.cost.buffers import buffer_bytes, bytes_by_space
from tilewright.cost.prices import Limited, prices_of
from tilewright.ir.nodes import SCRATCHPAD, Program, memory_words
from tilewright.ir.visit import moved_tensors
from tilewright.machine import Machine
from tilewright.machine.check import capacity_setting
from tilewright.ops import Op
from tilewright.schedule.factors import FactorGrid, blocks_of, factor_grid
from tilewright.schedule.structures import Structure
from tilewright.seeds.nest import TensorSpec
from tilewright.seeds.space import Seed, Space, bindings
from tilewright.seeds.steps import Layout
from tilewright.tune.prepared import ready_structures


@dataclass(frozen=True)
class Shortage:
    """Why an algorithm does not fit: `error` states the reason and a remedy.

    `factor` is how many times larger a memory would have to be; infinite if no size helps.
    """

    factor: float
    error: TilewrightError


@dataclass(frozen=True, order=True)
class _Need:
    """Aligned bytes of one nest's smallest tiles in the memory `space` that they fill most, and the
    largest tensor there. `lacking` is a limit of generated code that is exceeded by more. `share`
    is needed over available, infinite where the family's prices have no room.
    """

    share: float
    total_bytes: int
    nest: str
    tensor: str
    tensor_bytes: int
    space: str = SCRATCHPAD
    lacking: Limited | None = field(default=None, compare=False)


def main_memory_bytes(op: Op, seed: Seed) -> int:
    """Bytes of main memory for the operator's tensors and the seed's own."""
    values = bindings(op, seed)[0]
    return sum(_tensor_bytes(op, values, t) for t in seed.tensors if not t.storage)


def _tensor_bytes(op: Op, values: Mapping[str, int], tensor: TensorSpec) -> int:
    elements = prod(int(evaluate(extent, values)) for _, extent in tensor.dims)
    return elements * tensor.element_type(op.numerics).size_bytes


def mesh_values(machine: Machine) -> dict[str, int]:
    """Values of the mesh's symbols, at its first core."""
    mesh = machine.mesh
    return {"mesh_rows": mesh.rows, "mesh_columns": mesh.columns, "rid": 0, "cid": 0}


def require_fit(op: Op, seed: Seed, machine: Machine) -> None:
    """Raise CapacityError if no tile fits, ScheduleError if there is no tile or schedule at all."""
    found = shortage(op, seed, machine)
    if found is not None:
        raise found.error


def shortage(op: Op, seed: Seed, machine: Machine) -> Shortage | None:
    """The shortage of the operator under this algorithm; None if it fits."""
    needed, limit = main_memory_bytes(op, seed), machine.main.capacity_bytes
    if needed > limit:
        return Shortage(needed / limit, _main_memory_error(op, seed, needed, limit))
    try:
        need = _smallest_whole(op, seed, machine)
    except ScheduleError as error:  # no schedule is legal on this machine
        return Shortage(inf, error)
    if need is None:
        none = f"{seed.name} has no tiles for {op.describe()} whose vectors would be aligned"
        return Shortage(inf, ScheduleError(none, fix="another algorithm"))
    if need.share <= 1:
        return None
    if need.share == inf:
        refused = ScheduleError(
            f"no tile of {op.describe()} fits: the prices of machine {machine.name!r} have no room "
            f"for any tile of {need.nest!r}",
            fix="another algorithm, or smaller extents",
        )
        return Shortage(inf, refused)
    if need.lacking is not None:
        return Shortage(need.share, need.lacking.least(op.describe(), need.nest))
    return Shortage(need.share, _space_error(op, need, machine))


def _main_memory_error(op: Op, seed: Seed, needed: int, limit: int) -> CapacityError:
    values = bindings(op, seed)[0]
    own = {t.name: _tensor_bytes(op, values, t) for t in seed.tensors if not t.storage}
    largest = max(own, key=lambda name: own[name])
    setting = capacity_setting("main", needed)
    smaller = f"a smaller batch, or {setting}" if setting else "or smaller extents"
    return CapacityError(
        f"{seed.name} of {op.describe()} takes {needed} bytes of main memory, {own[largest]} "
        f"of them for {largest!r}, the limit is {limit}",
        fix=f"another algorithm, {smaller}",
    )


def _space_error(op: Op, need: _Need, machine: Machine) -> CapacityError:
    space = machine.space(need.space)
    capacity = need.total_bytes + space.reserved_bytes
    return CapacityError(
        f"no tile of {op.describe()} fits: the smallest tiles of {need.nest!r} take "
        f"{need.total_bytes} bytes of {memory_words(need.space)}, {need.tensor_bytes} of them for "
        f"{need.tensor!r}, the limit is {space.available_bytes}",
        fix=capacity_setting(need.space, capacity) or "smaller extents",
    )


def _smallest_whole(op: Op, seed: Seed, machine: Machine) -> _Need | None:
    """Need of the most demanding nest, under the joint layout where that need is least."""
    nests = [_smallest_by_layouts(op, seed, space, machine) for space in seed.spaces]
    wholes = []
    for joint in map(frozenset, seed.layout_combinations()):
        parts = [[need for own, need in nest if own <= joint] for nest in nests]
        if all(parts):
            wholes.append(max(min(part) for part in parts))
    return min(wholes, default=None)


def _smallest_by_layouts(
    op: Op, seed: Seed, space: Space, machine: Machine
) -> list[tuple[frozenset[Layout], _Need]]:
    """Needs of a nest's structures, each with its layouts; layouts that fit once are settled."""
    found: list[tuple[frozenset[Layout], _Need]] = []
    fitting = set[frozenset[Layout]]()
    for structure in ready_structures(machine, seed, space, op.dtype):
        own = structure.layouts
        need = None if own in fitting else _smallest(structure, op, seed, machine)
        if need is not None:
            found.append((own, need))
            fitting |= {own} if need.share <= 1 else set()
    return found


def _smallest(structure: Structure, op: Op, seed: Seed, machine: Machine) -> _Need | None:
    """Need of a structure's smallest candidate, with single buffers; None without tiles."""
    values = bindings(op, seed)[0]
    grid = factor_grid(structure, values, blocks_of(machine, op.numerics.sums.name))
    if grid.tile_count == 0:
        return None
    if not structure.staged.buffers:
        return _Need(0.0, 0, structure.decisions.nest.name, "", 0)
    env = {**values, **dict.fromkeys(grid.copies, 1), **mesh_values(machine)}
    tiles = {**env, **grid.tiles}
    room = prices_of(machine).has_room(structure.staged, machine, tiles)
    taken = [x.found_bytes / x.limit_bytes for x in _limited(structure, machine, tiles)]
    shares = [*_shares(structure.staged, tiles, machine).values(), *taken]
    most = np.maximum.reduce([np.broadcast_to(s, (grid.tile_count,)) for s in shares])
    # The family's own prices refuse a tile that has no room though it is within every limit.
    most = np.where((most > 1) | np.asarray(room, bool), most, inf)
    i = int(np.argmin(most))
    if most[i] == inf:
        return _Need(inf, 0, structure.decisions.nest.name, "", 0)
    return _need(structure, machine, env | _tile(grid, i), float(most[i]))


def _need(structure: Structure, machine: Machine, at: Mapping[str, int], share: float) -> _Need:
    """Need of the tile with the values `at`; `share` is its largest fraction of any limit."""
    nest, least = structure.decisions.nest.name, _shares(structure.staged, at, machine)
    space = max(least, key=lambda name: float(least[name]))
    held = moved_tensors(structure.staged)
    own = {
        held.get(b.name, b.name): int(buffer_bytes(b, at))
        for b in structure.staged.buffers
        if b.space == space
    }
    largest = max(own, key=lambda name: own[name])
    lacking = None
    if share > float(least[space]):
        every = _limited(structure, machine, at)
        lacking = max(every, key=lambda x: float(x.found_bytes / x.limit_bytes))
    total = int(bytes_by_space(structure.staged, at, machine)[space])
    return _Need(share, total, nest, largest, own[largest], space, lacking)


def _limited(structure: Structure, machine: Machine, env: Mapping[str, Value]) -> list[Limited]:
    return [*prices_of(machine).limited(structure.staged, machine, env)]


def _shares(program: Program, env: Mapping[str, Value], machine: Machine) -> dict[str, Any]:
    """Ratio of needed to available bytes, for each memory."""
    needed = bytes_by_space(program, env, machine)
    return {s: n / max(1, machine.space(s).available_bytes) for s, n in needed.items()}


def _tile(grid: FactorGrid, index: int) -> dict[str, int]:
    return {name: int(column[index]) for name, column in grid.tiles.items()}
