"""Training steps on this computer: ours against torch, eager and compiled.

    PYTHONPATH=src python benchmarks/host_training.py [NAME:BATCH ...] [--quick] [--csv FILE]

Networks of the zoo (by default digits:64 and resnet50:8) run in f32 on one thread, with equal
initial weights, images and labels for all three: forward, backward, and the update with momentum.
Torch compiles the loss and the optimiser's step with inductor. The contenders take turns; "step
over" is the median ratio of speeds over the rounds with half the interquartile range, "loss" that
of the first step, which must agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from host.torch_network import torch_module
from shared.output import note, processor, text_table
from shared.results import add_csv_option, write_results

from tilewright.codegen.artifact import Array
from tilewright.compiler.entry import compile as compiled
from tilewright.graph import zoo
from tilewright.graph.graph import Network
from tilewright.graph.training import LABELS, LOSS, Optimiser, training_step
from tilewright.graph.weights import initial_weights
from tilewright.tune.sampling import DEFAULT_PROTOCOL, Contender, interleaved, ratio_of_speeds

OPTIMISER = Optimiser("momentum", rate=1e-3)
QUICK_ROUNDS = 3
Step = Callable[[], float]
"""A function that runs one step and returns the loss before the update."""


@dataclass(frozen=True)
class Task:
    """A network that ends in scores, its initial weights, and a batch."""

    network: Network
    weights: dict[str, Array]
    images: Array
    labels: Array


def drawn(name: str, batch: int) -> Task:
    """The network without its last softmax, with random weights, images and labels."""
    whole, rng = zoo.network(name, batch, dtype="f32"), np.random.default_rng(0)
    *nodes, last = whole.nodes
    network = replace(whole, nodes=tuple(nodes), outputs=last.inputs)
    (classes,) = last.op.out_shape[1:]
    images = rng.standard_normal(network.inputs[0].shape).astype("f4")
    return Task(network, initial_weights(network, 0), images, rng.integers(0, classes, batch))


def ours(task: Task) -> Step:
    """Tilewright's step, compiled, in a session."""
    step = training_step(task.network, OPTIMISER)
    states = {s.tensor: np.zeros(step.tensors[s.tensor].shape, "f4") for s in step.states}
    session = compiled(step, "host").session({**states, **task.weights})
    rows = np.eye(step.tensors[LABELS].shape[1], dtype="f4")[task.labels]
    given = {task.network.inputs[0].name: task.images, LABELS: rows}
    return lambda: float(session.step(given)[LOSS][0])


def torchs(task: Task, *, fast: bool) -> Step:
    """Torch's step, by autograd and torch's own optimiser; `fast` compiles both."""
    module = torch_module(task.network, {n: w.copy() for n, w in task.weights.items()}).train()
    images, labels = torch.from_numpy(task.images), torch.from_numpy(task.labels)
    optimiser = torch.optim.SGD(module.parameters(), OPTIMISER.rate, OPTIMISER.decay)

    def loss_of(x: Any) -> Any:
        return torch.nn.functional.cross_entropy(module(x)[0], labels)

    compute, update = loss_of, optimiser.step
    if fast:
        compute, update = torch.compile(loss_of), torch.compile(optimiser.step)

    def step() -> float:
        optimiser.zero_grad()
        loss = compute(images)
        loss.backward()
        update()
        return float(loss.detach())

    return step


def repeat(step: Step, calls: int) -> None:
    """Run `calls` steps."""
    for _ in range(calls):
        step()


def rows_of(name: str, batch: int, rounds: int) -> list[dict[str, object]]:
    """One row for each contender."""
    task, steps = drawn(name, batch), dict[str, Step]()
    makers = {"tilewright": ours, "torch": lambda t: torchs(t, fast=False),
              "torch compiled": lambda t: torchs(t, fast=True)}  # fmt: skip
    losses = {}
    for who, made in makers.items():
        note(f"{name}, batch {batch}: {who} gets ready")
        steps[who] = made(task)
        losses[who] = steps[who]()

    contenders = [Contender(who, partial(repeat, step)) for who, step in steps.items()]
    found = interleaved(contenders, DEFAULT_PROTOCOL.hurried(rounds, 2e-2))
    first = found["tilewright"]
    rows: list[dict[str, object]] = []
    for who, timing in found.items():
        ratio = ratio_of_speeds(first, timing)
        rows.append({
            "network": name, "batch": batch, "contender": who,
            "ms": f"{1e3 * timing.seconds:.3f}",
            "step_over": f"{ratio.median:.2f} +- {100 * ratio.spread:.0f} %",
            "loss": f"{losses[who]:.5f}", "clock": timing.clock,
        })  # fmt: skip
    return rows


def main() -> None:
    """Time the steps, print the table, and write the CSV file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=["digits:64", "resnet50:8"])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    add_csv_option(parser)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rounds = QUICK_ROUNDS if asked.quick else DEFAULT_PROTOCOL.rounds
    pairs = [network.partition(":") for network in asked.networks]
    rows = [row for name, _, batch in pairs for row in rows_of(name, int(batch), rounds)]
    print(text_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    write_results(
        asked.csv,
        rows,
        title="Training steps on this computer, f32, one thread",
        kind="measured",
        processor=processor(),
        conditions=f"torch {torch.__version__}, in turns",
        meanings={"step_over": "our speed over the contender's"},
    )


if __name__ == "__main__":
    main()
