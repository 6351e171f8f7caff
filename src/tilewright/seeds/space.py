"""Schedule spaces as values, and the registry of seeds (swATOP 4.2, 4.3).

A `Space` lists, choice by choice, the schedule steps a nest may take; their product is the discrete
part of the space. Split factors and copies are variables: the tuner prices all values at once. A
`Seed` joins the spaces of its nests with the layouts of the tensors they share.

>>> from tilewright.seeds.nest import axis, nest, tensor
>>> row, col = axis("row", 64), axis("col", 64)
>>> out, inp = tensor("y", "output", rows=64, cols=64), tensor("x", "input", rows=64, cols=64)
>>> copy = nest("copy", "copy", (row, col), {"p": row, "q": col}, out.on("row, col"),
...             inp.on("row, col"))
>>> space = Space(copy).split(row, col).reorder((row, col), (col, row))
>>> [[len(alternative) for alternative in choice] for choice in space.choices]
[[2], [1, 1]]

`with_epilogue` has elementwise work done on the finished tile of a product, before it is put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain, combinations, product
from types import MappingProxyType
from typing import Any, Protocol

from tilewright.common.errors import ScheduleError
from tilewright.common.plugins import registered
from tilewright.ir.primitives import Map, WinogradTransform
from tilewright.ops import Op
from tilewright.ops.op import CONTRACTIONS
from tilewright.seeds.nest import Axis, Nest, TensorSpec, TileEpilogue, Use
from tilewright.seeds.steps import (
    IN_PLACE,
    Fuse,
    Layout,
    Pad,
    Reorder,
    Skew,
    Split,
    Spread,
    Stage,
    Step,
    Vectorize,
    Walk,
    Whole,
    print_step,
)

Dims = tuple[str, ...]
"""The dimensions of the result along which an operand varies; all of them: stored as the result."""


def operand_name(number: int) -> str:
    """Tensor name of an epilogue's operand number `number`."""
    return f"beside{number}"


def with_epilogue(seed: Seed, expression: str, operands: tuple[Dims, ...]) -> Seed | None:
    """The seed with an expression over the finished result (x0) and these operands. None unless its
    last nest accumulates into the result itself or transforms tiles to it.
    """
    *before, last = seed.spaces
    nest = last.nest
    output = nest.result
    finishes = nest.primitive.accumulates or isinstance(nest.primitive, WinogradTransform)
    stored = output.tensor.storage or output.tensor.name
    if stored != seed.result or not finishes or nest.epilogue:
        return None
    known = {"group", *(name for name, _ in output.tensor.dims)}
    if any(not known.issuperset(dims) for dims in operands):
        return None  # images in blocks or pixels: what lies along them has no such dimension
    uses = tuple(_use(nest, operand_name(i), dims) for i, dims in enumerate(operands))
    epilogue = TileEpilogue(Map(expression), (output, *uses))
    space = replace(last, nest=replace(nest, epilogue=epilogue))
    whole = [u.tensor.name for u in uses if len(u.indices) == len(output.indices)]
    return replace(
        seed,
        tensors=(*seed.tensors, *(u.tensor for u in uses)),
        spaces=(*before, space),
        layouts=seed.layouts_beside(whole),
    )


def _use(nest: Nest, name: str, dims: Dims) -> Use:
    spec = nest.result.tensor
    pairs = list(zip(spec.dims, nest.result.indices, strict=True))
    kept = [(dim, index) for dim, index in pairs if dim[0] in dims]
    tensor = TensorSpec(name, "input", tuple(dim for dim, _ in kept), operand=0)
    return Use(tensor, tuple(index for _, index in kept))


Alternative = tuple[Step, ...]
Choice = tuple[Alternative, ...]


def tile_factor(axis: str) -> str:
    """Name of the factor variable of a split axis."""
    return f"{axis}_tile"


@dataclass(frozen=True)
class FactorLimits:
    """Limits on split factors: tiles up to `largest`, and the `most` largest values per axis.
    Between n and 2n tiles, `between` tile counts are tried.
    """

    largest: int = 1024
    most: int = 4
    between: int = 2


@dataclass(frozen=True)
class Space:
    """The schedules of one nest: one alternative of every choice, any value of every factor.

    `doubled` names tensors that may be double-buffered; `addressed` those that may be used in
    place, where cores address main memory. A nest on constants alone may run `ahead` of all calls,
    at no cost.
    """

    nest: Nest
    choices: tuple[Choice, ...] = ()
    doubled: tuple[str, ...] = ()
    addressed: tuple[str, ...] = ()
    limits: FactorLimits = FactorLimits()
    ahead: bool = False

    def choose(self, *alternatives: Alternative) -> Space:
        """Add a choice among these alternatives, each a sequence of steps."""
        return replace(self, choices=(*self.choices, alternatives))

    def split(self, *axes: Axis | str) -> Space:
        """Split each axis by a factor variable of its own; all valid factors are tried."""
        return self.choose(tuple(Split(a, tile_factor(a)) for a in map(_name, axes)))

    def whole(self, *axes: Axis | str) -> Space:
        """Take each axis whole, rounded up to a size that the primitive accepts."""
        return self.choose(tuple(Whole(_name(a)) for a in axes))

    def fuse(self, axis: Axis | str, into: str) -> Space:
        """Merge the inner part of `axis` into a dimension of the primitive."""
        return self.choose((Fuse(_name(axis), into),))

    def pad(self, axis: Axis | str) -> Space:
        """Round the last tile of `axis` up to a size that the primitive accepts."""
        return self.choose((Pad(_name(axis)),))

    def skew(self, axis: Axis | str, by: Axis | str, over: str) -> Space:
        """Run the inner part of `axis` as a loop `over` its sum with `by`, outside that loop."""
        return self.choose((Skew(_name(axis), _name(by), over),))

    def walk(self, axis: Axis | str, over: str) -> Space:
        """Run each core's part of a spread axis as a loop `over`."""
        return self.choose((Walk(_name(axis), over),))

    def reorder(self, *orders: tuple[Axis | str, ...]) -> Space:
        """Loop orders to try, outermost first."""
        return self.choose(*((Reorder(tuple(map(_name, order))),) for order in orders))

    def vectorize(self, *letters: str) -> Space:
        """Dimensions of the matrix product to run along the vector lanes."""
        return self.choose(*((Vectorize(letter),) for letter in letters))

    def spread(self, axis: Axis | str, over: str) -> Space:
        """Distribute the inner part of `axis` over mesh rows or columns (k of gemm: both)."""
        return self.choose((Spread(_name(axis), over),))

    def stage(self, tensor: TensorSpec, *places: Axis | str | None) -> Space:
        """Loops to try transfers outside of; None: as far in as the region changes."""
        alternatives = ((Stage(tensor.name, _name(p)),) if p else () for p in places)
        return self.choose(*alternatives)

    def prefetch(self, *tensors: TensorSpec) -> Space:
        """Let each of these tensors be double-buffered, independently."""
        return replace(self, doubled=(*self.doubled, *(t.name for t in tensors)))

    def in_place(self, *tensors: TensorSpec) -> Space:
        """Let each of these tensors be used in place, independently."""
        return replace(self, addressed=(*self.addressed, *(t.name for t in tensors)))

    def once(self) -> Space:
        """Run the nest once, ahead of all calls."""
        return replace(self, ahead=True)

    def limit(self, *, largest: int, most: int, between: int = 2) -> Space:
        """Bound the split factors."""
        return replace(self, limits=FactorLimits(largest, most, between))

    def combinations(self, *, in_place: bool = False) -> Iterator[tuple[Step, ...]]:
        """Every combination of alternatives, as one list of steps; with `in_place`, each also with
        every subset of `addressed` used in place.
        """
        for chosen in product(*self.choices):
            steps = tuple(step for alternative in chosen for step in alternative)
            for names in _subsets(self.addressed if in_place else ()):
                yield _placed(steps, names)


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All subsets, by size; the empty one first."""
    return chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))


def _placed(steps: tuple[Step, ...], tensors: tuple[str, ...]) -> tuple[Step, ...]:
    """The steps with these tensors used in place instead of staged."""
    kept = (s for s in steps if not (isinstance(s, Stage) and s.tensor in tensors))
    return (*kept, *(Stage(tensor, IN_PLACE) for tensor in tensors))


def _name(loop: Axis | str) -> str:
    """Name of a loop: its axis' name, or the name that a step gave it."""
    return loop if isinstance(loop, str) else loop.name


Roundings = Callable[[Mapping[str, int]], float]
"""Maps the operator's extents to the round-off units by which a result may deviate."""
Blocks = Callable[[Mapping[str, int]], Sequence[Mapping[str, int]]]
"""Maps the operator's extents to the block sizes to try."""


@dataclass(frozen=True)
class Seed:
    """One way to compute an operator: spaces of nests that run in order, and joint layouts of their
    tensors.

    `layouts` is a product of choices; each alternative fixes the storage order of one tensor, or of
    several that share memory. `operands` and `result` name the tensors of the operator itself.
    Neighbouring nests share the outermost loops named in `together`; `blocks` lists the sizes of
    their iterations as values of further extents, tried in turn for all nests. `arrange` replaces
    the interface's arrangement of operands: the host may store an element several times, in the
    order of loading. `roundings` gives the deviation of a result where it differs from a direct
    sum's (`tune.accuracy`). Raises ScheduleError for unknown tensors or dimensions.
    """

    name: str
    tensors: tuple[TensorSpec, ...]
    spaces: tuple[Space, ...]
    layouts: tuple[tuple[tuple[Layout, ...], ...], ...]
    operands: tuple[str, ...]
    result: str
    together: tuple[str, ...] = ()
    blocks: Blocks = lambda values: ({},)
    roundings: Roundings | None = None
    arrange: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        every = (*self.tensors, *(t for space in self.spaces for t in space.nest.kept))
        dims = {t.name: tuple(d for d, _ in t.dims) for t in every}
        used = [use.tensor.name for space in self.spaces for use in space.nest.every_use]
        layouts = [x for choice in self.layouts for chosen in choice for x in chosen]
        named = (*used, *self.operands, self.result, *(x.tensor for x in layouts))
        for name in named:
            if name not in dims:
                known = ", ".join(dims)
                raise ScheduleError(
                    f"seed {self.name!r} has no tensor {name!r}", fix=f"its tensors are {known}"
                )
        for x in layouts:
            if sorted(x.dims) != sorted(dims[x.tensor]):
                raise ScheduleError(
                    f"seed {self.name!r}: {print_step(x)}: the dimensions of {x.tensor!r} are "
                    f"{', '.join(dims[x.tensor])}"
                )

    def layout_combinations(self) -> Iterator[tuple[Layout, ...]]:
        """Every joint layout of all tensors."""
        for chosen in product(*self.layouts):
            yield tuple(layout for alternative in chosen for layout in alternative)

    def layouts_beside(self, names: Sequence[str]) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
        """The joint layouts, with the tensors `names` stored as the result is."""

        def extended(chosen: tuple[Layout, ...]) -> tuple[Layout, ...]:
            orders = [x.dims for x in chosen if x.tensor == self.result]
            return (*chosen, *(Layout(name, order) for order in orders for name in names))

        return tuple(tuple(map(extended, choice)) for choice in self.layouts)


def layout(tensor: TensorSpec, *orders: tuple[str, ...]) -> tuple[tuple[Layout, ...], ...]:
    """Storage orders of one tensor to try."""
    return tuple((Layout(tensor.name, order),) for order in orders)


class SeedRule(Protocol):
    """Function from an operator to its seed, as registered."""

    def __call__(self, op: Any) -> Seed | None:
        """The seed for `op`, or None where this way does not apply."""


@dataclass(frozen=True)
class NestInterface:
    """Interface shared by all seeds of one kind of operator.

    `parameters` gives the values of the extents that seeds name; `arrange` brings operands into the
    tensors' logical dimensions; `restore` brings the result tensor back into the operator's shape.
    """

    kind: str
    parameters: Callable[[Any], dict[str, int]]
    arrange: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
    restore: Callable[[Any, Any], Any]


GROUP = "tilewright.seeds"
"""The entry points that name modules with seeds."""
INTERFACES: dict[str, NestInterface] = {}


@dataclass(frozen=True)
class _Registered:
    """A rule and the conditions under which it applies (`seed`)."""

    rule: SeedRule
    baseline: bool
    staged: bool
    whole: bool


_RULES: dict[tuple[str, str], _Registered] = {}
_ADDRESSED: dict[tuple[str, str], _Registered] = {}
"""Rules by kind and name: for all machines, and for those that address main memory."""


def interface(kind: str) -> NestInterface:
    """The interface of a kind of operator. Raises ScheduleError, which lists the known kinds."""
    if kind not in INTERFACES:
        known = ", ".join(sorted(INTERFACES))
        raise ScheduleError(f"no seed computes {kind!r}", fix=f"seeds exist for {known}")
    return INTERFACES[kind]


def seed(
    kind: str,
    *,
    name: str,
    baseline: bool = False,
    addressed: bool = False,
    staged: bool = False,
    whole: bool = False,
) -> Callable[[SeedRule], SeedRule]:
    """Register a function from operator to `Seed` under an algorithm name.

    A `baseline` is used only when named. An `addressed` seed is for machines whose cores address
    main memory, and replaces the seed of its name there; a `staged` seed is for all others. A
    `whole` seed is for machines whose operations take any extent. Raises ScheduleError for a kind
    of operator without an interface, and for a name already taken.
    """
    interface(kind)

    def register(rule: SeedRule) -> SeedRule:
        rules = _ADDRESSED if addressed else _RULES
        if (kind, name) in rules:
            raise ScheduleError(f"two seeds for {kind} are named {name!r}")
        rules[kind, name] = _Registered(rule, baseline, staged, whole)
        return rule

    return register


def unregister(kind: str, name: str) -> None:
    """Forget a seed."""
    _RULES.pop((kind, name), None)
    _ADDRESSED.pop((kind, name), None)


def users_own() -> bool:
    """True if seeds are registered from outside the tilewright package."""
    package = __name__.partition(".")[0]
    rules = (own.rule for own in (*_RULES.values(), *_ADDRESSED.values()))
    return any(getattr(rule, "__module__", "").partition(".")[0] != package for rule in rules)


@cache
def _load_registered() -> None:
    """Import the modules that packages declare; each registers its seeds."""
    for entry in registered(GROUP, "seed module").values():
        entry.load()


def seeds_for(
    op: Op, only: str | None = None, *, addressed: bool = False, whole: bool = False
) -> list[Seed]:
    """Every registered seed of `op` except baselines, or the one named `only`.

    `addressed`: cores address main memory; `whole`: operations take any extent.
    """
    interface(op.kind)
    _load_registered()
    own = _RULES | _ADDRESSED if addressed else _RULES
    rules = {
        name: found
        for (kind, name), found in own.items()
        if kind == op.kind and not (addressed and found.staged) and (whole or not found.whole)
    }
    if only is not None and only not in rules:
        raise ScheduleError(
            f"{op.kind} has no algorithm {only!r}", fix=f"choose one of {', '.join(rules)}"
        )
    wanted = [only] if only else [name for name, own in rules.items() if not own.baseline]
    found = {name: rules[name].rule(op) for name in wanted}
    applicable = [s for s in found.values() if s is not None]
    for name, s in found.items():
        if s is not None and s.name != name:
            raise ScheduleError(f"the seed registered as {name!r} calls itself {s.name!r}")
    if not applicable:
        raise ScheduleError(f"{only or 'no algorithm'} does not apply to {op.describe()}")
    return applicable


def arranged(op: Op, seed: Seed, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands in the logical dimensions of the seed's tensors."""
    return (seed.arrange or interface(op.kind).arrange)(op, operands)


def takes_whole_depth(kind: str, name: str) -> bool:
    """True if a seed takes the whole depth of products at once."""
    return kind in CONTRACTIONS and (kind, name) in _RULES and _RULES[kind, name].whole


@lru_cache(maxsize=1 << 10)
def parameters(op: Op) -> Mapping[str, int]:
    """Values of the extents that the operator's seeds name."""
    return MappingProxyType({**interface(op.kind).parameters(op)})


def bindings(op: Op, seed: Seed) -> tuple[Mapping[str, int], ...]:
    """The extents that the seed names, once for each of its block sizes."""
    values = parameters(op)
    return tuple({**values, **sizes} for sizes in seed.blocks(values))
