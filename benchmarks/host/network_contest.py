"""Contenders for whole networks, with equal numbers: ours, onnxruntime, torch's compiled mode."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from shared.output import note

from host.contest import Missing
from host.processes import FOLDER
from tilewright.codegen.artifact import Array
from tilewright.common.version import tool_version
from tilewright.graph import list_networks, network
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import random_weights
from tilewright.machine import find_machine
from tilewright.network.rival import onnxruntime_session
from tilewright.targets.host.network.native import compile_network

OURS = "tilewright"


@dataclass(frozen=True)
class Task:
    """A network with weights and inputs that every process draws from the same seed: from the zoo,
    or from a file in `folder` that torchvision has written.
    """

    name: str
    batch: int
    folder: Path

    @property
    def file(self) -> Path | None:
        """The ONNX file, None for a network of the zoo."""
        return None if self.name in list_networks() else self.folder / f"{self.name}.onnx"

    @cached_property
    def network(self) -> Network:
        """The graph."""
        return load_onnx(self.file) if self.file else network(self.name, self.batch, dtype="f32")

    @cached_property
    def weights(self) -> dict[str, Array]:
        """Weights with which activations neither grow nor vanish; empty for a file, which has its
        own.
        """
        return {} if self.file else random_weights(self.network)

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """Normally distributed images."""
        chance = np.random.default_rng(0)
        return {t.name: chance.standard_normal(t.shape, np.float32) for t in self.network.inputs}


def write_files(names: Sequence[str], folder: Path, batch: int) -> None:
    """Write ONNX files of the networks of torchvision and timm, in a process of its own."""
    names = [name for name in names if name not in list_networks()]
    if not names:
        return
    note(f"torchvision writes {', '.join(names)}")
    if importlib.util.find_spec("torchvision") is None:
        raise SystemExit(f"{', '.join(names)}: not in the zoo, and torchvision is not installed")
    command = [sys.executable, "-m", "host.torchvision_model", str(folder), str(batch), *names]
    paths = os.pathsep.join([str(FOLDER), *sys.path])
    subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, check=True)


@dataclass(frozen=True)
class Ready:
    """A network ready to run: `run(n)` computes n times, `outputs` returns the latest outputs."""

    run: Callable[[int], object]
    outputs: Callable[[], Mapping[str, Array]]


@dataclass(frozen=True)
class Runner:
    """A contender that runs networks; `prepare` makes one ready."""

    name: str
    version: str
    prepare: Callable[[Task], Ready]


def find_runners(threads: int, machine: str) -> list[Runner | Missing]:
    """Our contender, compiled for `machine`, then the rivals, installed or `Missing`."""
    return [_ours(threads, machine), _onnxruntime(threads), _torch(threads)]


def timed(runner: Runner, task: Task) -> tuple[Ready, float]:
    """(network after its first run, seconds until then, excluding those of drawing numbers)."""
    _ = task.weights, task.inputs
    started = time.perf_counter()
    ready = runner.prepare(task)
    ready.run(1)
    return ready, time.perf_counter() - started


def _ours(threads: int, machine: str) -> Runner:
    target = find_machine(machine, {"threads.count": threads})

    def prepare(task: Task) -> Ready:
        compiled = compile_network(simplified(task.network), target)
        bound = compiled.bind(task.inputs, task.weights)
        return Ready(bound.repeat, bound.outputs)

    return Runner(OURS, tool_version(), prepare)


def _onnxruntime(threads: int) -> Runner | Missing:
    if importlib.util.find_spec("onnxruntime") is None:
        return Missing("onnxruntime", "it is not installed", "pip install onnxruntime")

    def prepare(task: Task) -> Ready:
        session = onnxruntime_session(task.network, task.weights, task.inputs, threads)
        return Ready(session.repeat, session.outputs)

    return Runner("onnxruntime", importlib.metadata.version("onnxruntime"), prepare)


def _torch(threads: int) -> Runner | Missing:
    name = "torch compiled"
    if importlib.util.find_spec("torch") is None:
        return Missing(name, "torch is not installed", "pip install torch")
    return Runner(name, importlib.metadata.version("torch"), lambda task: _inductor(task, threads))


def _inductor(task: Task, threads: int) -> Ready:
    """torch.compile with constant weights and channels-last images."""
    import torch  # optional and heavy: in this contender's process alone
    from torch._inductor import config

    from host.torch_network import torch_module

    torch.set_num_threads(threads)
    config.freezing = True
    last: Any = {"memory_format": torch.channels_last}
    if task.file:
        from host.torchvision_model import loaded

        module = loaded(task.name, task.folder).to(**last)
    else:
        module = torch_module(task.network, task.weights).to(**last)
    compiled = torch.compile(module)
    images = [torch.from_numpy(task.inputs[t.name]).to(**last) for t in task.network.inputs]
    found: list[Any] = []

    def run(calls: int) -> None:
        with torch.no_grad():
            for _ in range(calls):
                outputs = compiled(*images)
        found[:] = outputs if isinstance(outputs, tuple) else (outputs,)

    def outputs() -> dict[str, Array]:
        names = task.network.outputs
        return {name: y.numpy() for name, y in zip(names, found, strict=True)}

    return Ready(run, outputs)
