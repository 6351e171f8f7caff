"""Networks divided over the nodes of a CNS-1, each of which owns its weights.

In: a network of matrix products, look-ups and maps of their results. Out: the plan that takes the
least time on the fabric of the nodes, of the block distributions of ICSI TR-93-046, section 3.2.1,
with other shapes of the blocks, and with copies of the network on some of the nodes each (3.1); and
programs of all nodes, which are simulated together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tilewright.common.dtypes import dtype
from tilewright.common.errors import PartitionError
from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.graph.rewrites.images import batch_of, fewer_images
from tilewright.graph.tables import looks_up
from tilewright.machine import Machine
from tilewright.machine.messages import spacing_cycles
from tilewright.ops.op import Array, Arrays
from tilewright.partition.divided import DividedNetwork, DividedResult
from tilewright.partition.grids import CHANNELS, Grid, cut, joined
from tilewright.partition.layers import PREVIOUS, Layer, LayerStep, layers_of
from tilewright.partition.objective import TIME, TRAFFIC, CoreModel, Cycles, Weights
from tilewright.partition.parts import Operands, Programs, Task, TaskTime, Times, by_reference
from tilewright.partition.plan import ChoiceCosts, PartitionPlan, read_regions
from tilewright.partition.strategies import Choices, find_strategy, given
from tilewright.partition.volumes import sizes
from tilewright.targets.cns1.nodes import roles
from tilewright.targets.cns1.nodes.divided import NodePrograms, node_programs
from tilewright.targets.cns1.nodes.places import step_part
from tilewright.targets.cns1.nodes.shares import VECTOR, chunk_columns, product_of, suits
from tilewright.targets.cns1.prices import (
    all_patterns,
    group_cycles,
    round_cycles,
    set_update_cycles,
    weight_update_cycles,
)
from tilewright.targets.cns1.sections import MOST_PATTERNS, Hosts, KernelStripes, Messages
from tilewright.targets.cns1.timing.layers import ROWS_AT_ONCE, STRIPE

_SUM_BYTES, _WEIGHT_BYTES = 4, 2
_LOOKUP_TABLES = 1 << 15


def node_model(machine: Machine) -> CoreModel:
    """The planner's model of the nodes: a value is a byte, a message a block with its header."""
    fabric = machine.fabrics["torrents"]
    spacing = spacing_cycles(fabric, roles.BLOCK)
    hosts = machine.section(Hosts)
    plain = structs.replace(fabric, multicast="none", bytes_per_cycle=roles.BLOCK / spacing)
    return CoreModel(
        plain,
        1,
        machine.main.available_bytes,
        machine.core.peak_flops_per_cycle("i16"),
        min(hosts.ports, fabric.columns) * roles.BLOCK / spacing,
        fabric.send_cycles + fabric.receive_cycles,
        own=True,
        sum_values=_SUM_BYTES,
    )


def step_layers(network: Network, together: int) -> tuple[Layer, ...]:
    """The layers of a training step, each a product and the maps behind it. An error sent to the
    nodes of one layer is kept for the update behind it.

    Raises PartitionError for steps of networks that `graph.tables` cannot train, and for sets of
    more patterns than kernels take `together`.
    """
    if not looks_up(network):
        raise PartitionError(
            f"nodes train networks of products with tables, found {network.name}",
            fix="--dtype i8, a network of matrix products and tables",
        )
    if (patterns := _patterns(network)) > together:
        raise PartitionError(
            f"{network.name} trains a set of {patterns} patterns, kernels take {together} together",
            fix=f"--batch {together}, or --set {KernelStripes.key}.patterns={patterns} up to "
            f"{MOST_PATTERNS}",
        )
    found: list[Layer] = []
    for node in network.nodes:
        if node.op.matrix_product is not None:
            read = {name for layer in found for name in layer.reads}
            fresh = [n for n in node.inputs if n not in read and _is_activation(network, n)]
            found.append(
                Layer(node.name, (LayerStep(node.op, node.inputs),), node.output, (*fresh,))
            )
            continue
        (number,) = (i for i, layer in enumerate(found) if layer.output == node.inputs[0])
        step = LayerStep(node.op, (PREVIOUS, *node.inputs[1:]))
        before = found[number]
        found[number] = replace(before, steps=(*before.steps, step), output=node.output)
    return tuple(found)


def _is_activation(network: Network, name: str) -> bool:
    held = {state.tensor for state in network.states}
    return name in network.makers or name in {t.name for t in network.inputs} - held


def forward_layers(layers: Sequence[Layer]) -> list[Layer]:
    """Products of activations and weights; those of errors reuse weights, updates have none."""
    found: list[Layer] = []
    for layer in layers:
        product, had = layer.op.matrix_product, {one.steps[0].operands[1] for one in found}
        assert product is not None, "nodes compute products"
        back = product.transpose_b and layer.steps[0].operands[1] in had
        if not product.transpose_a and not (back and product.operand_dtypes[0] == "i16"):
            found.append(layer)
    return found


def _behind(layer: Layer, forward: Layer, grid: Grid) -> Grid:
    """The grid of a gradient or an update on the blocks of weights that a product's grid makes."""
    (rows, columns), (whole,) = grid.result, forward.op.terms
    terms, turned = grid.terms or (cut(whole, whole),), not grid.turned
    if layer.op.matrix_product is not None and layer.op.matrix_product.transpose_a:
        return Grid((terms[0], columns), (), turned)
    sums = (columns,) if len(columns) > 1 else ()
    return Grid((rows, terms[0]), sums, turned)


@dataclass
class NodeSpace(ChoiceCosts):
    """The costs of distributions on nodes that compute while sums are on their way. `behind` has
    the gradients and updates on the weight blocks of each layer.
    """

    machine: Machine = field(kw_only=True)
    tolerance: float = 0.0
    behind: Mapping[int, Sequence[Layer]] = field(default_factory=dict)

    def alone(self, number: int) -> Cycles:
        """Cycles of a layer's grids: products at the price of their text, each message for as long
        as it occupies a node's interface, and the part of the exchange that the products do not
        hide.
        """
        assert self.model is not None, "nodes are those of a machine"
        table, layer = self.tables[number], self.layers[number]
        found = np.array([self._grid(layer, grid, table.sums_cycles[i])
                          + sum(self._grid(other, _behind(other, layer, grid), 0.0, along=True)
                                for other in self.behind.get(number, ()))
                          for i, grid in enumerate(table.grids)])  # fmt: skip
        values = self.weights.sums * table.sums + self.weights.inputs * self._inputs(number)
        cycles: Cycles = found + self.model.load_cycles(self._through_ports(number))
        return values + self.weights.cycles * cycles

    def _through_ports(self, number: int) -> NDArray[np.int64]:
        """Inputs as if all ports delivered as many as the busiest. A port serves columns of nodes;
        input that all nodes of a column read goes up once.
        """
        table, fabric = self.tables[number], self.machine.fabrics["torrents"]
        made, ports = {layer.output for layer in self.layers}, self.machine.section(Hosts).ports
        count, cores = len(table.grids), fabric.rows * fabric.columns
        found = np.zeros((count, fabric.columns), np.int64)
        for name, need in read_regions(self.layers[number], table):
            if name not in made:
                boxes = np.zeros((count, cores, *need.shape[2:]), np.int64)
                boxes[:, : need.shape[1]] = need
                boxes = boxes.reshape(count, fabric.rows, fabric.columns, *need.shape[2:])
                alike = (boxes == boxes[:, :1]).all(axis=(1, 3, 4))
                own = sizes(boxes)
                found += np.where(alike, own[:, 0], own.sum(axis=1))
        served = -(-fabric.columns // ports)
        starts = np.arange(0, fabric.columns, served)
        busiest: NDArray[np.int64] = ports * np.add.reduceat(found, starts, axis=1).max(axis=1)
        return busiest

    def _grid(self, layer: Layer, grid: Grid, exchange: float, *, along: bool = False) -> float:
        """Cycles of a node's products, and of sending and receiving its sums. Weights lie `along`
        the terms if errors are propagated back.
        """
        product, parts = layer.op.matrix_product, grid.parts
        assert product is not None
        rows, columns = (n // p for n, p in zip(layer.shape, grid.counts, strict=True))
        if product.transpose_a:
            return node_update_cycles(self.machine, rows, columns, product.k)
        terms, chunk = product.k // parts, chunk_columns(columns, parts)
        if not chunk:
            return math.inf
        distance = terms if along else columns if self.behind else chunk
        once = node_product_cycles(self.machine, rows, chunk, terms, distance, along=along)
        products, piece = columns / chunk * once, columns // parts
        messages = (parts - 1) * rows * math.ceil(piece / VECTOR)
        own = self.machine.section(Messages)
        handled = own.processor_send_cycles + own.processor_receive_cycles + own.sum_cycles
        fabric = self.machine.fabrics["torrents"]
        size = _SUM_BYTES * min(piece, VECTOR)
        sending = messages * (spacing_cycles(fabric, size) + handled)
        return products + max(exchange - products, sending)


def node_product_cycles(
    machine: Machine, rows: int, columns: int, terms: int, distance: int, *, along: bool = False
) -> float:
    """Cycles of a node's product by the price of its text: as many patterns at a time as kernels
    take, and as many terms as fit the cache. Rows of weights are `distance` apart and lie `along`
    the terms, or along the columns.
    """
    price, size = (group_cycles, _WEIGHT_BYTES) if along else (round_cycles, 1)
    block = roles.block_of_terms(machine, rows, terms, size, along=along)
    cycles = 0.0
    for start in range(0, terms, block):
        own = partial(
            price,
            machine,
            columns=columns,
            terms=min(block, terms - start),
            distance=distance,
            from_zero=not start,
        )
        cycles += float(all_patterns(machine, rows, own))
    return cycles


def node_update_cycles(machine: Machine, rows: int, columns: int, patterns: int) -> float:
    """Cycles of a node's update by the price of its text, with as many columns as fit its cache."""
    if patterns > 1:
        height = roles.set_rows(machine, rows, patterns)
        whole, left = divmod(rows, height)
        return sum(count * set_update_cycles(machine, some, columns, columns, patterns)
                   for some, count in ((height, whole), (left, 1)) if some)  # fmt: skip
    width, _ = roles.update_blocks(machine, rows, columns)
    parts, left = divmod(columns, width)
    return sum(count * float(weight_update_cycles(machine, rows, own, columns))
               for own, count in ((width, parts), (left, 1)) if own)  # fmt: skip


@dataclass(frozen=True)
class NodeTimes:
    """The time of tasks by the prices of their texts."""

    machine: Machine

    def times(self, tasks: Mapping[Task, str], progress: Progress = silent) -> Times:
        """Cycles of each task; nothing streams through a node."""
        return {task: TaskTime(cycles, cycles) for task in tasks for cycles in [self._cycles(task)]}

    def _cycles(self, task: Task) -> float:
        first, *others = task.ops
        cycles, product = 0.0, first.matrix_product
        if product is not None and product.transpose_a:
            return node_update_cycles(self.machine, product.m, product.n, product.k)
        if product is not None:
            along = product.transpose_b
            distance = product.k if along else product.n
            cycles += node_product_cycles(self.machine, product.m, product.n, product.k, distance,
                                          along=along)  # fmt: skip
        else:
            others = [first, *others]
        return cycles + sum(
            roles.node_routine(step_part(op, *op.out_shape), self.machine).cycles for op in others
        )

    def compute(self, task: Task, operands: Operands) -> Array:
        """The result of a task by its reference: programs of nodes run together."""
        return by_reference(task, operands)


@dataclass(frozen=True)
class NodeNetwork(DividedNetwork):
    """A network on nodes that are simulated together; `nodes` has the programs of a pass."""

    nodes: NodePrograms
    simulated: dict[str, float] = field(default_factory=dict)

    def run(self, feeds: Arrays, progress: Progress = silent) -> dict[str, Array]:
        progress("simulate", 0, 1)
        outputs, cycles = self.nodes.run({**self.network.values, **feeds})
        self.simulated["cycles"] = cycles
        progress("simulate", 1, 1)
        return outputs

    def result(self, progress: Progress = silent) -> DividedResult:
        """The figures, with the time of the last simulated run; without one, a run on zeros."""
        if not self.simulated:
            named = (*self.network.inputs, *self.network.weights)
            zeros = {
                t.name: np.broadcast_to(np.zeros((), dtype(t.dtype).numpy), t.shape) for t in named
            }
            self.run(zeros, progress)
        ms = 1000 / self.machine.clock_hz
        found = super().result(progress)
        return structs.replace(found, simulated_ms=self.simulated["cycles"] * ms)


class NodeDivider:
    """Blocks of matrices over the nodes; activations and weights stay with their owners."""

    trains = True

    def planned(self, network: Network, machine: Machine) -> tuple[tuple[Layer, ...], CoreModel]:
        """The layers for the patterns of a pass, each a product with its steps, and the nodes."""
        if network.states:
            return step_layers(network, machine.section(KernelStripes).patterns), node_model(
                machine
            )
        layers = layers_of(_of_a_pass(network, machine))
        for layer in layers:
            product_of(layer)
            for step in layer.steps[1:]:
                step_part(step.op, *layer.shape)
        return layers, node_model(machine)

    def divide(
        self,
        network: Network,
        machine: Machine,
        strategy: str | None,
        weights: Weights,
        most_work: float,
        *,
        place: bool = False,
        progress: Progress = silent,
    ) -> NodeNetwork:
        """The plan of least time by the grids of `strategy`, `blocks` by default; with `weights`
        other than traffic alone, the plan of least weighted cost.
        """
        if place or most_work > 1:
            raise PartitionError(
                f"--place and --most-work are not for the nodes of {machine.name!r}",
                fix="leave them: all nodes have equal blocks, in the order of their numbers",
            )
        layers, _ = self.planned(network, machine)
        few = network if network.states else _of_a_pass(network, machine)
        passes = -(-_patterns(network) // layers[0].shape[0])
        names = strategy.split(",") if strategy else ["blocks"]
        objective = TIME if weights == TRAFFIC else weights
        every = list(plans(layers, machine, names, objective, progress))
        _require_plans(every, layers, machine, names)
        _, copies, plan = min(
            ((-(-passes // copies) * plan.cost, copies, plan) for copies, plan in every),
            key=lambda one: one[:2],
        )
        plan = _completed(plan, layers, machine, objective)
        nodes = node_programs(few, machine, plan, copies)
        times = self.programs(machine, "i8")
        model = node_model(machine)
        return NodeNetwork(
            network, machine, few.inputs[0].dtype, plan, model, objective, times, nodes
        )

    def programs(self, machine: Machine, element: str) -> Programs:
        return NodeTimes(machine)


def plans(
    layers: Sequence[Layer],
    machine: Machine,
    strategies: Sequence[str],
    weights: Weights,
    progress: Progress = silent,
) -> Iterator[tuple[int, PartitionPlan]]:
    """The best plan for each number of copies of the network that the nodes' memories hold, on the
    nodes of one copy. A network that is trained has one copy, on some or all nodes; its plan has
    only the products of activations, at the cost of all layers.
    """
    cores, first = machine.cores, forward_layers(layers)
    own = [_choices(layer, machine, strategies) for layer in first]
    trained = len(first) < len(layers)
    for copies in (n for n in range(1, cores + 1) if cores % n == 0):
        nodes = cores // copies
        if needed_bytes(first) > nodes * (machine.main.available_bytes - _aside(first)):
            return
        some = [choice.where(choice.grids.cells == nodes) for choice in own]
        if all(len(choice.grids) for choice in some):
            plan = _best(layers, first, some, machine, weights, progress)
            yield 1 if trained else copies, plan


def _best(
    layers: Sequence[Layer],
    first: Sequence[Layer],
    choices: Sequence[Choices],
    machine: Machine,
    weights: Weights,
    progress: Progress = silent,
) -> PartitionPlan:
    """The best plan of the products of activations, by the time of all layers."""
    behind = {
        number: [one for one in layers if one not in first and _on_weights(one, own)]
        for number, own in enumerate(first)
    }
    space = _space(first, choices, machine, weights, progress)
    if len(first) == len(layers):
        return space.best()
    space.behind = behind
    return space.best()


def _completed(
    found: PartitionPlan, layers: Sequence[Layer], machine: Machine, weights: Weights
) -> PartitionPlan:
    """A plan of the products of activations, extended by their gradients and updates."""
    if len(found.layers) == len(layers):
        return found
    grids = {own.layer.name: own.division.grid for own in found.layers}
    for own in found.layers:
        after = (one for one in layers if one.name not in grids and _on_weights(one, own.layer))
        grids |= {one.name: _behind(one, own.layer, grids[own.layer.name]) for one in after}
    every = [given(one, "blocks", grids[one.name]) for one in layers]
    return replace(found, layers=_space(layers, every, machine, weights).best().layers)


def _on_weights(layer: Layer, forward: Layer) -> bool:
    """True for a gradient or an update of a layer's weights."""
    own = forward.steps[0].operands[1]
    return any(own in step.operands for step in layer.steps)


def given_blocks(
    layers: Sequence[Layer], machine: Machine, blocks: Sequence[tuple[int, int]]
) -> PartitionPlan:
    """The best plan with so many parts of each layer's outputs and of its terms."""
    first = forward_layers(layers)
    own = [
        choice.where((choice.grids.counts[:, CHANNELS] == outputs) & (choice.grids.parts == parts))
        for layer, (outputs, parts) in zip(first, blocks, strict=True)
        for choice in [_choices(layer, machine, ["blocks"])]
    ]
    return _completed(_best(layers, first, own, machine, TIME), layers, machine, TIME)


def _space(
    layers: Sequence[Layer],
    choices: Sequence[Choices],
    machine: Machine,
    weights: Weights,
    progress: Progress = silent,
) -> NodeSpace:
    model, steps = node_model(machine), partial(progress, "divide")
    return NodeSpace(layers, choices, machine.cores, weights, model, steps=steps, machine=machine)


def _choices(layer: Layer, machine: Machine, strategies: Sequence[str]) -> Choices:
    """The grids that give each node whole stripes."""
    every = [find_strategy(name).grids(layer, machine.cores) for name in strategies]
    grids, origin = joined(every)
    kept = np.array([suits(layer, grid) for grid in grids], bool)
    return Choices(grids[kept], tuple(strategies), origin[kept], math.inf)


def needed_bytes(layers: Sequence[Layer]) -> int:
    """Bytes of all matrices."""
    products = [product_of(layer) for layer in forward_layers(layers)]
    return sum(_WEIGHT_BYTES * product.n * product.k for product in products)


def _aside(layers: Sequence[Layer]) -> int:
    """Bytes of a node other than weights: tables of look-ups and of messages."""
    return roles.TABLE_BYTES + _LOOKUP_TABLES * sum(len(layer.steps) - 1 for layer in layers)


def _require_plans(
    found: Sequence[tuple[int, PartitionPlan]],
    layers: Sequence[Layer],
    machine: Machine,
    strategies: Sequence[str],
) -> None:
    """Raise PartitionError if the nodes cannot hold a copy, or a layer has no equal blocks."""
    if found:
        return
    layers = forward_layers(layers)
    room = machine.main.available_bytes - _aside(layers)
    needed = needed_bytes(layers)
    if needed > machine.cores * room:
        largest = max(layers, key=lambda layer: product_of(layer).n * product_of(layer).k)
        product = product_of(largest)
        fewest = 1 << max(0, math.ceil(math.log2(needed / room)))
        raise PartitionError(
            f"the matrices take {needed} bytes, {-(-needed // machine.cores)} of each of "
            f"{machine.cores} nodes, whose memory (memory.main.capacity_bytes) has {room} for "
            f"them; the largest, of layer {largest.name}, is {product.k} x {product.n}",
            fix=f"at least {fewest} nodes hold them, or larger chips",
        )
    for layer in layers:
        if not len(_choices(layer, machine, strategies).grids):
            product = product_of(layer)
            raise PartitionError(
                f"layer {layer.name}: {product.k} x {product.n} weights are not whole blocks of "
                f"{ROWS_AT_ONCE} rows and {STRIPE} columns",
                fix=f"pad to {-(-product.k // ROWS_AT_ONCE) * ROWS_AT_ONCE} x "
                f"{-(-product.n // STRIPE) * STRIPE}",
            )
    raise PartitionError(
        f"no distribution over {machine.cores} nodes or a part of them gives each node whole "
        f"stripes of {STRIPE} columns in every layer",
        fix=f"pad layers to multiples of {STRIPE} columns for each part, or take fewer nodes",
    )


def _patterns(network: Network) -> int:
    count = batch_of(network)
    if count is None:
        raise PartitionError(
            f"the inputs of {network.name} have no number of patterns in common",
            fix="give each input a row for each pattern",
        )
    return count


def _of_a_pass(network: Network, machine: Machine) -> Network:
    """The network with as many patterns as pass through it together."""
    count = min(_patterns(network), machine.section(KernelStripes).patterns)
    return fewer_images(network, count)


DIVISION = NodeDivider()
