"""Products that write their result, or read further epilogue operands, inside a border.

In: a candidate of a convolution, and forms with places around the images that the candidate's own
form lacks. Out: a candidate of the same schedule whose tiles are moved inside, priced anew, so that
no stage has to copy them; None where its programs do not address rows and columns separately. A
part of a concatenated tensor counts as bordered by the other parts: a product whose result is only
copied there writes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from tilewright.common.cache import CacheStore
from tilewright.common.expr import Const, evaluate, substitute
from tilewright.cost.estimate import estimate
from tilewright.ir.nodes import Call, For, Program, Range, Stmt, Tensor, Tile, Transfer
from tilewright.ir.visit import rewrite, walk
from tilewright.machine import Machine
from tilewright.network.plan import Scheduled
from tilewright.network.planning.form import Form, StoredDim
from tilewright.network.planning.memory import (
    Draft,
    Located,
    PlannedMemory,
    is_unblocked,
    unbordered,
)
from tilewright.network.waits import moving_cycles
from tilewright.ops import Op
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.op import Shape
from tilewright.seeds.space import Seed
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.prepared import keeps

_KEPT = CacheStore("estimates")
_NAMES = {2: "rows", 3: "cols"}
"""Dimensions of a convolution's tensors that may have a border, by axis."""
_Kind = TypeVar("_Kind", bound=Candidate)
Border = Mapping[str, tuple[int, int]]
"""For a dimension, the places before and after its elements."""
LargerTensor = tuple[Tensor, Sequence[int]]
"""A larger tensor, and the index in it of the smaller tensor's first element."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Bordered(Candidate):
    """A candidate whose result lies in a `form` with a border, which it does not write. Epilogue
    operands as large as the result lie in the form `around`, or unbordered if that is None.
    """

    form: Form
    around: Form | None = None

    @property
    def beside(self) -> Form:
        """The form of epilogue operands that are as large as the result."""
        return self.around or unbordered(self.form)


def bordered(
    candidate: Candidate, own: Form, form: Form, machine: Machine, beside: Form | None = None
) -> Bordered | None:
    """The candidate with its result, in `own` form otherwise, inside the border of `form`, and
    epilogue operands of that size in form `beside`; None if there is no such candidate.
    """
    if candidate.op.convolution is None or type(candidate) is not Candidate:
        return None
    around = {candidate.seed.result: border_around(own, form)}
    around |= dict.fromkeys(_as_large(candidate.seed), border_around(own, beside) if beside else {})
    borders = {name: border for name, border in around.items() if border != {}}
    nests = _nests_inside(candidate, borders, machine) if borders else None
    if nests is None:
        return None
    return Bordered(candidate.op, candidate.seed, nests, candidate.blocks, form=form, around=beside)


def reading_parts(
    candidate: _Kind, borders: Mapping[str, Border], machine: Machine
) -> _Kind | None:
    """The candidate with the named operands inside larger tensors; None if that is impossible."""
    nests = _nests_inside(candidate, borders, machine)
    return None if nests is None else replace(candidate, nests=nests)


def _nests_inside(
    candidate: Candidate, borders: Mapping[str, Border | None], machine: Machine
) -> tuple[NestChoice, ...] | None:
    """The candidate's nests with the named tensors inside borders; None if one cannot be."""

    def inside(program: Program, _: Mapping[str, int]) -> Program | None:
        found: Program | None = program
        for name, border in borders.items():
            found = _inside(found, name, border) if found and border is not None else None
        return found

    return nests_by(candidate, inside, f"inside {sorted(borders.items())}", machine)


def nests_by(
    candidate: Candidate,
    change: Callable[[Program, Mapping[str, int]], Program | None],
    text: str,
    machine: Machine,
) -> tuple[NestChoice, ...] | None:
    """The candidate's nests with programs rewritten by `change`, priced anew. `change` receives
    each program and the values of extents and factors; None if it returns None for any nest.
    """
    nests = []
    for nest in candidate.nests:
        staged = change(nest.structure.staged, {**candidate.values, **nest.factors})
        if staged is None:
            return None
        nests.append(_priced_anew(candidate, nest, staged, text, machine))
    return tuple(nests)


def _as_large(seed: Seed) -> list[str]:
    """Epilogue operands of a seed that have every dimension of the result."""
    last = seed.spaces[-1].nest
    uses = last.epilogue.operands if last.epilogue else ()
    whole = len(last.result.indices)
    names = (use.tensor.name for use in uses if len(use.indices) == whole)
    return [name for name in names if name != seed.result]


def border_around(own: Form, form: Form) -> Border | None:
    """The border of `form` around rows and columns of `own`; None if they differ otherwise."""
    found = {}
    kinds = [[(d.axis, d.step) for d in f.dims] for f in (own, form)]
    if own.has_zeros or own.shape != form.shape or kinds[0] != kinds[1]:
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
    """The program with tensor `name` inside a border; unchanged if it has no such tensor."""

    def larger(own: Tensor) -> LargerTensor | None:
        named = border
        if not named.keys() <= set(own.dims):
            named = {f"kernel_{dim}": around for dim, around in border.items()}
        if not named.keys() <= set(own.dims):
            return None
        around = [named.get(dim, (0, 0)) for dim in own.dims]
        shape = tuple(n + sum(places) for n, places in zip(own.shape, around, strict=True))
        return replace(own, shape=shape), [before for before, _ in around]

    return as_part_of(program, name, larger)


def as_part_of(
    program: Program, name: str, larger: Callable[[Tensor], LargerTensor | None]
) -> Program | None:
    """The program with tensor `name` as a part of a larger one; unchanged if it has no such tensor,
    None if the tensor is used in place or under another name.
    """
    tensors = {t.name: t for t in program.tensors}
    if any(t.storage == name for t in program.tensors):
        return None
    if name not in tensors:
        return program
    found = larger(tensors[name])
    if found is None or tensors[name].storage or names_in_place(program, name):
        return None
    tensors[name], first = found

    def moved(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(stmt, Transfer) or stmt.tensor != name:
            return None
        ranges = (range_behind(r, places) for r, places in zip(stmt.ranges, first, strict=True))
        return (replace(stmt, ranges=tuple(ranges)),)

    return replace(program, tensors=tuple(tensors.values()), body=rewrite(program.body, moved))


def names_in_place(program: Program, name: str) -> bool:
    """True if a primitive call uses tensor `name` in place."""
    calls = (stmt for stmt in walk(program.body) if isinstance(stmt, Call))
    return any(isinstance(o, Tile) and o.tensor == name for call in calls for o in call.operands)


def range_behind(r: Range, places: int) -> Range:
    stop = None if r.stop is None else r.stop + places
    return replace(r, start=r.start + places, stop=stop)


def _priced_anew(
    candidate: Candidate,
    nest: NestChoice,
    staged: Program,
    change: str,
    machine: Machine,
    factors: Mapping[str, int] | None = None,
) -> NestChoice:
    """The nest with a program of the same schedule whose tensors lie elsewhere, perhaps with other
    `factors`; its price changes by the difference of the estimates.
    """
    if staged is nest.structure.staged:
        return nest
    changes = (*nest.structure.changes, change)
    structure = replace(nest.structure, program=lambda: staged, changes=changes)
    moved = replace(nest, structure=structure, factors=nest.factors if factors is None else factors)
    before, after = (
        _estimated(Candidate(candidate.op, candidate.seed, (own,), candidate.blocks), machine)
        for own in (nest, moved)
    )
    return replace(moved, cycles=nest.cycles + after - before)


def _estimated(candidate: Candidate, machine: Machine) -> float:
    """The estimate of a candidate's only nest, cached for machines that ship with tilewright."""

    def find() -> float:
        (nest,) = candidate.nests
        bound = {**candidate.values, **nest.factors}
        return float(estimate(nest.structure.staged, machine, bound).cycles.min())

    return _KEPT.value(candidate.key(machine), float, find) if keeps(machine) else find()


MovedInside = Callable[[Candidate, Form, Form], Bordered | None]
"""Moves a candidate's result from its own form (second argument) into another one (third)."""


@dataclass(frozen=True)
class JoinedPart:
    """A value that is copied into the `whole` one, where it lies in `form`."""

    value: int
    whole: int
    form: Form


def joined_parts(op: Op, operands: Sequence[Located], made: Located) -> Iterator[JoinedPart]:
    """Operands that an operator concatenates or interleaves to fill all of its result."""
    if len(operands) < 2:  # a reshape of one operand need not have a definition
        return
    addends, whole = op.definitions[-1].addends, made.form
    filled = sum(prod(addend.definition.extents) for addend in addends)
    if len(op.definitions) > 1 or len(addends) == 1 or filled != prod(whole.shape):
        return
    for addend in addends:
        own, plain = addend.definition, straight(addend.definition.extents)
        form = form_of_part(own.result, own.extents, whole)
        if form and (own.body, own.operands) == ("x0", (plain,)):
            yield JoinedPart(operands[addend.reads[0]].value, made.value, form)


def form_of_part(access: Access, extents: Shape, whole: Form) -> Form | None:
    """The form, within a `whole` one, of the elements that an access reaches; None if there is
    none.

    Where neighbours are several steps apart along an axis, the elements between them count as
    border of the next inner dimension.

    >>> from tilewright.network.planning.form import row_major
    >>> odd_rows = Access((8, 3), (((0, 2),), ((1, 1),)), (1, 0))
    >>> found = form_of_part(odd_rows, (4, 3), row_major((8, 3)))
    >>> [d.extent for d in found.dims], found.before
    ([4, 6], (0, 3))
    """
    steps = [dict(place).get(axis, 0) for axis, place in enumerate(access.terms)]
    if min(steps) < 1 or any(len(place) > 1 for place in access.terms) or not is_unblocked(whole):
        return None
    dims, before = list[StoredDim](), [0] * len(extents)
    beside, place = 1, 0
    for d in whole.dims:
        step = steps[d.axis]
        place = place * d.extent + whole.before[d.axis] + access.offsets[d.axis]
        before[d.axis], place = divmod(place, step)
        if d.extent * beside % step:
            return None
        dims.append(StoredDim(d.axis, 1, d.extent * beside // step))
        beside = step
    return Form(extents, tuple(dims), tuple(before)) if beside == 1 else None


def parts_written(
    memory: PlannedMemory, parts: Iterable[JoinedPart], inside: MovedInside
) -> dict[int, int]:
    """Let products write their parts in place; returns the whole value for each part dropped."""
    found: dict[int, int] = {}
    for part in parts:
        using = [d for d in memory.drafts if part.value in (v for _, v in d.arguments)]
        if len(using) != 2 or memory.values[part.value].role != "scratch":
            continue
        maker, copy = using
        copies = copy.work == "layout" and copy.arguments[-1][1] == part.whole
        if copies and (written := _writing(memory, maker, part, inside)):
            memory.drafts[memory.drafts.index(maker)] = written
            memory.drafts.remove(copy)
            found[part.value] = part.whole
    return found


def _writing(
    memory: PlannedMemory, maker: Draft, part: JoinedPart, inside: MovedInside
) -> Draft | None:
    """The draft of a product that writes its result as a part; None where an epilogue operand of
    the same size would have to lie elsewhere.
    """
    candidate = maker.scheduled.candidate if maker.scheduled else None
    (name, written), arguments = maker.arguments[-1], maker.arguments[:-1]
    if candidate is None or written != part.value:
        return None
    own = memory.values[part.value].form
    found = inside(candidate, own, part.form)
    if found is None:
        return None
    beside = [memory.values[v].form for _, v in arguments[len(found.seed.operands) :]]
    if any(form.shape == own.shape and form != found.beside for form in beside):
        return None
    scheduled = Scheduled(found.cycles, found)
    return replace(maker, arguments=(*arguments, (name, part.whole)), scheduled=scheduled)


def rows_written(memory: PlannedMemory, machine: Machine) -> dict[int, int]:
    """Let products whose results are runs of pixels write row by row inside a border, instead of a
    copy; returns the bordered value for each value dropped.
    """
    found: dict[int, int] = {}
    for copy in [d for d in memory.drafts if d.work == "layout"]:
        (_, plain), (_, inside) = copy.arguments[0], copy.arguments[-1]
        using = [d for d in memory.drafts if plain in (v for _, v in d.arguments)]
        if len(using) != 2 or using[1] is not copy or memory.values[plain].role != "scratch":
            continue
        maker, op = using[0], copy.in_memory
        candidate = maker.scheduled.candidate if maker.scheduled else None
        form = memory.values[inside].form
        if not candidate or op is None:
            continue
        made = _by_rows(candidate, op, form, machine)
        size = memory.values[plain].size_bytes
        copied = candidate.cycles + moving_cycles(machine, size, size, 1)
        if made and made.cycles < copied:
            arguments = (*maker.arguments[:-1], (maker.arguments[-1][0], inside))
            place, scheduled = memory.drafts.index(maker), Scheduled(made.cycles, made)
            memory.drafts[place] = replace(maker, arguments=arguments, scheduled=scheduled)
            memory.drafts.remove(copy)
            found[plain] = inside
    return found


def _by_rows(candidate: Candidate, copy: InMemory, form: Form, machine: Machine) -> Bordered | None:
    """The candidate with one row of pixels per tile, written where a copy puts it, or None."""
    op, rows = candidate.op.convolution, len(copy.extents) == len(copy.result.shape) == 2
    own = straight(copy.extents)
    plain = copy.body == "x0" and copy.operands == (own,) and copy.result.terms == own.terms
    if op is None or type(candidate) is not Candidate or not (rows and plain) or op.batch > 1:
        return None
    (nest,), result = candidate.nests, candidate.seed.result
    staged, width = nest.structure.staged, op.out_width
    puts = [s for s in walk(staged.body) if isinstance(s, Transfer) and s.direction == "put"]
    made = [t for t in staged.tensors if result in (t.name, t.storage)]
    factor = nest.structure.decisions.splits.get("pixel", "")
    is_rows = copy.extents == (op.out_height, width * op.out_channels)
    if len(puts) != 1 or len(made) != 1 or made[0].name == result or not is_rows:
        return None
    *_, pixels, channels = puts[0].ranges
    first = {s.var: 0 for s in walk(staged.body) if isinstance(s, For)}
    whole = evaluate(channels.extent, {**candidate.values, **nest.factors, **first})
    if nest.factors.get(factor, 0) < width or whole != op.out_channels:
        return None
    (row, begin), (height, pitch) = copy.result.offsets, copy.result.shape
    place = Range(substitute(pixels.start, {factor: 1}) + row, Const(1))
    put = replace(
        puts[0], tensor=result, ranges=(place, Range(Const(begin), Const(copy.extents[1])))
    )
    shape = (Const(height), Const(pitch))
    tensor = replace(made[0], name=result, storage="", dims=("rows", "elements"), shape=shape)
    moved = replace(
        staged,
        tensors=tuple(tensor if t is made[0] else t for t in staged.tensors),
        body=rewrite(staged.body, lambda s: (put,) if s is puts[0] else None),
    )
    factors, text = {**nest.factors, factor: width}, f"rows in {form}"
    by_rows = _priced_anew(candidate, nest, moved, text, machine, factors)
    return Bordered(candidate.op, candidate.seed, (by_rows,), candidate.blocks, form=form)
