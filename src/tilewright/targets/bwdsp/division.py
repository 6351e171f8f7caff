"""Networks divided over the cores of a BWDSP: each task as a network of its own on one core.

In: tasks. Out: their time, and their results by interpreting the programs. While the core computes,
input tiles arrive through one port and results leave through the other: of its three buffers one is
read, one receives the next input, and one takes results. Values arrive in the order in which a
program reads them, with a border of zeros, so that changes of layout between this order and storage
by rows cost the core no time. Nothing here was measured.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, PartitionError
from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.rewrites.definitions import by_definitions
from tilewright.ir.nodes import memory_words
from tilewright.machine import Machine
from tilewright.machine.check import capacity_setting
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.plan import Plan
from tilewright.network.planning.products import Ranked, ranked_products
from tilewright.network.plans import BY_THE_MODEL
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Conv2d
from tilewright.ops.op import Array, Op
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.layers import Layer, layers_of
from tilewright.partition.objective import CoreModel, Weights, core_model
from tilewright.partition.parts import Operands, Programs, Task, TaskTime, Times
from tilewright.partition.placement import placed_plan
from tilewright.partition.plan import space
from tilewright.partition.strategies import EQUAL
from tilewright.targets.bwdsp.sections import READ, RESULTS, core_machine

_LOG = logging.getLogger(__name__)
_ELSEWHERE = "take a machine that computes several types in one network"


class Divider:
    """All cores of the grid; activations stay in their buffers, weights stream from main memory."""

    trains = False

    def planned(self, network: Network, machine: Machine) -> tuple[tuple[Layer, ...], CoreModel]:
        """The layers, and the cores for the element type of the network's inputs."""
        return layers_of(network), core_model(machine, _element(network, machine))

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
    ) -> DividedNetwork:
        """The plan of least cost by `weights`, over the grids of `strategy` if given."""
        network = by_definitions(network)
        layers, model = self.planned(network, machine)
        if most_work > 1 and model.multicasts:
            _LOG.warning(
                "the fabric of %r multicasts: halos are exchanged there, never computed again",
                machine.name,
            )
        if place:
            _require_placeable(machine, model, weights, most_work)
        found = space(
            layers,
            machine.cores,
            weights,
            most_work=most_work,
            strategies=strategy.split(",") if strategy else EQUAL if place else None,
            model=model,
            recompute=most_work > 1,
            steps=partial(progress, "divide"),
        )
        plan = placed_plan(found) if place else found.best()
        element = _element(network, machine)
        programs = self.programs(machine, element)
        return DividedNetwork(network, machine, element, plan, model, weights, programs)

    def programs(self, machine: Machine, element: str) -> Programs:
        return programs_of(core_machine(machine), element)


def _require_placeable(
    machine: Machine, model: CoreModel, weights: Weights, most_work: float
) -> None:
    """Raise unless placement can count the values of messages: it assumes one receiver per message,
    and that everything is computed once.
    """
    problems = {
        "an objective with cycles": weights.cycles > 0,
        "--most-work above 1": most_work > 1,
        f"the multicasts of {machine.name!r}": model.multicasts,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise PartitionError(
                f"--place does not go with {problem}: it counts values that move to one core each",
                fix=f"leave --place, or {problem}",
            )


def _element(network: Network, machine: Machine) -> str:
    """The element type of all tensors, in which the cores compute.

    Raises PartitionError for inputs and nodes of other types.
    """
    elements = {tensor.dtype for tensor in network.inputs}
    if len(elements) != 1 or not elements <= set(machine.core.types):
        floats = all(dtype(kind).is_float for kind in elements)
        raise PartitionError(
            f"inputs of {', '.join(sorted(elements))}: the cores of {machine.name!r} compute "
            f"in {', '.join(machine.core.types)}",
            fix=f"give --dtype {machine.core.types[0]}" if floats else _ELSEWHERE,
        )
    (element,) = elements
    for node in network.nodes:
        numerics = node.op.numerics
        sums = {numerics.sums.name} if numerics.is_float else set()
        kinds = sorted({*node.op.operand_dtypes, node.op.out_dtype, *sums} - {element})
        if kinds:
            raise PartitionError(
                f"node {node.name} takes or computes {', '.join(kinds)}: the cores of "
                f"{machine.name!r} compute this network in {element}",
                fix=_ELSEWHERE,
            )
    return element


_WORDS = {READ: "the two buffers that are read", RESULTS: "the buffer of results"}
_SET = re.compile(r"--set memory\.(?P<space>\w+)\.capacity_bytes=(?P<bytes>\d+)")


def of_whole(error: CapacityError, core: Machine, layer: str) -> PartitionError:
    """The error of a program on `core` for a part of a layer, in terms of the machine."""
    message = error.message
    for name, words in _WORDS.items():
        message = message.replace(memory_words(name), words)
    found = _SET.search(error.fix)
    fix = _fix(found["space"], int(found["bytes"]), core) if found else ""
    return PartitionError(message, where=f"layer {layer}", fix=fix)


def _fix(space: str, needed: int, core: Machine) -> str:
    if space not in _WORDS:
        return capacity_setting(space, needed) or "smaller extents"
    buffers = core.space(READ).banks
    share = buffers - 1 if space == READ else 1
    return capacity_setting("buffers", -(-needed // share) * buffers) or "smaller extents"


_WAITS = ("wait bandwidth", "wait latency")


@cache
def programs_of(core: Machine, element: str) -> CorePrograms:
    """The programs for values of type `element`, shared by all networks."""
    return CorePrograms(core, element)


@dataclass
class CorePrograms:
    """Programs for cores like `core`, built and timed on demand."""

    core: Machine
    element: str
    _plans: dict[Task, Plan] = field(default_factory=dict)
    _times: dict[Task, TaskTime] = field(default_factory=dict)

    def times(self, tasks: Mapping[Task, str], progress: Progress = silent) -> Times:
        """Simulated time of each task; tasks that differ only in their borders share one program.

        Raises PartitionError, which names the layer whose task fits no core.
        """
        plain = {task: _without_border(task) for task in tasks}
        layers = {own: tasks[task] for task, own in reversed(plain.items())}
        self._make(plain.values(), progress, layers)
        for number, task in enumerate(plain.values(), 1):
            if task not in self._times:
                self._times[task] = _time(self._plans[task])
            progress("simulate", number, len(plain))
        return {task: self._times[own] for task, own in plain.items()}

    def compute(self, task: Task, operands: Operands) -> Array:
        """The result of a task by interpreting its programs."""
        plain, kind = _without_border(task), dtype(self.element).numpy
        self._make([plain])
        first, *others = operands
        if (conv := task.ops[0].convolution) is not None:
            first = [np.pad(first[0], _border(conv)), first[1]]
        every = [array for own in (first, *others) for array in own]
        numbers = {f"x{i}": np.asarray(array, kind) for i, array in enumerate(every)}
        (found,) = interpret_plan(self._plans[plain], numbers, numbers).values()
        return found

    def _make(
        self,
        tasks: Iterable[Task],
        progress: Progress = silent,
        layers: Mapping[Task, str] = MappingProxyType({}),
    ) -> None:
        """Plan the tasks that have no plan yet; their products are ranked together."""
        missing = [task for task in dict.fromkeys(tasks) if task not in self._plans]
        if not missing:
            return
        networks = [_network(task, self.element) for task in missing]
        names = [layers.get(task, "of a part") for task in missing]
        ranked = _ranked(networks, names, self.core, progress)
        every = zip(missing, networks, names, strict=True)
        for number, (task, network, name) in enumerate(every, 1):
            try:
                self._plans[task] = build_plan(network, self.core, ranked=ranked)
            except CapacityError as error:
                raise of_whole(error, self.core, name) from None
            progress("generate", number, len(missing))


def _ranked(networks: list[Network], names: list[str], core: Machine, progress: Progress) -> Ranked:
    """The candidates of all products; refusals name the network they belong to."""
    ops: dict[Op, str] = {}
    for network, name in zip(networks, names, strict=True):
        for _, op in network.layers():
            ops.setdefault(op, name)
    builder = NetworkBuilder("parts", core.core.types[0])
    for number, op in enumerate(ops):
        inputs = [builder.input(f"{number} {i}", s) for i, s in enumerate(op.input_shapes)]
        builder.apply(op, *inputs, name=f"product{number}")
    of = {f"product{number}": name for number, name in enumerate(ops.values())}
    try:
        return ranked_products(builder.build(()), core, BY_THE_MODEL, images=1, progress=progress)
    except CapacityError as error:
        raise of_whole(error, core, of.get(error.where, error.where)) from None


def _network(task: Task, element: str) -> Network:
    """A task as a network whose operands are x0, x1, and so on."""
    builder = NetworkBuilder("part", element)
    (first, *others), names = task.ops, list[str]()
    for is_weight, shape in zip(task.weights, first.input_shapes, strict=True):
        add = builder.weight if is_weight else builder.input
        names.append(add(f"x{len(names)}", shape))
    count, value = len(names), builder.apply(first, *names, name="op0")
    for number, op in enumerate(others, 1):
        own = []
        for shape in op.input_shapes[1:]:
            own.append(builder.weight(f"x{count}", shape))
            count += 1
        value = builder.apply(op, value, *own, name=f"op{number}")
    return builder.build((value,))


def _without_border(task: Task) -> Task:
    """The task with a convolution whose images include their border."""
    first, *others = task.ops
    if (op := first.convolution) is None:
        return task
    _, _, rows, columns = _border(op)
    height, width = op.height + sum(rows), op.width + sum(columns)
    plain = replace(op, height=height, width=width, padding=(0, 0, 0, 0))
    return Task((plain, *others), task.weights)


def _border(op: Conv2d) -> tuple[tuple[int, int], ...]:
    top, left, bottom, right = op.padding
    return (0, 0), (0, 0), (top, bottom), (left, right)


def _time(plan: Plan) -> TaskTime:
    """The simulated time of all stages except layout changes."""
    run = simulate_plan(plan)
    compute = streamed = 0
    for stage, found in zip(plan.stages, run.runs, strict=True):
        if stage.work != "layout":
            kinds = found.by_kind()
            streamed += found.cycles
            compute += found.cycles - sum(kinds.get(kind, 0) for kind in _WAITS)
    return TaskTime(compute, streamed)


DIVISION = Divider()
