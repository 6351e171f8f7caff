"""The candidate of each product that makes products and conversions together cheapest.

In: groups, and for each product its best candidate under every layout. Out: one candidate each. The
fastest candidate of a product may want its images in another form than its neighbours; a conversion
between them takes time, as does a pass for an epilogue that the kernel cannot take. Starting from
the fastest of each, one product after the other is changed to what makes the whole cheapest, until
no change helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.network.form import Form, like, row_major, same_memory
from tilewright.ops import Op
from tilewright.targets.host.network.epilogues import epilogue_of
from tilewright.targets.host.network.fuse import Group
from tilewright.tune.candidate import Candidate

Seconds = float

_AGAINST_THE_GRAIN = 4
"""A copy that changes which dimension runs along memory takes so many times longer: it has a
cache line for each element."""
_MOST_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Way:
    """One candidate of a product, with the forms of all but constants by name of tensor."""

    candidate: Candidate
    forms: Mapping[str, Form]
    seconds: Seconds


class Layouts:
    """Prices assignments of ways to the products of a network."""

    def __init__(self, groups: Sequence[Group], machine: Machine, weights: set[str]) -> None:
        self._groups, self._machine, self._weights = groups, machine, weights

    def chosen(self, ways: Mapping[Op, Sequence[Way]]) -> dict[Op, Way]:
        """The way of each product; the first of each is its fastest."""
        found = {op: own[0] for op, own in ways.items()}
        best = self.seconds(found)
        for _ in range(_MOST_ROUNDS):
            before = best
            for op, own in ways.items():
                for way in own:
                    total = self.seconds({**found, op: way})
                    if total < best:
                        found, best = {**found, op: way}, total
            if best == before:
                break
        return found

    def seconds(self, chosen: Mapping[Op, Way]) -> Seconds:
        """Products, and the passes and conversions between them, of one run."""
        wanted = self._wanted(chosen)
        held: dict[str, Form] = {}
        total = 0.0
        for group in self._groups:
            total += self._group_seconds(group, chosen, wanted, held)
        return total

    def _group_seconds(
        self,
        group: Group,
        chosen: Mapping[Op, Way],
        wanted: Mapping[str, Sequence[Form]],
        held: dict[str, Form],
    ) -> Seconds:
        total = 0.0
        inputs = [name for name in group.first.inputs if name not in self._weights]
        way = chosen.get(group.first.op) if group.is_product else None
        if way is not None:
            total += way.seconds
            operands = zip(way.candidate.seed.operands, group.first.inputs, strict=True)
            for operand, name in operands:
                if name in inputs:
                    form = way.forms[operand]
                    total += self._conversion(held.get(name, row_major(form.shape)), form)
            natural = way.forms[way.candidate.seed.result]
        else:
            before = held.get(inputs[0]) if inputs else None
            natural = like(before, group.shape) if before else row_major(group.shape)
        wishes = wanted.get(group.output, ())
        form = max(wishes, key=wishes.count) if wishes else like(natural, group.shape)
        held[group.output] = form
        return total + self._pass_after(group, natural, form)

    def _pass_after(self, group: Group, natural: Form, form: Form) -> Seconds:
        """The pass that completes a group's result where its kernel cannot. Groups without a
        product are a pass anyway, so only the direction of the walk counts.
        """
        times = 1 if _along_the_same(natural, form) else _AGAINST_THE_GRAIN
        if not group.is_product:
            times -= 1
        elif natural == form and not (group.affine or group.steps):
            times = 0
        else:
            scaled = group.first.inputs[1] in self._weights
            times *= epilogue_of(group, natural, form, scaled=scaled) is None
        return times * self._copy(form)

    def _wanted(self, chosen: Mapping[Op, Way]) -> dict[str, Sequence[Form]]:
        found: dict[str, list[Form]] = {}
        for group in self._groups:
            if group.reads_row_major:
                (name,), (shape,) = group.first.inputs, group.first.op.input_shapes
                found.setdefault(name, []).append(row_major(shape))
            if group.is_product:
                way = chosen[group.first.op]
                operands = way.candidate.seed.operands
                for operand, name in zip(operands, group.first.inputs, strict=True):
                    if name not in self._weights:
                        found.setdefault(name, []).append(way.forms[operand])
        return dict(found)

    def _conversion(self, held: Form, wanted: Form) -> Seconds:
        if same_memory(held, wanted):
            return 0.0
        against = 1 if _along_the_same(held, wanted) else _AGAINST_THE_GRAIN
        return against * self._copy(wanted)

    def _copy(self, form: Form) -> Seconds:
        """Reading and writing a tensor once, from the last cache."""
        kind = next(iter(self._groups)).first.op.dtype
        size = prod(form.shape) * dtype(kind).size_bytes
        dma = self._machine.dma
        return size / dma.get.peak_bytes_per_second + size / dma.put.peak_bytes_per_second


def _along_the_same(a: Form, b: Form) -> bool:
    """Whether the same axis runs along memory in both."""
    return not a.dims or not b.dims or a.dims[-1].axis == b.dims[-1].axis
