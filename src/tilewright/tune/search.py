"""Rank every candidate of every algorithm by the model (swATOP 4.6).

In: operators and a machine. Out: per operator and algorithm the ranking: its best candidates, how
many were priced,
how many fit. The nests of a seed are ranked one by one under each joint layout of the tensors they
share, so the
best whole is the sum of the best parts: an exhaustive optimum without the product of the nests'
spaces. Operators
that share structures (the layers of a network) are priced together, as one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.common.expr import evaluate, product
from tilewright.cost.chain import Prepared, prepare
from tilewright.cost.estimate import estimate, scratchpad_bytes
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.passes.pipeline import Observer, finish, stage
from tilewright.schedule.factors import Blocks, Columns, FactorGrid, factor_grid
from tilewright.schedule.lower import declare
from tilewright.schedule.structures import Structure, structures
from tilewright.seeds.nest import TensorSpec
from tilewright.seeds.space import Seed, parameters
from tilewright.seeds.steps import Layout, Schedule

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NestChoice:
    """One priced candidate of one nest."""

    structure: Structure
    factors: Mapping[str, int]
    cycles: float

    @property
    def schedule(self) -> Schedule:
        """The candidate as a replayable schedule."""
        return Schedule(self.structure.steps, tuple(sorted(self.factors.items())))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to compute an operator: an algorithm and a choice for each of its nests."""

    op: Op
    seed: Seed
    nests: tuple[NestChoice, ...]

    @property
    def cycles(self) -> float:
        """Estimated cycles of one core group."""
        return sum(n.cycles for n in self.nests)

    def program(self, machine: Machine, observer: Observer | None = None) -> Program:
        """The candidate's program, ready to run, simulate and emit."""
        values = parameters(self.op)
        bindings = [{**values, **n.factors} for n in self.nests]
        layouts = self.joint_layouts()
        tensors = [declare(t, layouts, self.op.dtype) for t in self.seed.tensors if not t.storage]
        staged = [n.structure.staged for n in self.nests]
        hooks = (observer,) if observer else ()
        return finish(self.seed.name, staged, bindings, machine, tensors, *hooks)

    def joint_layouts(self) -> dict[str, tuple[str, ...]]:
        """A joint layout of the seed that agrees with every nest (tensors no nest uses follow
        along).
        """
        own = frozenset().union(*(n.structure.layouts for n in self.nests))
        for joint in self.seed.layout_combinations():
            if own <= frozenset(joint):
                return {x.tensor: x.dims for x in joint}
        raise ScheduleError(f"the nests of {self.seed.name!r} disagree on layouts")


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best candidates of one algorithm, best first, and the size of their space."""

    seed: Seed
    best: tuple[Candidate, ...]
    candidates: int
    fitting: int


@dataclass(frozen=True, eq=False)
class _Priced:
    """Cycles of one structure's grid for one operator: (copies, tiles), infinite where it does not
    fit.
    """

    structure: Structure
    grid: FactorGrid
    cycles: Floats

    def top(self, count: int) -> list[NestChoice]:
        flat = self.cycles.reshape(-1)
        count = min(count, flat.size)
        order = np.argpartition(flat, count - 1)[:count]
        picked = [int(i) for i in order[np.argsort(flat[order], kind="stable")]]
        width = self.cycles.shape[1]
        return [
            NestChoice(self.structure, self.grid.chosen(*divmod(i, width)), float(flat[i]))
            for i in picked
            if np.isfinite(flat[i])
        ]


def blocks_of(machine: Machine) -> Blocks:
    """What the machine's matrix primitive asks of extents."""
    gemm = machine.primitives.gemm
    return Blocks(
        machine.mesh.rows,
        machine.mesh.columns,
        gemm.lanes * gemm.register_block_vectors,
        gemm.register_block_scalars,
        gemm.lanes,
    )


def rank(cases: Sequence[tuple[Op, Seed]], machine: Machine, *, keep: int = 4) -> list[Ranking]:
    """Rank each (operator, seed) pair.

    Pairs that share a seed are priced together, equal ones once. A pair whose every candidate
    overflows the scratchpad has an empty `best`.
    """
    groups: dict[tuple[int, str], dict[Op, Seed]] = {}
    for op, seed in cases:
        groups.setdefault((id(seed), op.dtype), {})[op] = seed
    found: dict[tuple[int, Op], Ranking] = {}
    for (number, _), ops in groups.items():
        seed = next(iter(ops.values()))
        for op, ranking in zip(ops, _rank_seed(list(ops), seed, machine, keep), strict=True):
            found[number, op] = ranking
    return [found[id(seed), op] for op, seed in cases]


def _rank_seed(ops: list[Op], seed: Seed, machine: Machine, keep: int) -> list[Ranking]:
    priced = [
        [_price(s, ops, machine) for s in structures(seed, space, ops[0].dtype, stage)]
        for space in seed.spaces
    ]
    limit = machine.memory.main.capacity_bytes
    return [
        _ranking(op, seed, [[p[i] for p in nest] for nest in priced], keep, memory <= limit)
        for i, (op, memory) in enumerate((op, main_memory_bytes(op, seed)) for op in ops)
    ]


def main_memory_bytes(op: Op, seed: Seed) -> int:
    """Bytes of main memory that the operator's tensors and the seed's own take together."""
    return sum(_tensor_bytes(op, t) for t in seed.tensors if not t.storage)


def _tensor_bytes(op: Op, tensor: TensorSpec) -> int:
    elements = evaluate(product(extent for _, extent in tensor.dims), parameters(op))
    return int(elements) * dtype(op.dtype).size_bytes


def _price(structure: Structure, ops: list[Op], machine: Machine) -> list[_Priced]:
    """Price the grids of all operators in one walk."""
    blocks = blocks_of(machine)
    values = [parameters(op) for op in ops]
    grids = [factor_grid(structure, v, blocks) for v in values]
    counts = [g.tile_count for g in grids]
    copies = grids[0].copies
    env = {name: np.concatenate([g.tiles[name] for g in grids]) for name in grids[0].tiles}
    for name in values[0]:
        env[name] = np.repeat([v[name] for v in values], counts)
    fits = _fits_at_all(structure, env, copies, machine)
    env = {name: v[fits] for name, v in env.items()}
    bounds = np.cumsum([0, *counts])
    ends = np.concatenate([[0], np.cumsum(fits)])[bounds]
    shape = (len(next(iter(copies.values()))), int(ends[-1]))
    cycles = _cycles(structure, env | copies, machine, shape)
    parts = [slice(*pair) for pair in pairwise(ends.tolist())]
    return [
        _Priced(
            structure,
            FactorGrid({name: env[name][part] for name in grids[0].tiles}, copies),
            cycles[:, part],
        )
        for part in parts
    ]


def _fits_at_all(
    structure: Structure, tiles: Columns, copies: Columns, machine: Machine
) -> npt.NDArray[np.bool_]:
    """The tiles that fit the scratchpad with one copy of each buffer."""
    env = {**tiles, **dict.fromkeys(copies, 1), **_mesh(machine), "rid": 0, "cid": 0}
    fits = scratchpad_bytes(structure.staged, env) <= machine.spm_available_bytes
    return np.broadcast_to(fits, (len(next(iter(tiles.values()))),))


def _cycles(
    structure: Structure,
    env: Mapping[str, npt.NDArray[np.int64]],
    machine: Machine,
    shape: tuple[int, int],
) -> Floats:
    if shape[1] == 0:
        return np.empty(shape)
    size = scratchpad_bytes(structure.staged, {**env, **_mesh(machine), "rid": 0, "cid": 0})
    fits = np.broadcast_to(size <= machine.spm_available_bytes, shape)
    copies = np.concatenate([v for v in env.values() if v.ndim == 2], axis=1)
    return estimate(_prepared(structure), machine, env, _undominated(copies, fits)).cycles


@cache
def _prepared(structure: Structure) -> Prepared:
    return prepare(structure.staged)


def _undominated(
    copies: npt.NDArray[np.int64], fits: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The candidates that fit and of which no variant with more double buffers fits too.

    A second copy of a buffer costs nothing but space: waits move later, never earlier.
    """
    wanted = fits.copy()
    more = np.all(copies[:, None, :] <= copies[None, :, :], axis=2)
    for i in range(len(copies)):
        for other in np.flatnonzero(more[i]):
            if other != i:
                wanted[i] &= ~fits[other]
    return wanted


def _mesh(machine: Machine) -> dict[str, int]:
    return {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}


def _ranking(op: Op, seed: Seed, nests: list[list[_Priced]], keep: int, in_memory: bool) -> Ranking:
    """Join the nests' best choices under each joint layout."""
    sizes = [p.cycles.size for nest in nests for p in nest]
    fitting = sum(int(np.isfinite(p.cycles).sum()) for nest in nests for p in nest)
    tops = [[(p.structure.layouts, p.top(keep)) for p in nest] for nest in nests]
    found: list[Candidate] = []
    for joint in seed.layout_combinations() if in_memory else ():
        layouts = frozenset(joint)
        parts = [_best_under(layouts, top, keep) for top in tops]
        found += _joined(op, seed, parts, keep)
    found.sort(key=lambda c: c.cycles)
    return Ranking(seed, tuple(found[:keep]), sum(sizes), fitting)


def _best_under(
    layouts: frozenset[Layout], tops: list[tuple[frozenset[Layout], list[NestChoice]]], keep: int
) -> list[NestChoice]:
    choices = [c for own, top in tops if own <= layouts for c in top]
    return sorted(choices, key=lambda c: c.cycles)[:keep]


def _joined(op: Op, seed: Seed, parts: list[list[NestChoice]], keep: int) -> list[Candidate]:
    """The best whole, then the wholes that differ from it in one nest."""
    if not all(parts):
        return []
    best = tuple(part[0] for part in parts)
    others = [
        (*best[:i], choice, *best[i + 1 :]) for i, part in enumerate(parts) for choice in part[1:]
    ]
    return [Candidate(op, seed, nests) for nests in (best, *others)][: keep * len(parts)]


def require_fit(op: Op, seed: Seed, machine: Machine) -> None:
    """Raise CapacityError for an operator of which no tile fits, with the smallest change that
    would.
    """
    _require_main_memory(op, seed, machine)
    values = parameters(op)
    for space in seed.spaces:
        smallest = [
            _smallest(s, factor_grid(s, values, blocks_of(machine)), values, machine)
            for s in structures(seed, space, op.dtype, stage)
        ]
        needed, tensor, own = min(smallest)
        limit = machine.spm_available_bytes
        if needed > limit:
            spm = machine.memory.spm
            raise CapacityError(
                f"no tile of {op.describe()} fits: the smallest tiles of {space.nest.name!r} "
                f"take {needed} bytes of "
                f"scratchpad, {own} of them for {tensor!r}, the limit is {limit}",
                fix=f"--set memory.spm.capacity_bytes={needed + spm.reserved_bytes}",
            )


def _require_main_memory(op: Op, seed: Seed, machine: Machine) -> None:
    needed, limit = main_memory_bytes(op, seed), machine.memory.main.capacity_bytes
    if needed > limit:
        own = {t.name: _tensor_bytes(op, t) for t in seed.tensors if not t.storage}
        largest = max(own, key=lambda name: own[name])
        raise CapacityError(
            f"{seed.name} of {op.describe()} takes {needed} bytes of main memory, {own[largest]} "
            f"of them for {largest!r}, the limit is {limit}",
            fix=f"another algorithm, a smaller batch, or --set memory.main.capacity_bytes={needed}",
        )


def _smallest(
    structure: Structure, grid: FactorGrid, values: Mapping[str, int], machine: Machine
) -> tuple[int, str, int]:
    """(bytes of the smallest candidate, its largest tensor, that one's bytes)."""
    single = dict.fromkeys(grid.copies, 1)
    env = {**values, **grid.tiles, **single, **_mesh(machine)}
    total = np.broadcast_to(scratchpad_bytes(structure.staged, env), (grid.tile_count,))
    i = int(np.argmin(total))
    at = {**values, **single, **_mesh(machine)} | {k: int(v[i]) for k, v in grid.tiles.items()}
    own = {
        b.name.removesuffix("_tile"): int(scratchpad_bytes_of(structure, b.name, at))
        for b in structure.staged.buffers
    }
    tensor = max(own, key=lambda name: own[name])
    return int(total[i]), tensor, own[tensor]


def scratchpad_bytes_of(structure: Structure, buffer: str, env: Mapping[str, int]) -> int:
    """Bytes of one buffer under integer values."""
    from_all = structure.staged
    single = type(from_all)(from_all.name, from_all.parameters, (), (from_all.buffer(buffer),), ())
    return int(scratchpad_bytes(single, env))
