"""Products that write their result inside a border.

In: a candidate of a convolution, and a form that has places around the images that the candidate's
own form has not. Out: a candidate of the same schedule whose tiles are put there, priced anew, so
that no stage has to copy them; None where its programs do not write rows and columns as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.cost.estimate import estimate
from tilewright.ir.nodes import Call, Program, Range, Stmt, Tile, Transfer
from tilewright.ir.visit import rewrite, walk
from tilewright.machine import Machine
from tilewright.network.planning.form import Form
from tilewright.network.planning.memory import unbordered
from tilewright.tune.candidate import Candidate, NestChoice

_NAMES = {2: "rows", 3: "cols"}
"""The dimensions of a convolution's result, by its axes, that may have places around them."""
Border = Mapping[str, tuple[int, int]]
"""For a dimension the places before and behind its elements."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Bordered(Candidate):
    """A candidate whose result lies in a `form` with a border, which it does not write."""

    form: Form

    @property
    def beside(self) -> Form:
        """The form of an epilogue's operand: the result's without the border."""
        return unbordered(self.form)


class Borders:
    """Looks up candidates with their results inside borders, each made once for all drafts."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._found: dict[tuple[Candidate, Form], Bordered | None] = {}

    def around(self, candidate: Candidate, own: Form, form: Form) -> Bordered | None:
        """The candidate, whose result lies in its `own` form, with the result in that form."""
        key = candidate, form
        if key not in self._found:
            self._found[key] = bordered(candidate, own, form, self._machine)
        return self._found[key]


def bordered(candidate: Candidate, own: Form, form: Form, machine: Machine) -> Bordered | None:
    """The candidate, whose result lies in its `own` form, with the result in a form of the same
    dimensions and a border; None where there is no such candidate.
    """
    border = _border(own, form) if candidate.op.convolution is not None else None
    if not border or type(candidate) is not Candidate:
        return None
    nests = []
    for nest in candidate.nests:
        staged = _inside(nest.structure.staged, candidate.seed.result, border)
        if staged is None:
            return None
        nests.append(_priced_anew(nest, staged, candidate.values, machine))
    parts = (candidate.op, candidate.seed, tuple(nests), candidate.blocks)
    return Bordered(*parts, form=form)


def _border(own: Form, form: Form) -> Border | None:
    """The border of `form` around rows and columns of `own`, or None if they differ otherwise."""
    found = {}
    kinds = [[(d.axis, d.step) for d in f.dims] for f in (own, form)]
    if own.has_zeros or kinds[0] != kinds[1]:
        return None
    for axis, size in enumerate(own.shape):
        extents = [d.extent for d in form.along(axis)]
        if extents == [d.extent for d in own.along(axis)]:
            continue
        if axis not in _NAMES or len(extents) != 1:
            return None
        before = form.before[axis]
        found[_NAMES[axis]] = before, extents[0] - size - before
    return found


def _inside(program: Program, name: str, border: Border) -> Program | None:
    """The program with the tensor inside a border; itself where it does not know the tensor."""
    tensors = {t.name: t for t in program.tensors}
    if any(t.storage == name for t in program.tensors):
        return None
    if name not in tensors:
        return program
    own = tensors[name]
    if own.storage or not border.keys() <= set(own.dims) or _names_in_place(program, name):
        return None
    around = [border.get(dim, (0, 0)) for dim in own.dims]
    shape = (n + sum(places) for n, places in zip(own.shape, around, strict=True))
    tensors[name] = replace(own, shape=tuple(shape))

    def moved(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(stmt, Transfer) or stmt.tensor != name:
            return None
        pairs = zip(stmt.ranges, around, strict=True)
        return (replace(stmt, ranges=tuple(_behind(r, before) for r, (before, _) in pairs)),)

    return replace(program, tensors=tuple(tensors.values()), body=rewrite(program.body, moved))


def _names_in_place(program: Program, name: str) -> bool:
    """True if a primitive call takes tensor `name` in place."""
    calls = (stmt for stmt in walk(program.body) if isinstance(stmt, Call))
    return any(isinstance(o, Tile) and o.tensor == name for call in calls for o in call.operands)


def _behind(r: Range, places: int) -> Range:
    stop = None if r.stop is None else r.stop + places
    return replace(r, start=r.start + places, stop=stop)


def _priced_anew(
    nest: NestChoice, staged: Program, values: Mapping[str, int], machine: Machine
) -> NestChoice:
    """The nest by another program of the same schedule: its price differs as the estimates do."""
    if staged is nest.structure.staged:
        return nest
    bound = {**values, **nest.factors}
    before, after = (
        float(estimate(program, machine, bound).cycles.min())
        for program in (nest.structure.staged, staged)
    )
    structure = replace(nest.structure, program=lambda: staged)
    return replace(nest, structure=structure, cycles=nest.cycles + after - before)
