"""A network compiled for this computer: generate, load; run, measure, write.

The code of a network is cached under a digest of everything that decides it, so that compiling the
same network again only loads it. It is generated in a process of its own, `worker`, whose memory is
freed at its end: either way, this process keeps no more than a run needs.

The worker has the arguments of `generate` and returns the same code, progress and errors. The
values of weights do not affect the code and are not sent. The request goes to the worker's standard
input, which stays open for as long as the answer is wanted.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from math import prod
from pathlib import Path
from statistics import median
from typing import IO, NoReturn

import msgspec
import numpy as np
from msgspec import structs

from tilewright.codegen.artifact import Array, Arrays, Artifact
from tilewright.codegen.folder import new_folder
from tilewright.common.cache import CacheStore
from tilewright.common.digest import digest, own_sources
from tilewright.common.dtypes import dtype
from tilewright.common.errors import (
    BusyError,
    CapacityError,
    GraphError,
    SimulationError,
    ToolError,
)
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network, Node, State
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.constants import WithAhead, without_ahead
from tilewright.graph.rewrites.definitions import lines_of_images, with_shuffles
from tilewright.graph.rewrites.normalisation import folded_normalisation
from tilewright.machine import Machine
from tilewright.network.plans import BY_THE_MODEL, Other, Search
from tilewright.network.requirements import without_look_ups
from tilewright.network.results import Comparison, NetworkRun
from tilewright.network.rival import compare_outputs, compare_with_onnxruntime, onnxruntime_session
from tilewright.network.stored import write_native
from tilewright.ops.op import show_shape
from tilewright.seeds.space import users_own
from tilewright.targets.host.location import warn_of_smaller_caches
from tilewright.targets.host.network.run import (
    BoundNetwork,
    HostSession,
    LoadedNetwork,
    NetworkCode,
    give_back,
    load_network,
)
from tilewright.tune.sampling import Contender, Timing, interleaved, protocol_for, ratio_of_speeds

_LOG = logging.getLogger(__name__)
_OURS = "tilewright"
_ADDRESSABLE_BYTES = 1 << 47
"""Address space of a process on processors with 48-bit addresses."""


@dataclass(frozen=True, eq=False, repr=False)
class HostNetwork:
    """A `NativeNetwork` on this computer. Some constants are made from results of the nodes
    `ahead`, which read only weights. Constants, arena, inputs and outputs stay in memory.
    """

    code: NetworkCode
    machine: Machine
    loaded: LoadedNetwork
    ahead: tuple[Node, ...] = ()
    states: tuple[State, ...] = ()
    weights: dict[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        stages = len(self.code.stages)
        return f"<HostNetwork {self.code.name}: {stages} stages on {self.machine.name}>"

    def run(
        self, *inputs: Array, weights: Arrays | None = None, **named: Array
    ) -> dict[str, Array]:
        given = self.given(inputs, named)
        if weights is not None:
            self.give_weights(weights)
        return (self._bound.for_shapes if self.code.cases else self._bound.computed)(given)

    def bind(self, inputs: Arrays, weights: Arrays | None = None) -> BoundNetwork:
        """The network bound to `inputs`, to be run repeatedly; the next call reuses its memory."""
        if weights is not None:
            self.give_weights(weights)
        self._bound.give(inputs)
        return self._bound

    def session(self, states: Arrays) -> HostSession:
        """The network in memory of its own, with `states` as initial states."""
        return HostSession(self.loaded.bind(self._constants), self.states, states)

    def give_weights(self, weights: Arrays) -> None:
        """Compute the constants from these weights, and from known ones for all others."""
        made = self.loaded.constants(WithAhead({**self.weights, **weights}, self.ahead))
        give_back()
        # the values of cached properties, which a frozen dataclass cannot assign
        self.__dict__["_constants"] = made
        self.__dict__["_bound"] = self.loaded.bind(made)

    def know(self, weights: Arrays) -> None:
        self.weights.update(weights)

    def given(self, inputs: Sequence[Array], named: Arrays) -> dict[str, Array]:
        """Inputs by name. Raises GraphError for too many or unknown inputs."""
        names = self.code.given
        found = {**dict(zip(names, inputs, strict=False)), **named}
        found = {name: np.asarray(array) for name, array in found.items()}
        if len(inputs) > len(names) or set(found) - set(names):
            raise GraphError(
                f"{self.code.name} takes the inputs {', '.join(map(quoted, names))}, found "
                f"{len(inputs)} in order and {', '.join(map(quoted, named)) or 'none'} by name"
            )
        return found

    def write(
        self,
        directory: str | Path,
        weights: Arrays | None = None,
        *,
        result: NetworkRun | None = None,
    ) -> Path:
        """Write C, header, Makefile, constants and result, which build and run without tilewright.
        Raises as `run` does for weights.
        """
        if weights is not None:
            self.give_weights(weights)
        numbers, code = [self._bound.constants], self.code
        artifact = Artifact(code.name, self.machine.target, code.files)
        found = result or self.described()
        with new_folder(Path(directory)) as folder:
            write_native(folder, self.machine, artifact, numbers, code.inputs, code.outputs, found)
        return Path(directory)

    @property
    def simulated(self) -> NoReturn:
        """Raises SimulationError: a network on this computer is measured."""
        raise SimulationError(
            f"machine {self.machine.name!r} is this computer: it is measured, not simulated",
            fix="measure it",
        )

    def described(self, compile_seconds: float = 0.0) -> NetworkRun:
        code = self.code
        return NetworkRun(
            code.name,
            self.machine.name,
            code.dtype,
            code.stages,
            compile_seconds,
            code.constant_bytes,
            code.arena_bytes,
            state_bytes=code.state_bytes,
            live_bytes=code.live_bytes,
        )

    def measured(
        self,
        network: Network,
        weights: Arrays,
        inputs: Arrays,
        *,
        compare: Other | None = None,
        compile_seconds: float = 0.0,
        bound: float | None = None,
    ) -> tuple[NetworkRun, dict[str, Array]]:
        """Measure the network, interleaved with onnxruntime if that is compared; returns the result
        and the outputs. If the computer is too busy, log a warning and return no measured times.
        """
        ours = self.bind(inputs)
        ours.repeat(1)
        outputs = ours.outputs()
        threads = self.code.threads
        contenders = [Contender(_OURS, ours.repeat, threads)]
        comparison: Comparison | None = None
        if compare == "onnxruntime":
            other = onnxruntime_session(network, weights, inputs, threads)
            contenders.append(Contender("onnxruntime", other.repeat, threads))
            comparison = compare_with_onnxruntime(other, outputs, bound)
        elif compare == "reference":
            comparison = compare_outputs(compare, network, weights, inputs, outputs, bound)
        run = structs.replace(self.described(compile_seconds), comparison=comparison)
        try:
            timings = interleaved(contenders, protocol_for(threads))
        except BusyError as error:
            _LOG.warning("times are the model's, not measured: %s", error.message)
            return run, outputs
        timing = timings[_OURS]
        run = structs.replace(
            self._with_stages(run, ours),
            milliseconds=1e3 * timing.seconds,
            gflops=network.flops / timing.seconds / 1e9,
            clock=timing.clock,
            comparison=_timed(comparison, timings),
        )
        return run, outputs

    def _with_stages(self, found: NetworkRun, bound: BoundNetwork) -> NetworkRun:
        """The result with measured times of the stages."""
        times = zip(found.stages, self.code.flops, self.profile(bound), strict=True)
        stages = tuple(
            structs.replace(
                stage,
                measured_milliseconds=1e3 * seconds,
                gflops=flops / max(seconds, 1e-9) / 1e9,
            )
            for stage, flops, seconds in times
        )
        return structs.replace(found, stages=stages)

    def profile(self, bound: BoundNetwork, runs: int = 15) -> tuple[float, ...]:
        """Median seconds of each stage over `runs` runs of the whole network."""
        samples = [bound.profile() for _ in range(runs)]
        return tuple(median(column) for column in zip(*samples, strict=True))

    @cached_property
    def _constants(self) -> Array:
        made = self.loaded.constants(WithAhead(self.weights, self.ahead))
        self.weights.clear()
        give_back()
        return made

    @cached_property
    def _bound(self) -> BoundNetwork:
        return self.loaded.bind(self._constants)


def _timed(comparison: Comparison | None, timings: Mapping[str, Timing]) -> Comparison | None:
    """The comparison with onnxruntime's times, if these were measured."""
    if comparison is None or "onnxruntime" not in timings:
        return comparison
    ratio = ratio_of_speeds(timings[_OURS], timings["onnxruntime"])
    return structs.replace(
        comparison,
        milliseconds=1e3 * timings["onnxruntime"].seconds,
        speedup=ratio.median,
        spread=ratio.spread,
    )


def compile_network(
    network: Network,
    machine: Machine,
    search: Search = BY_THE_MODEL,
    *,
    progress: Progress = silent,
) -> HostNetwork:
    """Choose kernels and layouts, generate and compile the code of a network.

    Raises GraphError for operators that cannot run here, CapacityError if nothing fits.
    """
    _require_addressable(network)
    network = without_look_ups(network, reads=False)
    own = with_shuffles(lines_of_images(folded_normalisation(network)))
    own, ahead = without_ahead(own)
    code = _code(own, machine, search, progress)
    loaded = load_network(code, progress)
    warn_of_smaller_caches(machine)
    return HostNetwork(code, machine, loaded, ahead, own.states, dict(network.values))


def _require_addressable(network: Network) -> None:
    """Raise CapacityError for a tensor that exceeds a process's address space; there may be less
    memory still.
    """
    for tensor in network.tensors.values():
        size = prod(tensor.shape) * dtype(tensor.dtype).size_bytes
        if size > _ADDRESSABLE_BYTES:
            raise CapacityError(
                f"{network.name}: the tensor {quoted(tensor.name)}, {show_shape(tensor.shape)}, "
                f"takes {size:,} bytes, more than a process addresses",
                fix="a smaller --batch or --shape",
            )


def _code(network: Network, machine: Machine, search: Search, progress: Progress) -> NetworkCode:
    """The code of a network, from the cache or generated by a worker. With a user's own seeds it is
    generated here, uncached: a worker does not know them, and no digest identifies their version.
    """
    if users_own():
        generate = import_module("tilewright.targets.host.network.generate")
        code: NetworkCode = generate.generated(network, machine, search, progress)
        return code
    structure = (network.name, network.inputs, network.weights, network.nodes, network.outputs,
                 network.states, network.cases)  # fmt: skip
    key = digest(repr(structure), msgspec.json.encode(machine), repr(search), own_sources())
    return CacheStore("network").value(
        key, NetworkCode, lambda: generated_apart(network, machine, search, progress)
    )


_WORKER = "tilewright.targets.host.network.worker"
_PATIENCE_SECONDS = 5.0
"""Grace period in which an unwanted worker tidies up."""


def generated_apart(
    network: Network, machine: Machine, search: Search, progress: Progress
) -> NetworkCode:
    """Run `generate.generated` in another process, and return its code or raise its error. Raises
    ToolError if that process ends without an answer.
    """
    request = pickle.dumps((replace(network, values={}), machine, search))
    with _worker() as (process, requests, answers):
        with suppress(BrokenPipeError):
            requests.write(request)
            requests.flush()
        with suppress(EOFError, pickle.UnpicklingError):
            return _answer(answers, progress)
        status = process.wait()
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    raise ToolError(
        f"the process that generates the code of {network.name!r} ended with {how}",
        fix="see whether the computer has run out of memory",
    )


def _answer(answers: IO[bytes], progress: Progress) -> NetworkCode:
    while True:
        match pickle.load(answers):
            case NetworkCode() as code:
                return code
            case Exception() as error:
                raise error
            case (stage, done, total):
                progress(stage, done, total)


@contextmanager
def _worker() -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A worker process with its two pipes; it ends when the context is left, whatever happens."""
    # A subprocess, not a fork: threads may run here, such as those of a network. It finds modules
    # where this process does, and does not run the user's script as multiprocessing would.
    command = [sys.executable, "-P", "-m", _WORKER]
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    with _interrupts_blocked():
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, process.stdin, process.stdout
    finally:
        _end(process, process.stdin, process.stdout)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT: a process started inside inherits the block until it unblocks SIGINT itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes], *pipes: IO[bytes]) -> None:
    """Close the process's input, which tells it to stop; kill it if it does not."""
    try:
        for pipe in pipes:
            with suppress(OSError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
