"""Whole networks in 16 bits on a simulated Cambricon, once with values: equal to their meaning.

    python tools/fixed_networks.py [NETWORK ...] [--batch N] [--step] [--machine dla-al]

Compiles a known network, or with `--step` a training step of it, runs its program on the device
with random weights and images, and interprets the plan call by call: all outputs, of a step the
loss and every weight, have to be equal bit for bit. Prints cycles beside the estimate, seconds of
the processor, and how many elements saturated by layer. Fails where a bit differs.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time

import numpy as np

import tilewright as tw
from tilewright.cli.output import OutputOptions, progress_bar
from tilewright.codegen.artifact import Array
from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.graph.training import Optimiser, training_step
from tilewright.graph.weights import random_inputs, random_weights
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.targets.cambricon.networks import DeviceNetwork

KINDS = "q8.8:q48.16:q8.8"
ONE = 256


def numbers(network: Network, step: Network) -> dict[str, Array]:
    """Random images and weights of a network, and the states and labels of its step."""
    given = {**random_weights(step), **random_weights(network), **random_inputs(network)}
    if labels := step.tensors.get("labels"):
        images, classes = labels.shape
        chosen = np.random.default_rng(1).integers(0, classes, images)
        given["labels"] = np.eye(classes, dtype=np.int16)[chosen] * ONE
    return given


def check(network: Network, step: Network, machine: str, progress: Progress) -> bool:
    """Compile, run and interpret a step, or the network itself; False if an output differs."""
    began = process_time()
    made = tw.compile(step, machine=machine, progress=progress).plan
    assert isinstance(made, PlannedNetwork)
    plan, given = made.plan, numbers(network, step)
    inputs = given if made.arranged is None else made.arranged(given)
    weights = {**given, **made.weights}
    planned = process_time()
    found, run = DeviceNetwork(plan).run(inputs, weights, progress=progress)
    executed = process_time()
    meant = interpret_plan(plan, inputs, weights)
    seconds = (planned - began, executed - planned, process_time() - executed)
    print(
        "seconds of the processor: compiled {:.0f}, run {:.0f}, interpreted {:.0f}".format(*seconds)
    )
    print(
        f"{run.cycles} cycles, estimate {plan.estimate_cycles:.0f}; {run.instructions} statements"
    )
    print(f"saturated elements by layer: {found.saturated or 'none'}")
    different = [name for name in found if not np.array_equal(found[name], meant[name])]
    elements = sum(x.size for x in found.values())
    print(f"{len(found)} outputs of {elements} elements: {', '.join(different) or 'none'} differ")
    return not different


def main() -> int:
    """Check the networks; the exit code is 0 if all bits are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=["alexnet", "vgg16"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--machine", default="dla-al")
    asked, equal = parser.parse_args(), True
    for name in asked.networks:
        network = step = tw.load(name, batch=asked.batch, dtype=KINDS)
        if asked.step:
            step = training_step(network, Optimiser("sgd", rate=0.5))
        with progress_bar(OutputOptions()) as progress:
            equal &= check(network, step, asked.machine, progress)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
