"""Structures ready to be priced: what extents do not decide is made once and kept.

In: a machine, a seed and one of its spaces. Out: the space's legal structures, and of each what its
pricing takes. An entry of the cache holds those of one space, as Python pickles them. Its key is a
digest of all that decides them: the space with the layouts of its tensors, the rules by which the
machine's programs are lowered, and the sources of tilewright; no number of the machine is among
them. An installation brings some, so that the first search from an empty cache finds them, too.
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
    """How programs of a nest come to be priced: the name of the function that gives the passes of
    `staging`, `chains` as in `Lowering`, the names of the loops that nests share where threads
    divide them, and of the tensors that are made ahead of all calls; `beside` as of `Prepared`,
    `places` as of `take_apart`.
    """

    staging: str
    chains: ChainRules | None
    together: tuple[str, ...] | None
    made: tuple[str, ...]
    beside: Expr
    places: bool


class _Kept(NamedTuple):
    """All of a structure that takes time to find; None where it is not priced, or by one alike."""

    steps: tuple[Step, ...]
    staged: Program
    aligned: tuple[Expr, ...]
    alike: str
    prepared: Prepared | None


_PREPARED: dict[tuple[Structure, _Pricing], Prepared] = {}
"""Structures that this process has made or read."""


def keeps(machine: Machine) -> bool:
    """True if the seeds and the machine's prices ship with tilewright."""
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
    priced = {*{s.alike or s: s for s in reversed(found)}.values()}  # the first of those alike
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
    found = structure_on(machine, space, kept.steps, dtype)
    vars(found).setdefault("staged", kept.staged)
    vars(found).setdefault("aligned", kept.aligned)
    vars(found).setdefault("alike", kept.alike)
    if kept.prepared is not None:
        _PREPARED.setdefault((found, pricing), kept.prepared)
    return found


def _priceable(structure: Structure, pricing: _Pricing) -> Prepared | None:
    with suppress(ProgramError):  # raised again where one of its tiles is priced
        return _prepared(structure, pricing)
    return None


def prepared_of(structure: Structure, seed: Seed, machine: Machine) -> Prepared:
    """A structure as it is priced; tensors that the seed makes ahead of all calls are packed as
    constants are. Raises ProgramError as `take_apart` does.
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
    """Elements of tensors that are not the nest's own and that products of other nests touch in a
    turn of the loops that it shares with them. What is `made` ahead they read once a turn: it
    displaces what the nest reuses in the next turn, not what they hand to it in the same one.
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
    """The name of the memory that a tensor lies in."""
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
    """A digest of all that decides the structures of a nest and their pricing."""
    nest, rules = _text(space, own_layouts(seed, space)), repr(rules_of(machine))
    return digest(own_sources(), rules, repr(_pricing(seed, space, machine)), nest, dtype)


@cache
def _text(*own: object) -> str:
    return repr(own)
