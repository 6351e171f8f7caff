"""Random operators, and for each a random candidate of an algorithm: any legal structure of every
nest under one joint layout, any factors and copies that fit.

Sizes are small, so that boundaries and spaces of one tile or many all occur; loops run few times
(`MOST_ITERATIONS`), so that a candidate is interpreted in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import assume, reject
from hypothesis import strategies as st

from support.meshes import small_mesh
from tilewright import ops
from tilewright.common.errors import ScheduleError
from tilewright.common.expr import evaluate
from tilewright.cost.prices import prices_of
from tilewright.ir.nodes import For
from tilewright.ir.visit import walk
from tilewright.machine import Machine, load_machine
from tilewright.ops.definition import Definition
from tilewright.ops.notation import operator_of
from tilewright.partition import Partition, split
from tilewright.passes.lowering import Staging, lowering_of
from tilewright.schedule.decisions import Rules
from tilewright.schedule.factors import FactorGrid, blocks_of, factor_grid
from tilewright.schedule.structures import Structure, build
from tilewright.seeds.space import Space, parameters, seeds_for
from tilewright.seeds.steps import Layout, Step
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.legal import rules_of

Conv2d, Gemm = ops.Conv2d, ops.Gemm
Op: TypeAlias = Conv2d | Gemm | Definition

ALGORITHMS = (
    "gemm",
    "padded",
    "library",
    "implicit",
    "explicit",
    "winograd2",
    "winograd4",
    "swdnn_image",
    "swdnn_batch",
)
HOST_ALGORITHMS = (
    *ALGORITHMS, "winograd3", "winograd5", "winograd6", "direct", "depthwise", "pointwise", "loops",
)  # fmt: skip
BATCHES = {
    "winograd2_fours": (32, 64),
    "swdnn_image": (32, 64),
    "swdnn_batch": (128,),
    "implicit_rows": (1, 1, 1, 2, 8, 31),
}
"""Of the algorithms that do not take any."""


_FIVES = [
    (rows, columns)
    for rows in range(1, 7)
    for columns in range(1, 15)
    if 245 * -(-rows // 5) * -(-columns // 5) <= 144 * -(-rows // 4) * -(-columns // 4)
]
"""Results that tiles of 5 x 5 make by four fifths of the products of 4 x 4."""

_CHANNELS = {"explicit_fused": 32, "direct_vectors": 8, "depthwise": 3}
"""Of a group, of the algorithms that take few."""


class Machines(tuple[Machine, ...]):
    """Machines to draw from, shown as their number: where a draw is rejected, Hypothesis notes the
    text of the strategy.
    """

    def __repr__(self) -> str:
        return f"{len(self)} machines"


SW26010 = load_machine("sw26010")
WHOLE_MESHES = Machines((SW26010, load_machine("sw26010", {"memory.spm.capacity_bytes": "16384"})))
"""The machine, and one with a quarter of its scratchpad."""

SMALL_MESHES = Machines(
    small_mesh("sw26010", rows, columns) for rows, columns in ((2, 2), (4, 2), (1, 3))
)
"""Machines on which interpreting is fast."""

SQUARE_MESHES = Machines((*WHOLE_MESHES, SMALL_MESHES[0]))
MACHINES = Machines(WHOLE_MESHES + SMALL_MESHES)

AVX512 = {"core.vector_lanes": "8", "core.f32.vector_lanes": "16", "primitives.gemm.lanes": "8"}
AVX2 = {
    "core.vector_lanes": "4",
    "core.f32.vector_lanes": "8",
    "primitives.gemm.lanes": "4",
    "primitives.gemm.register_block_scalars": "6",
}
PORTABLE = {
    "core.vector_lanes": "2",
    "core.f32.vector_lanes": "4",
    "primitives.gemm.lanes": "2",
    "primitives.gemm.register_block_scalars": "6",
}
LITTLE_ROOM = {
    "memory.spm.capacity_bytes": "16384",
    "memory.caches.l3.capacity_bytes": "256",
}
HOSTS = Machines(
    load_machine("host", {**numbers, **room})
    for numbers in (AVX512, AVX2, PORTABLE)
    for room in ({}, LITTLE_ROOM)
)
"""This computer with each instruction set, and with little room for packed buffers and in
caches: results are stored past them."""

MOST_ITERATIONS = 96
"""Of all loops of all nests together, where some tiles have as few."""

DTYPES = ("f64", "f32")
INTEGERS = ("i16:i32", "u8,i8:i32:i16", "q8.8:q16.16:q8.8:half_up", "i16:i32:i16:floor:wrap")
"""Products of narrow operands in wide sums, some of them made results of another type."""


def gemms(algorithm: str = "gemm", dtypes: Sequence[str] = DTYPES) -> st.SearchStrategy[Gemm]:
    """Products of all transpositions, types and factors; `padded` and `library` know no factors."""
    exact = any(":" in name for name in dtypes)
    plain = algorithm in ("padded", "library") or exact
    most = 150 if plain else 300
    extents = st.integers(1, 60) | st.integers(1, most) | st.sampled_from([8, 32, 64, 128, 129])
    return st.builds(
        Gemm,
        m=extents,
        n=extents,
        k=extents,
        transpose_a=st.booleans(),
        transpose_b=st.booleans(),
        alpha=st.just(1.0) if plain else st.sampled_from([1.0, 1.0, 2.0, -0.5]),
        beta=st.just(0.0) if plain else st.sampled_from([0.0, 0.0, 1.0, -3.0]),
        dtype=st.sampled_from(dtypes),
    )


@st.composite
def convolutions(
    draw: st.DrawFn, algorithm: str = "implicit", dtypes: Sequence[str] = DTYPES
) -> Conv2d:
    """Convolutions of every kernel up to 7 x 7, stride, border, dilation and number of groups, as
    far as the algorithm computes them: 3 x 3 without stride for Winograd, say.
    """
    winograd = algorithm.startswith("winograd")
    pairs = st.tuples(*[st.sampled_from([1, 1, 1, 2, 3])] * 2)
    extents = st.sampled_from([1, 3, 3]) | st.integers(1, 7)
    plain = winograd or algorithm == "pointwise"
    kernels = st.tuples(extents, extents)
    if algorithm in ("direct", "explicit_fused", "implicit_rows"):  # 1x1 kernels are another one's
        kernels = kernels.filter(lambda kernel: kernel != (1, 1))
    size = 1 if algorithm == "pointwise" else 3
    kernel = (size, size) if plain else draw(kernels)
    stride = (1, 1) if plain else draw(pairs)
    dilation = (1, 1) if plain else draw(pairs)
    if algorithm == "swdnn_batch" and kernel[1] > 1:
        stride, dilation = (stride[0], 1), (dilation[0], 1)
    if algorithm == "implicit_rows":
        stride = (stride[0], 1)
    taps = kernel[0] * kernel[1]
    groups = draw(
        st.sampled_from([2, 3, 16, 17, 41] if algorithm == "depthwise" else [1, 1, 1, 2, 3])
    )
    rows = draw(st.integers(1, max(1, 60 // (taps * groups))))
    out = (min(rows, 13), draw(st.integers(1, 14)))
    if algorithm == "winograd5":
        out = draw(st.sampled_from(_FIVES))
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    widest = [0 if algorithm == "pointwise" else min(4, s) for s in span]
    border = [draw(st.tuples(*[st.integers(0, most)] * 2)) for most in widest]
    image = [
        max(1, (o - 1) * s + n + draw(st.integers(0, s - 1)) - sum(b))
        for o, s, n, b in zip(out, stride, span, border, strict=True)
    ]
    channels = st.integers(1, max(1, min(60 // groups, _CHANNELS.get(algorithm, 60))))
    return Conv2d(
        batch=draw(_batches(algorithm)),
        in_channels=groups * draw(channels),
        out_channels=groups * draw(channels),
        height=image[0],
        width=image[1],
        kernel=kernel,
        stride=stride,
        padding=(border[0][0], border[1][0], border[0][1], border[1][1]),
        dilation=dilation,
        groups=groups,
        dtype=draw(st.sampled_from(dtypes)),
    )


CONTRACTIONS = (
    "y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]",
    "y[n,o,r,c] += x[n,i,r+u-1,2*c+v] * w[o,i,u,v]",
    "y[g,n,o,r] += x[n,g,i,r+u-1] * w[g,o,i,u]",
    "y[n,q,h,k] += x[n,h,q,i] * w[n,h,k,i]",
    "y[n,o,r] += x[n,i,r] * w[o,i]",
)
"""Convolutions along one and two axes, by groups and with a step, and products of several rows."""


@st.composite
def contractions(draw: st.DrawFn, dtypes: Sequence[str] = DTYPES) -> Definition:
    """Definitions that are products, with windows that reach beyond the operand on either side."""
    text = draw(st.sampled_from(CONTRACTIONS))
    axes = dict.fromkeys(c for c in text if c.isalpha() and c not in "xwy")
    most = {"n": 9, "r": 40, "c": 14, "u": 4, "v": 3, "g": 3, "h": 3}
    sizes: dict[str, Any] = {a: draw(st.integers(1, most.get(a, 40)), a) for a in axes}
    if "+u" in text:
        width = [sizes["r"], *([2 * sizes["c"]] if "c" in axes else [])]
        sizes["x"] = (*(sizes[a] for a in ("ngi" if "g" in axes else "ni")), *width)
    return operator_of(text, fill={"x": 0}, dtype=draw(st.sampled_from(dtypes)), **sizes)


def _batches(algorithm: str) -> st.SearchStrategy[int]:
    if algorithm in BATCHES:
        return st.sampled_from(BATCHES[algorithm])
    return st.sampled_from([1, 1, 2, 8]) | st.integers(1, 40)


def operators(algorithm: str, dtypes: Sequence[str] = DTYPES) -> st.SearchStrategy[Op]:
    """Operators that the algorithm computes."""
    if algorithm in ("gemm", "padded", "library"):
        return gemms(algorithm, dtypes)
    if algorithm == "loops":
        return contractions(dtypes)
    return convolutions(algorithm, dtypes)


@dataclass(frozen=True, eq=False)
class Case:
    """A candidate and the machine that it fits, shown as what is needed to build it again."""

    machine: Machine
    candidate: Candidate

    def __repr__(self) -> str:
        mesh, spm = self.machine.mesh, self.machine.spm.capacity_bytes
        head = f"{self.candidate.op} on {mesh.rows} x {mesh.columns} cores of {spm} bytes"
        return "\n".join([head, *(str(n.schedule) for n in self.candidate.nests)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Short text for Hypothesis, instead of every field of every value inside."""
        printer.text(repr(self))


@st.composite
def cases(
    draw: st.DrawFn,
    algorithm: str,
    machines: Machines,
    dtypes: Sequence[str] = DTYPES,
) -> Case:
    """A random operator and a random way to compute it by the algorithm on one of the machines."""
    machine = draw(st.sampled_from(machines))
    op = draw(operators(algorithm, dtypes))
    return Case(machine, candidate(draw, op, algorithm, machine))


def candidate(draw: st.DrawFn, op: Op, algorithm: str, machine: Machine) -> Candidate:
    """A random way to compute the operator by the algorithm.

    No strategy of its own: its text, which Hypothesis notes of a rejected draw, would hold the
    whole machine and space.
    """
    (seed,) = seeds_for(op, algorithm, addressed=rules_of(machine).in_place)
    layouts = list(seed.layout_combinations())
    first = draw(st.integers(0, len(layouts) - 1))
    most = MOST_ITERATIONS // len(seed.spaces)
    blocks = draw(st.sampled_from(list(seed.blocks(parameters(op)))))
    values = {**parameters(op), **blocks}
    for joint in (*layouts[first:], *layouts[:first]):
        nests = [_choice(draw, op, values, space, joint, machine, most) for space in seed.spaces]
        if None not in nests:
            return Candidate(op, seed, tuple(n for n in nests if n is not None), blocks)
    return reject()


def applies(partition: Partition, algorithm: str) -> bool:
    """True where the algorithm computes the pieces: fixed plans do not take every batch."""
    try:
        return bool(seeds_for(partition.piece, algorithm))
    except ScheduleError:
        return False


@st.composite
def divided(
    draw: st.DrawFn, algorithm: str, machines: Machines, groups: int
) -> tuple[Partition, list[Case]]:
    """A random operator over core groups, and one way to compute it for all of its pieces."""
    machine = draw(st.sampled_from(machines))
    partitions = [p for p in split(draw(operators(algorithm)), groups) if applies(p, algorithm)]
    assume(partitions)
    partition = draw(st.sampled_from(partitions))
    first = candidate(draw, partition.piece, algorithm, machine)
    return partition, [Case(machine, replace(first, op=p.op)) for p in partition.pieces]


def _choice(
    draw: st.DrawFn,
    op: Op,
    values: Mapping[str, int],
    space: Space,
    joint: tuple[Layout, ...],
    machine: Machine,
    most_iterations: int,
) -> NestChoice | None:
    """One nest's structure, factors and copies; those that do not fit are not drawn, nor those of
    more iterations unless all have more. None where no structure is legal under these layouts.
    """
    combinations = step_lists(space, joint, machine)
    first = draw(st.integers(0, len(combinations) - 1))
    for steps in (*combinations[first:], *combinations[:first]):
        structure = _built(space, steps, op.dtype, lowering_of(machine).staging, rules_of(machine))
        if structure is None:
            continue
        grid = factor_grid(structure, values, blocks_of(machine, op.numerics.sums.name))
        iterations, fits = sizes(structure, grid, values, machine)
        if fits.any():
            few = iterations <= max(most_iterations, iterations[fits].min())
            copies, tiles = np.nonzero(few & fits)
            chosen = draw(st.integers(0, len(tiles) - 1))
            factors = grid.chosen(int(copies[chosen]), int(tiles[chosen]))
            return NestChoice(structure, factors, inf)
    return None


def step_lists(
    space: Space, joint: tuple[Layout, ...], machine: Machine
) -> tuple[tuple[Step, ...], ...]:
    """Every combination of a nest's steps, legal or not, under a joint layout."""
    used = {u.tensor.name for u in space.nest.every_use}
    own = tuple(x for x in joint if x.tensor in used)
    in_place = rules_of(machine).in_place
    return tuple((*own, *steps) for steps in space.combinations(in_place=in_place))


@cache
def _built(
    space: Space, steps: tuple[Step, ...], dtype: str, staging: Staging, rules: Rules
) -> Structure | None:
    return build(space, steps, dtype, staging, rules)


def sizes(
    structure: Structure, grid: FactorGrid, values: Mapping[str, int], machine: Machine
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(iterations of all loops together, whether it fits the scratchpad), each (copies, tiles)."""
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    env = {**values, **grid.tiles, **grid.copies, **mesh, "rid": 0, "cid": 0}
    room = prices_of(machine).has_room(structure.staged, machine, env)
    loops = [s for s in walk(structure.staged.body) if isinstance(s, For)]
    first = {**env, **dict.fromkeys((f.var for f in loops), 0)}
    iterations = prod((evaluate(f.extent, first) for f in loops), start=np.int64(1))
    shape = (grid.copy_count, grid.tile_count)
    fits = np.broadcast_to(room, shape)
    return np.broadcast_to(iterations, shape), fits
