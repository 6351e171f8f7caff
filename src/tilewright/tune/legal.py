"""Legality on a machine: types and extents of operators, structures of spaces.

In: an operator, or a nest's space, and a machine. Out: an error for an operator that the machine
cannot compute; the space's structures, lowered by the machine's rules and staged by its passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from tilewright.common.dtypes import F64
from tilewright.common.errors import CapacityError, ScheduleError, ShapeError
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.passes.lowering import lowering_of
from tilewright.schedule.decisions import Rules
from tilewright.schedule.structures import Structure, structure, structures
from tilewright.seeds.space import Seed, Space
from tilewright.seeds.steps import Step

_ALONG_TERMS = {"n": "k", "k": "n"}


def rules_of(machine: Machine) -> Rules:
    """The machine's rules for schedules."""
    lowering = lowering_of(machine)
    return Rules(
        lowering.partial_blocks, in_place=lowering.in_place, along_terms=lowering.along_terms
    )


def require_types(op: Op, machine: Machine) -> None:
    """Raise CapacityError unless the machine computes with the type of the operator's sums. Cores
    that execute instructions on doubles map integers, too, with those that compute addresses.
    """
    known, sums = machine.core.types, op.numerics.units.stored
    by_addresses = machine.core.instruction_table is not None and F64.name in known
    own, wanted = op.in_memory, sums.name
    of_addresses = own is not None and own.gather is None and not sums.is_float
    if wanted not in known and not (by_addresses and of_addresses):
        offered = "".join(f"--dtype {name}, or " for name in _accepted_types(op, known)[:1])
        raise CapacityError(
            f"machine {machine.name!r} computes {' and '.join(known)}; "
            f"{op.describe()} has sums of {wanted}",
            fix=f"{offered}a machine that computes {wanted}",
        )


def _accepted_types(op: Op, known: Sequence[str]) -> list[str]:
    """Element types that the operator accepts: one for all, or OPERANDS:SUMS."""
    pairs = (f"{operands}:{sums}" for operands, sums in permutations(known, 2))
    return [name for name in (*known, *pairs) if _takes(op, name)]


def _takes(op: Op, dtype: str) -> bool:
    try:
        replace(op, dtype=dtype)  # type: ignore[type-var]  # operators are dataclasses
    except ShapeError:
        return False
    return True


def require_multiples(op: Op, machine: Machine) -> None:
    """Raise ShapeError unless a product's extents are the machine's required multiples."""
    product = op.matrix_product
    if product is None:
        return
    lowering, extents = lowering_of(machine), {"m": product.m, "n": product.n, "k": product.k}
    multiples = lowering.multiples
    if lowering.along_terms and product.transpose_b:
        multiples = {_ALONG_TERMS.get(letter, letter): of for letter, of in multiples.items()}
    if product.beta and lowering.update_terms:
        multiples = {letter: of for letter, of in multiples.items() if letter != "k"}
    for letter, multiple in multiples.items():
        if extents[letter] % multiple:
            padded = -(-extents[letter] // multiple) * multiple
            raise ShapeError(
                f"machine {machine.name!r} multiplies over multiples of {multiple} of {letter}; "
                f"{op.describe()} has {extents[letter]}",
                fix=f"pad with zeros to --{letter} {padded}",
            )


def require_updates(op: Op, machine: Machine) -> None:
    """Raise ScheduleError for a product added to integers (beta != 0) that no code computes."""
    product = op.matrix_product
    if product is None or product.beta == 0 or op.numerics.is_float:
        return
    most = lowering_of(machine).update_terms
    if most == 0:
        raise ScheduleError(
            f"machine {machine.name!r} has no code that adds a product to integers, "
            f"{op.describe()} of {op.dtype}",
            fix="take beta 0, and add with an operator of its own",
        )
    if product.k > most:
        raise ScheduleError(
            f"machine {machine.name!r} adds products over k of up to {most} to integers; "
            f"{op.describe()} has {product.k}",
            fix=f"add one after the other with --k {most}",
        )


def structures_on(machine: Machine, seed: Seed, space: Space, dtype: str) -> tuple[Structure, ...]:
    """The structures of one nest that are legal on the machine."""
    return structures(seed, space, dtype, lowering_of(machine).staging, rules_of(machine))


def structure_on(machine: Machine, space: Space, steps: tuple[Step, ...], dtype: str) -> Structure:
    """The structure of one nest for `steps` that are known to be legal on the machine."""
    return structure(space, steps, dtype, lowering_of(machine).staging, rules_of(machine))
