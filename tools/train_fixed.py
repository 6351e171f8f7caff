"""Digits trained in 16 bits with 8 fraction bits on a simulated Cambricon, and in floats beside it.

    python tools/train_fixed.py [mlp | cnn] [--epochs N] [--every N] [--machine dla-al]

All steps are computed by interpreting the step's plan, where products that round once have the bits
of their operators' references. Every N steps (`--every`) the same step is also run, from the same
states, by the DLA-AL program on the device, and interpreted call by call: loss, scores and all
states have to be equal bit for bit. The same examples train the network in double precision, by the
operators' references. Prints loss and accuracies after each epoch, and the elements that saturated
in the checked steps, by stage. Fails if a bit differs, or if fixed point ends a point behind.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import tilewright as tw
from tilewright.codegen.artifact import Array
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.training import Optimiser
from tilewright.ir.visit import calls_of
from tilewright.network.interpret import interpret_plan
from tilewright.network.plan import Stage
from tilewright.network.planned import PlannedNetwork
from tilewright.network.plans import Session
from tilewright.ops import CONTRACTIONS, Bias, Unary, conv2d, flatten, gemm, max_pool2d
from tilewright.targets.cambricon.primitives import SaturatingAdd
from tilewright.training import Settings, digits, train
from tilewright.training.checkpoint import Epoch

KINDS = "q8.8:q48.16:q8.8"
BATCH, SEED, SHARE = 32, 0, 0.2
EPOCHS = {"mlp": 20, "cnn": 12}
Begun = Callable[[Network, Mapping[str, Array]], Session]


def mlp() -> Network:
    """64 pixels, 64 hidden units, 10 scores."""
    net = NetworkBuilder("mlp", "f64")
    x = net.input("images", (BATCH, 1, 8, 8))
    x = net.apply(flatten(net.shape(x)), x, name="flat")
    x = dense(net, x, "hidden", 64)
    x = net.apply(Unary("relu", net.shape(x)), x, name="relu")
    return net.build((dense(net, x, "scores", 10),))


def cnn() -> Network:
    """A 3 x 3 convolution with 8 channels, maximum pooling of 2 x 2 pixels, 10 scores."""
    net = NetworkBuilder("cnn", "f64")
    x = net.input("images", (BATCH, 1, 8, 8))
    op = conv2d(batch=BATCH, in_channels=1, out_channels=8, height=8, width=8, kernel=3, padding=1)
    x = net.apply(op, x, net.weight("w", op.input_shapes[1]), name="conv")
    x = net.apply(Bias(net.shape(x)), x, net.weight("b", (8,)), name="bias")
    x = net.apply(Unary("relu", net.shape(x)), x, name="relu")
    x = net.apply(max_pool2d(net.shape(x), 2, stride=2), x, name="pool")
    x = net.apply(flatten(net.shape(x)), x, name="flat")
    return net.build((dense(net, x, "scores", 10),))


def dense(net: NetworkBuilder, x: str, name: str, features: int) -> str:
    """A fully connected layer with bias."""
    images, inputs = net.shape(x)
    w, b = net.weight(f"{name}_w", (features, inputs)), net.weight(f"{name}_b", (features,))
    y = net.apply(gemm(images, features, inputs, transpose_b=True), x, w, name=f"{name}_product")
    return net.apply(Bias(net.shape(y), 1), y, b, name=name)


@dataclass
class Checked:
    """A session that interprets the plan, and checks every `every`-th step on the device."""

    planned: PlannedNetwork
    held: dict[str, Array]
    every: int
    number: int = 0
    saturated: Counter[str] = field(default_factory=Counter)
    checked: int = 0

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run a step; raises SystemExit if the device differs in a bit."""
        found = self._meant({**inputs, **self.held})
        if self.number % self.every == 0:
            self._check({**inputs, **self.held}, found)
        self.number += 1
        states = self.planned.network.states
        self.held = {state.tensor: found.pop(state.next) for state in states}
        return found

    def until(self, output: str, inputs: Mapping[str, Array]) -> Array:
        """An output of a step that is dropped."""
        return self._meant({**inputs, **self.held})[output]

    def states(self) -> dict[str, Array]:
        """Copies of the states."""
        return {name: array.copy() for name, array in self.held.items()}

    def give(self, states: Mapping[str, Array]) -> None:
        """Replace the states."""
        self.held = dict(states)

    def _meant(self, given: Mapping[str, Array]) -> dict[str, Array]:
        arranged = self.planned.arranged
        inputs = given if arranged is None else arranged(given)
        plan, weights = self.planned.plan, self.planned.weights
        return interpret_plan(plan, inputs, weights, self._is_rounded_once)

    def _is_rounded_once(self, stage: Stage) -> bool:
        if stage.op.kind not in CONTRACTIONS or any(
            space.nest.epilogue for space in stage.candidate.seed.spaces
        ):
            return False
        return next(calls_of(self.planned.plan.program(stage).body, SaturatingAdd), None) is None

    def _check(self, given: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        made = self.planned
        device = made.run(**given)
        arranged = given if made.arranged is None else made.arranged(given)
        for who, other in (
            ("the device", device),
            ("the interpreter", interpret_plan(made.plan, arranged, made.weights)),
        ):
            wrong = {n: int((other[n] != found[n]).sum()) for n in found}
            if any(wrong.values()):
                sys.exit(f"step {self.number}: {who} differs in elements of {wrong}")
        self.saturated.update(device.saturated)
        self.checked += 1


class References:
    """A session by the operators' references."""

    def __init__(self, step: Network, states: Mapping[str, Array]) -> None:
        self.network, self.held = step, dict(states)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A step."""
        found = self.network.evaluate({**inputs, **self.held})
        self.held = {state.tensor: found.pop(state.next) for state in self.network.states}
        return found

    def until(self, output: str, inputs: Mapping[str, Array]) -> Array:
        """An output of a step that is dropped."""
        return self.network.evaluate({**inputs, **self.held})[output]

    def states(self) -> dict[str, Array]:
        """Copies of the states."""
        return {name: array.copy() for name, array in self.held.items()}

    def give(self, states: Mapping[str, Array]) -> None:
        """Replace the states."""
        self.held = dict(states)


def trained(name: str, asked: argparse.Namespace) -> None:
    """Train one network in floats and in fixed point, and compare the accuracies."""
    network = {"mlp": mlp, "cnn": cnn}[name]()
    examples, test = digits().divided(SHARE, SEED)
    settings = Settings(asked.epochs or EPOCHS[name], Optimiser("sgd", rate=0.5), SEED)
    checks: list[Checked] = []

    def checked(step: Network, states: Mapping[str, Array]) -> Checked:
        planned = tw.compile(step, machine=asked.machine).plan
        assert isinstance(planned, PlannedNetwork)
        checks.append(Checked(planned, dict(states), asked.every))
        return checks[-1]

    def accuracy(kind: str, own: Network, begun: Begun) -> float:
        found = train(own, examples, test, settings=settings, told=told(kind), begun=begun)
        return found.epochs[-1].test_accuracy

    floats = accuracy("floats", network, References)
    fixed_point = accuracy("fixed point", FixedPoint(KINDS).apply(network), checked)
    (check,) = checks
    print(
        f"{name}: {fixed_point:.2%} in fixed point, {floats:.2%} in floats; {check.checked} of "
        f"{check.number} steps equal on the device bit for bit; saturated {dict(check.saturated)}"
    )
    if fixed_point < floats - 0.01:
        sys.exit("fixed point is more than a point behind")


def told(kind: str) -> Callable[[Epoch], None]:
    """A function that prints an epoch."""

    def say(epoch: Epoch) -> None:
        print(
            f"{kind}, epoch {epoch.number}: loss {epoch.loss:.4f}, right {epoch.test_accuracy:.2%}",
            flush=True,
        )

    return say


def main() -> None:
    """Train the selected networks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", choices=[*EPOCHS])
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--machine", default="dla-al")
    asked = parser.parse_args()
    for name in [asked.network] if asked.network else EPOCHS:
        trained(name, asked)


if __name__ == "__main__":
    main()
