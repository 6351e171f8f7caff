"""A network compiled for this computer: choose, plan, emit, load; run, measure, write.

The code of a network is kept in the cache folder under a digest of all that decides it, so that
the second compilation of the same network only loads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError, ToolError
from tilewright.compiler.artifact import new_folder, write_native
from tilewright.compiler.network.build import build_plan
from tilewright.compiler.network.cache import cached_code
from tilewright.compiler.network.forms import Forms
from tilewright.compiler.network.fuse import grouped
from tilewright.compiler.network.kernels import Kernels
from tilewright.compiler.network.layouts import Layouts, Way
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted, safe_name
from tilewright.machine import Machine
from tilewright.ops import BatchNorm, Gemm, Op
from tilewright.targets.base import Array
from tilewright.targets.host.network.emit import emit_network
from tilewright.targets.host.network.form import Form
from tilewright.targets.host.network.run import (
    BoundNetwork,
    LoadedNetwork,
    NetworkCode,
    StageInfo,
    give_back,
    load_network,
)
from tilewright.targets.host.products import compiler_flags, instruction_set_of
from tilewright.targets.host.target import TARGET
from tilewright.tune.choose import Choice, choose, confirm_choice
from tilewright.tune.native import NativeMeasure

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True, eq=False, repr=False)
class NativeNetwork:
    """A whole network as one function on this computer.

    `weights` are the numbers that are known, until the constants have been made of them; others are
    given to `run`. What stays in memory is constants, arena, inputs and outputs.
    """

    code: NetworkCode
    machine: Machine
    loaded: LoadedNetwork
    weights: dict[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        stages = len(self.code.stages)
        return f"<NativeNetwork {self.code.name}: {stages} stages on {self.machine.name}>"

    def run(
        self, *inputs: Array, weights: Mapping[str, Array] | None = None, **named: Array
    ) -> dict[str, Array]:
        """The outputs by name. Inputs are given in order or by name. Not for several threads.

        `weights` are needed once where the network came without numbers, as those of the zoo do.
        Raises GraphError for a missing tensor, ShapeError for one of the wrong shape.
        """
        bound = self.bind(self.given(inputs, named), weights)
        bound.repeat(1)
        return bound.outputs()

    def bind(
        self, inputs: Mapping[str, Array], weights: Mapping[str, Array] | None = None
    ) -> BoundNetwork:
        """The network with its memory, which the next call takes over, to be run repeatedly."""
        if weights is not None:
            self.give_weights(weights)
        self._bound.give(inputs)
        return self._bound

    def give_weights(self, weights: Mapping[str, Array]) -> None:
        """Make the constants of these numbers, and of those that are known and not among them."""
        made = self.loaded.constants({**self.weights, **weights})
        give_back()
        self.__dict__["_bound"] = self.loaded.bind(made)

    def given(self, inputs: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs by name; raises GraphError for more, or other ones, than there are."""
        names = [name for name, _ in self.code.inputs]
        found = {**dict(zip(names, inputs, strict=False)), **named}
        if len(inputs) > len(names) or set(found) - set(names):
            raise GraphError(
                f"{self.code.name} takes the inputs {', '.join(map(quoted, names))}, found "
                f"{len(inputs)} in order and {', '.join(map(quoted, named)) or 'none'} by name"
            )
        return found

    def write(self, directory: str | Path, weights: Mapping[str, Array] | None = None) -> Path:
        """Write C, header, Makefile and the constants; the folder appears when it is complete.

        Nothing of tilewright is needed to build and call it. Raises as `run` does for weights.
        """
        if weights is not None:
            self.give_weights(weights)
        constants = self._bound.constants
        with new_folder(Path(directory)) as folder:
            write_native(folder, self.machine, self.code, constants.tobytes())
        return Path(directory)

    def profile(self, bound: BoundNetwork, runs: int = 15) -> tuple[float, ...]:
        """The median seconds of each stage in so many runs of the whole."""
        samples = [bound.profile() for _ in range(runs)]
        return tuple(median(column) for column in zip(*samples, strict=True))

    @cached_property
    def _bound(self) -> BoundNetwork:
        constants = self.loaded.constants(self.weights)
        self.weights.clear()
        give_back()
        return self.loaded.bind(constants)


@dataclass(frozen=True)
class Search:
    """How kernels are chosen: among those of `algorithm` where it applies, and of at most the
    `max_error`, `keep` candidates each, the `top` best of them measured.
    """

    algorithm: str | None = None
    max_error: float | None = None
    keep: int = 4
    top: int = 0


def compile_network(
    network: Network,
    machine: Machine,
    search: Search = Search(),
    *,
    progress: Progress = silent,
) -> NativeNetwork:
    """Choose kernels and layouts, generate and compile the code of a network.

    Raises ToolError where the machine is not this computer, GraphError for operators that cannot be
    run on it, CapacityError where nothing fits.
    """
    if machine.target != TARGET.name:
        raise ToolError(
            f"machine {machine.name!r} is not this computer: whole networks cannot run on it",
            fix="--machine host",
        )
    code = cached_code(
        network, machine, repr(search), lambda: generated(network, machine, search, progress)
    )
    return NativeNetwork(code, machine, load_network(code, progress), dict(network.values))


def generated(
    network: Network, machine: Machine, search: Search = Search(), progress: Progress = silent
) -> NetworkCode:
    """The code of a network, not compiled yet."""
    choices, forms = _choices(network, machine, search, progress), Forms()
    layouts = Layouts(grouped(network), machine, {t.name for t in network.weights})
    measured = bool(search.top)
    ways = {c.op: _ways(c, forms, machine, measured=measured) for c in choices.values()}
    chosen = layouts.chosen(ways)
    candidates = {op: way.candidate for op, way in chosen.items()}
    kernels = Kernels(
        safe_name(network.name),
        candidates,
        machine,
        forms,
        lambda done: progress("generate", done, max(done, len(candidates))),
    )
    return network_code(network, machine, kernels)


def _ways(choice: Choice, forms: Forms, machine: Machine, *, measured: bool) -> list[Way]:
    """The best candidate under each form of what is read and written, best first; the winner alone
    where it was found by measuring.
    """
    found: dict[tuple[Form, ...], Way] = {}
    for option in choice.options[: 1 if measured else None]:
        candidate = option.candidate
        own = forms.of(candidate)
        constants = {t.name for t in candidate.seed.tensors if t.kind == "constant"}
        key = tuple(form for name, form in own.items() if name not in constants)
        found.setdefault(key, Way(candidate, own, candidate.cycles / machine.clock_hz))
    return list(found.values())


def network_code(network: Network, machine: Machine, kernels: Kernels) -> NetworkCode:
    """The code of a network whose products are computed by these kernels."""
    plan, memory = build_plan(network, kernels, machine.thread_count)
    flags = compiler_flags(machine)
    shapes = {t.name: t.shape for t in network.tensors.values()}
    return NetworkCode(
        plan.name,
        plan.dtype,
        instruction_set_of(machine).name,
        flags,
        plan.threads,
        emit_network(plan, kernels.artifacts, flags),
        tuple((t.name, t.shape) for t in network.inputs),
        tuple((name, shapes[name]) for name, _ in plan.outputs),
        tuple((t.name, t.shape) for t in network.weights),
        tuple(memory.constants),
        plan.constant_bytes,
        plan.arena_bytes,
        tuple(
            StageInfo(s.name, s.label, s.algorithm, s.flops, s.estimate_seconds)
            for s in plan.stages
        ),
    )


def _choices(
    network: Network, machine: Machine, search: Search, progress: Progress
) -> dict[str, Choice]:
    """What was chosen for each distinct product, by the name of the first layer that is one."""
    firsts: dict[Op, str] = {op: layer for layer, op in reversed(list(network.layers()))}
    if not firsts:
        return {}
    progress("choose", 0, len(firsts))
    by_weights = [op for op in firsts if _takes_weights(op, network)]
    others = [op for op in firsts if op not in by_weights]
    choices: list[Choice] = []
    for ops, algorithm in ((others, search.algorithm), (by_weights, "prepacked")):
        choices += choose(
            ops,
            machine,
            algorithm=algorithm,
            max_error=search.max_error,
            strict=False,
            keep=max(search.keep, search.top),
            names=[firsts[op] for op in ops],
        )
    progress("choose", len(firsts), len(firsts))
    if search.top:
        measure = NativeMeasure()
        choices = [confirm_choice(c, search.top, machine, measure) for c in choices]
    return {firsts[choice.op]: choice for choice in choices}


def _takes_weights(op: Op, network: Network) -> bool:
    """Whether the second operand of each such matrix product is known before the network runs."""
    weights = {tensor.name for tensor in network.weights}
    seconds = [node.inputs[1] for node in network.nodes if node.op == op]
    return isinstance(op, Gemm) and all(name in weights for name in seconds)


def random_weights(network: Network, seed: int = 0) -> dict[str, Array]:
    """Numbers for the weights that have none, such that activations neither grow nor vanish."""
    generator = np.random.default_rng(seed)
    norms = [node for node in network.nodes if isinstance(node.op, BatchNorm)]
    scales = {node.inputs[1] for node in norms}
    variances = {node.inputs[4] for node in norms}
    found: dict[str, Array] = {}
    for tensor in network.weights:
        if tensor.name in network.values:
            continue
        if tensor.name in scales | variances:
            numbers = generator.uniform(0.5, 1.0, tensor.shape)
        elif len(tensor.shape) > 1:
            terms = math.prod(tensor.shape[1:])
            numbers = generator.standard_normal(tensor.shape) / math.sqrt(terms)
        else:
            numbers = generator.standard_normal(tensor.shape) / 8
        found[tensor.name] = numbers.astype(dtype(tensor.dtype).numpy)
    return found
