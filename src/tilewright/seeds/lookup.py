"""The seed of table look-ups: one loop over the integers, the whole table, all tensors in place."""

from __future__ import annotations

from functools import cache
from typing import Any

from tilewright.ops.lookup import Lookup
from tilewright.seeds.nest import nest, tensor
from tilewright.seeds.space import INTERFACES, NestInterface, Seed, Space, seed
from tilewright.seeds.steps import IN_PLACE, Stage


def _parameters(op: Lookup) -> dict[str, int]:
    return {"n": op.n, "entries": op.entries}


def _in_a_row(op: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    del op
    integers, table = operands
    return integers.reshape(-1), table


INTERFACES["lookup"] = NestInterface(
    "lookup", _parameters, _in_a_row, lambda op, y: y.reshape(op.out_shape)
)


@seed("lookup", name="lookup")
def lookup(op: Lookup) -> Seed:
    """The table element for each integer over 2 ** `shift`."""
    return _lookup(op.shift)


@cache
def _lookup(shift: int) -> Seed:
    y, x = tensor("y", "output", "i=n"), tensor("x", "input", "i=n", operand=0)
    table = tensor("table", "input", "e=entries", operand=1)
    uses = y.on("i"), x.on("i"), table.on("e")
    body = nest("lookup", "lookup", "i e", {"p": "i", "k": "e"}, *uses, inner="e", shift=shift)
    space = Space(body).split("i").choose(tuple(Stage(t.name, IN_PLACE) for t in (y, x, table)))
    space = space.limit(largest=1 << 31, most=1)
    return Seed("lookup", (y, x, table), (space,), (), ("x", "table"), "y")
