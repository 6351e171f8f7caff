"""A divided network as programs of all nodes and the I/O nodes below them, and its simulated run.

In: a network with the patterns of a pass, and a plan of its layers. Out: `NodePrograms`; for given
numbers the outputs, and the run with every message. Several copies of the plan's nodes take passes
in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import PartitionError
from tilewright.graph import Network
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.machine.messages import hops_to
from tilewright.ops.box import Box
from tilewright.ops.op import Array, Arrays
from tilewright.partition.moves import Held, held, moves_to
from tilewright.partition.parts import Owner
from tilewright.partition.plan import PartitionPlan
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.emit.calls import WEIGHT_BYTES
from tilewright.targets.cns1.node import TABLE, assembled, node_table
from tilewright.targets.cns1.nodes.hosts import Given, HostColumn, Outside, Wanted
from tilewright.targets.cns1.nodes.places import NodePlaces
from tilewright.targets.cns1.nodes.roles import BLOCK, StateBlock
from tilewright.targets.cns1.nodes.run import IDLE, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.shares import KINDS, NodeShare, Passed, node_shares, passed
from tilewright.targets.cns1.nodes.symmetric import Alike, Int64, NodeTiming, trimmed
from tilewright.targets.cns1.sections import Hosts, KernelStripes
from tilewright.targets.cns1.timing.layers import STRIPE


@dataclass(frozen=True, eq=False)
class NodePrograms:
    """Programs of `copies` of a plan's nodes; `network` has the patterns of one pass."""

    network: Network
    machine: Machine
    plan: PartitionPlan
    copies: int = 1

    @cached_property
    def shares(self) -> list[dict[int, NodeShare]]:
        """The share of each node in each layer."""
        return node_shares(self.plan)

    @cached_property
    def states(self) -> dict[str, str]:
        """The weights that are updated in place, by the name of their next value."""
        return {state.next: state.tensor for state in self.network.states}

    @cached_property
    def striped(self) -> frozenset[str]:
        """The states of sets that are stored stripe by stripe, in the order of products and
        updates: those that no errors are propagated through.
        """
        together = self.rows > 1 and self.machine.section(KernelStripes).stripe_columns == STRIPE
        products = [layer.op.matrix_product for layer in (one.layer for one in self.plan.layers)]
        back = {
            one.layer.steps[0].operands[1]
            for one, product in zip(self.plan.layers, products, strict=True)
            if product is not None and product.transpose_b
        }
        return frozenset(self.states.values()) - back if together else frozenset()

    @cached_property
    def outside(self) -> frozenset[str]:
        """The inputs that come from outside in each pass."""
        return frozenset(t.name for t in self.network.inputs) - {*self.states.values()}

    def activations(self, share: NodeShare) -> dict[str, Box]:
        """Regions of inputs and layers that a node reads, for products first, then for steps."""
        made = self.outside | {one.layer.output for one in self.plan.layers}
        layer, part = share.layer, share.part
        needed = layer.op.needed(layer.op.computable(part.summed, part.terms), part.terms)
        found = dict(zip(layer.steps[0].operands, needed, strict=True))
        behind = (name for step in layer.steps[1:] for name in step.operands[1:])
        found |= dict.fromkeys(behind, share.finished)
        return {name: box for name, box in found.items() if name in made}

    @cached_property
    def passed(self) -> list[list[Passed]]:
        """The messages before each layer; a region is sent to a node only once."""
        have: dict[str, Held] = {}
        found = []
        for planned, shares in zip(self.plan.layers, self.shares, strict=True):
            wanted: dict[str, dict[int, Box]] = {}
            for core, share in shares.items():
                for name, box in self.activations(share).items():
                    wanted.setdefault(name, {})[core] = box
            made = {name: own for name, own in wanted.items() if name in have}
            moved = [(name, moves_to(have[name], [Owner(*one) for one in own.items()]))
                     for name, own in made.items()]  # fmt: skip
            found.append(passed(moved))
            for name, own in made.items():
                have[name] = replace(have[name], kept={**own, **have[name].kept})
            have[planned.layer.output] = held(planned.division, planned.cores)
        return found

    @cached_property
    def kinds(self) -> dict[int, int]:
        """The kind of a message, by the bits in which the numbers of its nodes differ. A node thus
        never mistakes one for another, since messages of one sender come in order. Inputs have kind
        0. Raises PartitionError for more kinds than nodes distinguish.
        """
        found = {one.away for own in self.passed for one in own}
        for shares in self.shares:
            found |= {core ^ other for core, share in shares.items() for other in share.group}
        if len(found - {0}) >= KINDS:
            raise PartitionError(
                f"nodes get messages of {len(found - {0})} others, they tell {KINDS - 1} apart "
                "beside inputs",
                fix="divide the network over fewer nodes, or take --partition for fewer parts",
            )
        return {away: kind for kind, away in enumerate(sorted(found - {0}), 1)}

    @property
    def cells(self) -> int:
        """Nodes of a copy."""
        return max(len(one.cores) for one in self.plan.layers)

    @property
    def rows(self) -> int:
        """Patterns of a pass."""
        return self.plan.layers[0].layer.shape[0]

    def run(self, given: Arrays) -> tuple[dict[str, Array], int]:
        """The outputs for inputs of any number of patterns and weights, and the cycles of all runs,
        each of as many patterns as the ports' memories hold. Raises the errors of `run_nodes`.
        """
        names, together = sorted(self.outside), self._together
        patterns = len(given[names[0]])
        parts: list[dict[str, Array]] = []
        cycles = 0
        for first in range(0, patterns, together):
            some = {name: given[name][first : first + together] for name in names}
            outputs, run = self.simulated({**given, **some})
            parts.append(outputs)
            cycles += run.cycles
        found = {n: np.concatenate([part[n] for part in parts]) for n in self._returned}
        return found | {n: parts[0][n] for n in self.states}, cycles

    @property
    def _returned(self) -> list[str]:
        """The outputs that go back to the I/O nodes."""
        return [name for name in self.network.outputs if name not in self.states]

    @property
    def _together(self) -> int:
        """The number of patterns whose inputs and outputs fit the memory of any port."""
        room = load_table(TABLE).memory("host").capacity_bytes
        tensors = [self.network.tensors[name] for name in (*self.outside, *self._returned)]
        rows = sum(-(-t.shape[1] * dtype(t.dtype).size_bytes // BLOCK) for t in tensors)
        fabric, ports = fabric_of(self.machine), self.machine.section(Hosts).ports
        served = fabric.rows * -(-fabric.columns // ports)
        return max(1, room // (self.rows * rows * served * BLOCK)) * self.rows * self.copies

    def simulated(self, given: Arrays) -> tuple[dict[str, Array], MeshRun]:
        """The outputs of one run of all nodes, and the run."""
        patterns = len(given[self.network.inputs[0].name])
        passes = -(-patterns // (self.rows * self.copies))
        inputs = {name: self._padded(given[name], passes) for name in self.outside}
        numbers = {**self.network.values, **given, **inputs}
        made, outside = self._programs_and_hosts(passes)
        fabric = outside.fabric
        nodes = [*outside.nodes(inputs), *[IDLE] * (fabric.rows - 1) * fabric.columns]
        for number, places in made.items():
            nodes[number] = places.node(numbers)
        run = run_nodes(self.machine, nodes, fabric)
        blocks = {number: places.blocks for number, places in made.items()}
        return self._outputs(run, outside, patterns) | self._updated(run, blocks), run

    def _programs_and_hosts(self, passes: int) -> tuple[dict[int, NodePlaces], Outside]:
        """The programs of the nodes by number, and the I/O nodes below."""
        fabric, made = fabric_of(self.machine, hosts=True), {}
        columns = [HostColumn() for _ in range(fabric.columns)]
        for number in range(self.copies * self.cells):
            copy, core = divmod(number, self.cells)
            row, column = divmod(number, fabric.columns)
            made[number + fabric.columns] = own = NodePlaces(self, core, copy, passes)
            columns[column].add(row + 1, own.given, own.wanted)
        return made, Outside(self.machine, fabric, columns, passes, self.copies)

    def timed(self, passes: int = 1) -> NodeTiming:
        """The time of so many passes, from the last node and the messages of all."""
        fabric, last = fabric_of(self.machine, hosts=True), self.copies * self.cells - 1
        columns = [HostColumn() for _ in range(fabric.columns)]
        for number in range(last + 1):
            copy, core = divmod(number, self.cells)
            row, column = divmod(number, fabric.columns)
            columns[column].add(row + 1, *self.exchanged(core, copy))
        outside = Outside(self.machine, fabric, columns, passes, self.copies)
        tensors = (self.network.tensors[name] for name in self.outside)
        count = passes * self.copies
        inputs = {t.name: np.zeros((count, *t.shape), dtype(t.dtype).numpy) for t in tensors}
        full = NodePlaces(self, last % self.cells, self.copies - 1, passes)
        role = full.role
        table = trimmed(node_table(self.machine), role.end)
        own = outside.nodes(inputs)
        own += [IDLE] * (fabric.rows * fabric.columns - len(own) - last - 1)
        texts = {text: assembled(text, table) for text in {node.text for node in own}}
        hosts, idle = range(fabric.columns), range(fabric.columns + last + 1, len(own) + last + 1)
        others = dict(zip([*hosts, *idle], (texts[node.text] for node in own), strict=True))
        alike = dict(self._hops(full, number, passes) for number in range(last))
        return Alike(
            table, fabric, role.node, role.text(), role.words, role.exchanges * passes, alike,
            others,
        ).timing()  # fmt: skip

    def _hops(self, full: NodePlaces, number: int, passes: int) -> tuple[int, tuple[Int64, Int64]]:
        """A node, the distances of its messages, and their kinds. Cores of one text send to the
        cores whose numbers differ in the same bits, and to the I/O node of their column.
        """
        fabric, core = full.fabric, number % self.cells
        aways = {kind: away for away, kind in self.kinds.items()}
        node = number + fabric.columns
        row, column = divmod(node, fabric.columns)
        hops, kinds = [], []
        for one in full.role.exchanges:
            if one.hops is None:
                continue
            target = column if one.to_host else node - core + (core ^ aways[one.kind])
            hops.append(hops_to(fabric, node, target))
            kinds.append(row if one.to_host else one.kind)
        ways = np.array(hops * passes).reshape(-1, 2)
        return node, (ways, np.array(kinds * passes, np.int64))

    def exchanged(self, core: int, copy: int) -> tuple[list[Given], list[Wanted]]:
        """Tensors that a node takes from outside in a pass, and those that it returns."""
        given: list[Given] = []
        wanted = []
        for shares in self.shares:
            if core not in shares:
                continue
            share = shares[core]
            for name, box in self.activations(share).items():
                had = any(one.tensor == name and one.box.covers(box) for one in given)
                if name in self.outside and not had:
                    given.append(Given(name, box, copy))
            name, box = share.layer.output, share.finished
            if name in self._returned:
                size = dtype(self.network.tensors[name].dtype).size_bytes
                wanted.append(Wanted(name, box, size * box.shape[1], copy))
        return given, wanted

    def _updated(
        self, run: MeshRun, blocks: Mapping[int, Mapping[str, StateBlock]]
    ) -> dict[str, Array]:
        """The weights that the nodes hold after the run."""
        found = {}
        for following, state in self.states.items():
            found[following] = np.zeros(self.network.tensors[state].shape, np.int16)
            for node, own in blocks.items():
                memory = run.cores[node].memory("main")
                for one in own[state].places(state):
                    raw = memory[one.address :][: WEIGHT_BYTES * one.box.size]
                    found[following][one.box.slices] = raw.view(np.int16).reshape(one.box.shape)
        return found

    def _padded(self, values: Array, passes: int) -> Array:
        """Inputs of whole passes: [pass, pattern, ...], padded with zeros."""
        total = passes * self.copies * self.rows
        found = np.zeros((total, *values.shape[1:]), values.dtype)
        found[: len(values)] = values
        return found.reshape(passes * self.copies, self.rows, *values.shape[1:])

    def _outputs(self, run: MeshRun, outside: Outside, patterns: int) -> dict[str, Array]:
        found = {}
        for name in self._returned:
            tensor = self.network.tensors[name]
            shape = outside.passes * self.copies, *tensor.shape
            found[name] = np.zeros(shape, dtype(tensor.dtype).numpy)
        for core in run.cores[: len(outside.columns)]:
            outside.take(core, found)
        return {n: a.reshape(-1, *a.shape[2:])[:patterns] for n, a in found.items()}


def node_programs(
    network: Network, machine: Machine, plan: PartitionPlan, copies: int
) -> NodePrograms:
    """The programs of a plan. Raises PartitionError if they do not fit a node's memory."""
    found = NodePrograms(network, machine, plan, copies)
    role, room = NodePlaces(found, 0, 0, 1).role, machine.main.capacity_bytes
    if role.end > room:
        raise PartitionError(
            f"node 0 needs {role.end} bytes of memory 'main', which has {room}",
            fix="take more nodes, or larger chips",
        )
    return found
