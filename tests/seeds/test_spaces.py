"""Every seed as a text: its tensors, nests, and the schedules that are searched.

The texts say what a planner may choose from; `pytest tests/seeds --update-golden` writes them
anew, and the difference shows which spaces a change has moved, and how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from support.golden import Golden
from tilewright.common.errors import ScheduleError
from tilewright.ops import Op, conv2d, gemm
from tilewright.ops.access import Access, straight
from tilewright.ops.gemm import batched_matmul
from tilewright.ops.lookup import lookup
from tilewright.ops.mapping import InMemory
from tilewright.ops.notation import operator_of
from tilewright.seeds.nest import TensorSpec, Use
from tilewright.seeds.pooling import PoolWindows, with_pooling
from tilewright.seeds.space import Seed, Space, parameters, seeds_for, with_epilogue
from tilewright.seeds.steps import Step, print_step

Changed = Callable[[Seed], Seed | None]


def same(seed: Seed) -> Seed:
    return seed


def without_tiles(seed: Seed) -> Seed | None:
    """No algorithm of Winograd's."""
    return None if seed.name.startswith("winograd") else seed


PLACES = Access((3, 3, 4), (((0, 1),), (), ()), (0, 2, 1))
ROWS = Access((5, 7), (((0, 2),), ((1, 1),)), (0, 5))
TURNED = Access((3, 2), (((1, 1),), ((0, 1),)), (0, 0))
OVERLAPPING = Access((9, 7, 5), (((0, 2), (2, 1)), ((1, 3), (3, 1)), ((4, 1),)), (0, 0, 0))
APART = straight((4, 2, 3, 2, 8), (0, 3, 1, 4, 2))


def small(**own: Any) -> Op:
    sizes = {"batch": 1, "in_channels": 8, "out_channels": 16, "height": 12, "width": 20}
    return conv2d(**{**sizes, "kernel": 3, **own})


OPERATORS: dict[str, Sequence[tuple[Op, Changed]]] = {
    "products": [
        (gemm(m=64, n=48, k=32), same),
        (gemm(m=64, n=48, k=32, transpose_a=True, transpose_b=True, alpha=2.0, beta=-1.0), same),
        (gemm(m=1, n=40, k=1, beta=1.0), same),
        (gemm(m=40, n=30, k=1), same),
        (gemm(m=40, n=1, k=300, transpose_a=True, dtype="i16:i32:i16"), same),
        (batched_matmul(batch=3, m=5, n=6, k=7, transpose_b=True), same),
        (gemm(m=64, n=48, k=32), lambda seed: with_epilogue(seed, "x0 + x1", (("rows",),))),
    ],
    "windows": [
        (small(), without_tiles),
        (small(kernel=(2, 4), stride=(2, 1), padding=(1, 2, 0, 3)), without_tiles),
        (small(kernel=(5, 2), stride=2, groups=2, dilation=(1, 3)), without_tiles),
        (small(batch=16, height=8, width=9, kernel=6), without_tiles),
        (small(in_channels=16, groups=16, padding=(0, 1, 0, 0)), without_tiles),
        (small(kernel=1, groups=2), without_tiles),
        (small(kernel=1), without_tiles),
        (small(batch=32, kernel=(3, 2)), without_tiles),
    ],
    "winograd": [
        (small(padding=1), lambda seed: with_pooling(seed, PoolWindows("average", (1, 2)))),
    ],
    "definitions": [
        (InMemory((2, 3), TURNED, (TURNED, Access((2,), (((0, 1),),), (0,))), "x0 + x1"), same),
        (InMemory((3, 2), PLACES, (ROWS,), "x0 + x0", "sum", "-2 * x0"), same),
        (InMemory((4, 2, 3, 2, 5), straight((4, 2)), (OVERLAPPING,), "x0", "max"), same),
        (InMemory((4, 3, 8, 2, 2), straight((4, 3, 8)), (APART,), "x0", "max"), same),
        (lookup(30, entries=8), same),
    ],
    "contractions": [
        (operator_of("y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]",
            n=2, o=12, r=20, i=8, u=3, x=(2, 8, 20), fill=0), same),
        (operator_of("y[n,o,d,r,c] += x[n,i,d+s-1,2*r+u-1,c+v-1] * w[o,i,s,u,v]",
            n=2, o=12, d=4, r=3, c=6, i=8, s=3, u=3, v=2, x=(2, 8, 4, 6, 6), fill=0), same),
        (operator_of("y[b,p,r] += x[b,i,r] * w[b,i,r+p-1]",
            b=2, p=3, r=6, i=8, w=(2, 8, 6), fill=0), same),
        (operator_of("y[b,h,q,k] += x[b,h,q,d] * w[b,h,k,d]", b=2, h=3, q=8, k=10, d=12), same),
        (operator_of("y[i,j,k] += x[i,l,k] * u[j,l]", i=6, j=12, k=7, l=9), same),
        (operator_of("y[g,r] += x[g,r+u] * w[g,u]", g=4, r=8, u=3, x=(4, 10)), same),
    ],
}  # fmt: skip


LONG = 40
"""Lines of more characters stand in the first seed that has them; others name that one's number."""


def texts_of(operators: Sequence[tuple[Op, Changed]]) -> Iterator[str]:
    """All seeds of operators, on machines of each kind; equal ones once."""
    numbers, first = dict[str, int](), dict[str, int]()
    for op, changed in operators:
        yield f"# {op.describe()}"
        for kind, own in _seeds(op, changed):
            lines = list(_seed(op, own))
            known = len(numbers)
            number = numbers.setdefault("\n".join(lines), known)
            yield f"{number} {own.name} {kind}".rstrip()
            for line in lines if number == known else ():
                is_known = len(line) > LONG and first.setdefault(line, number) != number
                yield f"{_indent(line)}as in {first[line]}" if is_known else line


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _seeds(op: Op, changed: Changed) -> Iterator[tuple[str, Seed]]:
    for kind, only in (("", None), ("addressed", None), ("whole", None), ("", "prepacked")):
        try:
            seeds = seeds_for(op, only, addressed=kind == "addressed", whole=kind == "whole")
        except ScheduleError:
            continue  # none on machines of that kind
        yield from ((kind, own) for seed in seeds if (own := changed(seed)) is not None)


def _seed(op: Op, seed: Seed) -> Iterator[str]:
    for spec in seed.tensors:
        yield f"  {_tensor(spec)}"
    for space in seed.spaces:
        yield from _space(space)
    for choice in seed.layouts:
        yield f"  stored {' | '.join(_steps(chosen) for chosen in choice)}"
    yield f"  {seed.result} of {', '.join(seed.operands)}"
    values = parameters(op)
    if seed.together:
        yield f"  together {', '.join(seed.together)}"
    if (blocks := list(seed.blocks(values))) != [{}]:
        yield f"  blocks {'; '.join(_values(own) for own in blocks)}"
    if seed.roundings:
        yield f"  roundings {seed.roundings(values):.6g}"


def _space(space: Space) -> Iterator[str]:
    nest = space.nest
    axes = (f"{a.name}{'*' if a.inner else ''}={a.extent}" for a in nest.axes)
    roles = ", ".join(f"{letter} {name}" for name, letter in nest.roles)
    yield f"  nest {nest.name}: {', '.join(axes)}"
    yield f"    {nest.output.tensor.name}: {nest.primitive} ({roles})"
    yield from (f"    {_use(use)}" for use in nest.uses)
    for what in ("before", "after", "pooling", "epilogue"):
        if (part := getattr(nest, what)) is not None:
            yield f"    {what} {part.primitive}"
            yield from (f"      {_use(use)}" for use in nest.every_use if use not in nest.uses)
    yield from (f"    {' | '.join(map(_steps, choice))}" for choice in space.choices)
    limits = space.limits
    yield f"    tiles {limits.largest} {limits.most} {limits.between}"
    doubled, in_place = (", ".join(names) or "-" for names in (space.doubled, space.addressed))
    yield f"    doubled {doubled}; in place {in_place}"
    if space.ahead:
        yield "    ahead"


def _tensor(spec: TensorSpec) -> str:
    dims = ", ".join(f"{name}={extent}" for name, extent in spec.dims)
    rest = [f"in {spec.storage}"] if spec.storage else []
    rest += [] if spec.operand is None else [f"operand {spec.operand}"]
    rest += [f"zeros {name} {first} {last}" for name, first, last in spec.zeros]
    return " ".join([spec.kind, f"{spec.name}({dims})", *rest])


def _use(use: Use) -> str:
    return f"{use.tensor.name}[{', '.join(map(str, use.indices))}]{' exact' * use.exact}"


def _steps(steps: Sequence[Step]) -> str:
    return " ".join(map(print_step, steps)) or "-"


def _values(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


@pytest.mark.parametrize("kind", OPERATORS)
def test_seeds_as_texts(kind: str, golden: Golden) -> None:
    golden(f"{kind}.txt", "\n".join([*texts_of(OPERATORS[kind]), ""]))
