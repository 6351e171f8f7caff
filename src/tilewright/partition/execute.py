"""Running a plan on cores that see nothing but their own memory.

In: a network, a plan of its layers, and numbers. Out: the network's outputs. Cores get weights and
the network's inputs from outside, everything else by the plan's messages; what a core reads and
never got is an error, never a wrong number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.common.errors import PartitionError
from tilewright.common.progress import Steps, uncounted
from tilewright.graph import Network
from tilewright.graph.names import quoted
from tilewright.ops.box import Box
from tilewright.ops.op import Array, Op
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Held, Move, held, moves, needs, reductions, rounds
from tilewright.partition.parts import Computes, Part, Task, by_reference, tasks_of
from tilewright.partition.plan import PartitionPlan, Planned

SUMS = " sums"
"""Behind a layer's name: the sums of its first step, of which each core has some terms."""


class CoreMemory:
    """The regions of tensors that one core has."""

    def __init__(self, core: int) -> None:
        self.core = core
        self._parts: dict[str, list[tuple[Box, Array]]] = {}

    def put(self, name: str, box: Box, values: Array) -> None:
        """Keep a region."""
        self._parts.setdefault(name, []).append((box, values))

    def read(self, name: str, box: Box) -> Array:
        """A region, assembled from the parts that are present. Raises PartitionError for missing
        elements.
        """
        found, missing = np.zeros(box.shape), np.ones(box.shape, bool)
        for own, values in self._parts.get(name, ()):
            common = own & box
            if common.size:
                if found.dtype != values.dtype:
                    found = found.astype(values.dtype)
                found[common.within(box).slices] = values[common.within(own).slices]
                missing[common.within(box).slices] = False
        if missing.any():
            place = np.argwhere(missing)[0] + box.start
            raise PartitionError(
                f"core {self.core} reads element {tuple(place.tolist())} of {quoted(name)}, "
                "which it neither computed nor got",
                fix="a move is missing in the plan",
            )
        return found


class Execution:
    """One run of a plan; `memories` are those of its cores, each of which `computes` its parts."""

    def __init__(
        self,
        network: Network,
        plan: PartitionPlan,
        feeds: Mapping[str, Array],
        computes: Computes = by_reference,
        steps: Steps = uncounted,
    ) -> None:
        self._network, self._plan, self._computes, self._steps = network, plan, computes, steps
        self._given = {**network.values, **feeds}
        self._owners: dict[str, Held] = {}
        self.memories = [CoreMemory(core) for core in range(plan.cores)]

    def run(self) -> dict[str, Array]:
        """The outputs by name. Raises PartitionError where a core lacks what it reads."""
        for number, planned in enumerate(self._plan.layers):
            self._steps(number, len(self._plan.layers))
            self._exchange_inputs(planned)
            self._compute(planned)
            self._owners[planned.layer.output] = held(planned.division, planned.cores)
        return {name: self._assembled(name) for name in self._network.outputs}

    def messages(self, name: str, found: Sequence[Move]) -> Sequence[Move]:
        """The moves of a tensor that are carried out: all."""
        return found

    def _exchange_inputs(self, planned: Planned) -> None:
        for name, wanted in needs(planned.layer, planned.division, planned.cores).items():
            if name in self._owners:
                self._send(name, moves(self._owners[name], wanted))
                continue
            for core, box in wanted:
                self.memories[core].put(name, box, self._given[name][box.slices])

    def _send(self, name: str, found: Sequence[Move]) -> None:
        for together in rounds(self.messages(name, found), self._plan.cores):
            read = [(t, box, self.memories[s].read(name, box)) for s, t, box in together]
            for target, box, values in read:
                self.memories[target].put(name, box, values)

    def _compute(self, planned: Planned) -> None:
        layer, division = planned.layer, planned.division
        every = list(zip(planned.cores, division.parts, strict=True))
        tasks = [tasks_of(layer, part) for part in division.parts]
        found = {
            core: self._begun(layer, part, first, self.memories[core])
            for (core, part), (first, *_) in zip(every, tasks, strict=True)
        }
        if division.partial:
            found = self._reduced(planned, found)
        for (core, part), (_, *others) in zip(every, tasks, strict=True):
            if part.kept.size:
                values = found[core]
                for task in others:
                    (own, *more) = self._step_operands(layer, part.kept)
                    values = self._computes(task, [[values, *own], *more])
                self.memories[core].put(layer.output, part.kept, values)

    def _begun(self, layer: Layer, part: Part, task: Task, memory: CoreMemory) -> Array:
        """The first part of what one core computes."""
        op, first = layer.op, layer.steps[0]
        computed = op.computable(part.summed, part.terms)
        operands = []
        for name, box, shape in zip(
            first.operands, op.needed(computed, part.terms), op.input_shapes, strict=True
        ):
            if box.size and name in layer.reads:
                operands.append(memory.read(name, box))
            elif box.size:
                operands.append(self._weight(name, shape, box))
        if len(task.ops) > 1:
            return self._computes(task, [operands, *self._step_operands(layer, part.kept)])
        return self._computes(task, [operands])[part.summed.within(computed).slices]

    def _weight(self, name: str, shape: Sequence[int], box: Box) -> Array:
        return self._given[name].reshape(shape)[box.slices]

    def _reduced(self, planned: Planned, partial: Mapping[int, Array]) -> dict[int, Array]:
        """The sums that each core finishes, of all terms."""
        layer, division = planned.layer, planned.division
        wide = np.int64 if not layer.op.numerics.is_float else None
        totals: dict[int, Array] = {}
        counted: dict[int, Array] = {}
        regions: dict[int, Box] = {}
        sums = {c: s.summed for c, s in zip(planned.cores, division.parts, strict=True)}
        for core, part in zip(planned.cores, division.parts, strict=True):
            if part.kept.size:
                region = regions[core] = layer.regions(part.kept)[0]
                own = partial[core][region.within(part.summed).slices]
                totals[core] = own.astype(wide or own.dtype)
                counted[core] = np.ones(region.shape, np.int64)
        found = self.messages(layer.output + SUMS, reductions(layer, division, planned.cores))
        for together in rounds(found, self._plan.cores):
            for source, target, box in together:
                place = box.within(regions[target]).slices
                totals[target][place] += partial[source][box.within(sums[source]).slices]
                counted[target][place] += 1
        for core, counts in counted.items():
            _require_all_terms(layer, core, regions[core], counts, division.grid.parts)
        return {core: _written_back(layer.op, total) for core, total in totals.items()}

    def _step_operands(self, layer: Layer, kept: Box) -> list[list[Array]]:
        """The weights of all steps but the first for the region that a core finishes."""
        found = []
        for step, region in zip(layer.steps[1:], layer.regions(kept)[1:], strict=True):
            names, shapes = step.operands[1:], step.op.input_shapes[1:]
            boxes = step.op.needed(region)[1:]
            both = zip(names, shapes, boxes, strict=True)
            found.append([self._weight(name, shape, box) for name, shape, box in both])
        return found

    def _assembled(self, name: str) -> Array:
        """A tensor out of what its owners have."""
        if name not in self._owners:
            return self._given[name]
        tensor = self._network.tensors[name]
        found: Array | None = None
        for core, box in self._owners[name].owners:
            values = self.memories[core].read(name, box)
            found = np.empty(tensor.shape, values.dtype) if found is None else found
            found[box.slices] = values
        assert found is not None, name
        return found


def execute(
    network: Network,
    plan: PartitionPlan,
    feeds: Mapping[str, Array],
    computes: Computes = by_reference,
    steps: Steps = uncounted,
) -> dict[str, Array]:
    """The outputs of `network` by name, computed by `plan` on cores with a memory each.

    `feeds` gives its inputs, and the weights whose numbers it does not have; `computes` what a core
    makes of operands; `steps` counts the layers.
    """
    return Execution(network, plan, feeds, computes, steps).run()


def _require_all_terms(layer: Layer, core: int, region: Box, counts: Array, parts: int) -> None:
    if (counts != parts).any():
        place = np.argwhere(counts != parts)[0]
        element = tuple((place + region.start).tolist())
        raise PartitionError(
            f"core {core} finishes element {element} of {layer.name} with "
            f"{counts[tuple(place)]} of {parts} parts of its sum",
            fix="a move is missing in the plan",
        )


def _written_back(op: Op, total: Array) -> Array:
    """Sums of all terms in the type of the result."""
    return total if op.numerics.is_float else op.numerics.write_back(total)
