"""Structures ready to be priced: everything independent of extents is computed once and kept.

In: a machine, a seed and one of its spaces. Out: the space's legal structures, and the `Prepared`
nest of each. A cache entry is the pickle of one space's structures. Its key digests everything that
determines them: the space with the layouts of its tensors, the machine's rules of lowering, and the
sources of tilewright, but none of the machine's numbers. An installation ships some entries, which
serve the first search on an empty cache.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, cast

from tilewright.common.cache import CacheStore
from tilewright.common.digest import digest, own_sources
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Expr, product, total
from tilewright.cost.chain import Prepared, take_apart
from tilewright.cost.prices import prices_of
from tilewright.ir.chains import ChainRules
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.machine.family import find_family
from tilewright.passes.lowering import lowering_of
from tilewright.schedule.structures import Structure, own_layouts
from tilewright.seeds.nest import Nest, Use
from tilewright.seeds.space import Seed, Space, users_own
from tilewright.seeds.steps import Step
from tilewright.tune.legal import rules_of, structure_on, structures_on

_KEPT = CacheStore("structures")


@dataclass(frozen=True)
class _Pricing:
    """How programs of a nest are prepared for pricing: the name of the function that returns the
    `staging` passes, `chains` as in `Lowering`, the loops that nests share, if threads divide them
    (`together`), the tensors `made` ahead of all calls, `beside` as in `Prepared` and `places` as
    in `take_apart`.
    """

    staging: str
    chains: ChainRules | None
    together: tuple[str, ...] | None
    made: tuple[str, ...]
    beside: Expr
    places: bool


class _Kept(NamedTuple):
    """The slow parts of a structure; `prepared` is None if unpriceable or like an earlier one."""

    steps: tuple[Step, ...]
    staged: Program
    aligned: tuple[Expr, ...]
    alike: str
    prepared: Prepared | None


_PREPARED: dict[tuple[Structure, _Pricing], Prepared] = {}
"""Nests prepared by this process or read from the cache."""


def keeps(machine: Machine) -> bool:
    """True if the seeds and the machine's prices ship with tilewright: its sources cover them."""
    own = __name__.partition(".")[0]
    shipped = not machine.target or find_family(machine.target).package.partition(".")[0] == own
    return shipped and not users_own()


def ready_structures(
    machine: Machine, seed: Seed, space: Space, dtype: str
) -> tuple[Structure, ...]:
    """`legal.structures_on`, from the cache where it has them."""
    if not keeps(machine):
        return structures_on(machine, seed, space, dtype)
    key = _key(machine, seed, space, dtype)
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = _found(machine, seed, space, dtype, key)
    return found


_KNOWN: dict[str, tuple[Structure, ...]] = {}


def _found(
    machine: Machine, seed: Seed, space: Space, dtype: str, key: str
) -> tuple[Structure, ...]:
    pricing, content = _pricing(seed, space, machine), _KEPT.recall(key)
    if content is not None:
        kept = cast(list[_Kept], pickle.loads(content))
        return tuple(_recalled(own, pricing, machine, space, dtype) for own in kept)
    found = structures_on(machine, seed, space, dtype)
    priced = {*{s.alike or s: s for s in reversed(found)}.values()}  # the first of each `alike`
    made = [
        _Kept(
            s.steps, s.staged, s.aligned, s.alike, _priceable(s, pricing) if s in priced else None
        )
        for s in found
    ]
    _KEPT.remember(key, pickle.dumps(made, pickle.HIGHEST_PROTOCOL))
    return found


def _recalled(
    kept: _Kept, pricing: _Pricing, machine: Machine, space: Space, dtype: str
) -> Structure:
    found = structure_on(machine, space, kept.steps, dtype)  # its cached properties are filled in
    vars(found).setdefault("staged", kept.staged)
    vars(found).setdefault("aligned", kept.aligned)
    vars(found).setdefault("alike", kept.alike)
    if kept.prepared is not None:
        _PREPARED.setdefault((found, pricing), kept.prepared)
    return found


def _priceable(structure: Structure, pricing: _Pricing) -> Prepared | None:
    with suppress(ProgramError):  # raised again when one of its tiles is priced
        return _prepared(structure, pricing)
    return None


def prepared_of(structure: Structure, seed: Seed, machine: Machine) -> Prepared:
    """A structure prepared for pricing. Tensors that the seed makes ahead of all calls count as
    constants, packed beforehand. Raises ProgramError as `take_apart` does.
    """
    return _prepared(structure, _pricing(seed, structure.space, machine))


def _pricing(seed: Seed, space: Space, machine: Machine) -> _Pricing:
    made = sorted(space.nest.output.tensor.name for space in seed.spaces if space.ahead)
    together = seed.together if machine.thread_count > 1 else None
    lowering = lowering_of(machine)
    staging = f"{lowering.staging.__module__}.{lowering.staging.__qualname__}"
    beside = _elements_beside(space.nest, seed, made)
    places = prices_of(machine).told_by_place
    return _Pricing(staging, lowering.chains, together, tuple(made), beside, places)


def _elements_beside(nest: Nest, seed: Seed, made: Sequence[str]) -> Expr:
    """Elements of other nests' tensors that their products touch in one turn of the shared loops.
    An operand `made` ahead of a nest that feeds this one is left out: read once a turn, it
    displaces what this nest reuses in the next turn, not what it is handed in the same one.
    """
    read = {use.tensor.name for use in nest.inputs}
    turn = {a.name for a in nest.axes}.intersection(seed.together)
    products = (s.nest for s in seed.spaces if isinstance(s.nest.primitive, MatrixProduct))
    return total(
        product(a.extent for a in other.axes if a.name in use.axes() - turn)
        for other in products
        if turn and other is not nest
        for use in other.uses
        if _place(use) not in {*read, nest.output.tensor.name}
        and not (_place(other.output) in read and use.tensor.name in made)
    )


def _place(use: Use) -> str:
    """Name of the storage that a tensor lies in, its own or another tensor's."""
    return use.tensor.storage or use.tensor.name


def _prepared(structure: Structure, pricing: _Pricing) -> Prepared:
    found = _PREPARED.get((structure, pricing))
    if found is None:
        found = _PREPARED[structure, pricing] = _taken_apart(structure, pricing)
    return found


def _taken_apart(structure: Structure, pricing: _Pricing) -> Prepared:
    staged, made = structure.staged, pricing.made
    if not structure.space.ahead and any(t.name in made for t in staged.tensors):
        kinds = ("constant" if t.name in made else t.kind for t in staged.tensors)
        tensors = (replace(t, kind=k) for t, k in zip(staged.tensors, kinds, strict=True))
        staged = replace(staged, tensors=tuple(tensors))
    if structure.unmarked is not None:
        return _prepared(structure.unmarked, pricing).marked(staged)
    chains, together = pricing.chains, pricing.together
    found = take_apart(staged, chains=chains, together=together, places=pricing.places)
    return replace(found, beside=pricing.beside)


def _key(machine: Machine, seed: Seed, space: Space, dtype: str) -> str:
    """Digest of everything that determines a nest's structures and their pricing."""
    nest, rules = _text(space, own_layouts(seed, space)), repr(rules_of(machine))
    return digest(own_sources(), rules, repr(_pricing(seed, space, machine)), nest, dtype)


@cache
def _text(*own: object) -> str:
    return repr(own)
