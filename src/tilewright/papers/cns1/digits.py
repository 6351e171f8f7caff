"""Training on handwritten digits: in scaled arithmetic (also by sets of patterns), in the report's
literal arithmetic and in floating point; several nodes must match one bit for bit.

The digits are 1797 images of 8 x 8 pixels (`common.digits`). A network of 64 pixels and a bias, 256
hidden nodes and 10 outputs learns four fifths of them; accuracy is on the rest. The report trains
no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tilewright.common.digits import LARGEST_PIXEL, handwritten_digits
from tilewright.graph.tables import RATE, SCALING, table_step
from tilewright.machine import Machine, load_machine
from tilewright.papers.cns1.cases import simulated_row
from tilewright.papers.cns1.plans import perceptron_of
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.partition.objective import TIME
from tilewright.targets.cns1.division import DIVISION
from tilewright.targets.cns1.kernels.learning import learn

Array = NDArray[Any]
TITLE = "handwritten digits: accuracy by arithmetic, equal bits on several nodes"
HIDDEN, OUTPUTS, INPUTS, CLASSES = 256, 512, 80, 10
EPOCHS, SEEDS, SHIFT, _STEPS = 10, 5, 8, 3
_ONE, _HALF = 127, 1 << 14
SETS = (1, 2, 3)
"""Patterns per weight update."""


class _Weights(NamedTuple):
    """Both matrices: [inputs, hidden] and [hidden, outputs], i16."""

    hidden: Array
    outputs: Array


@dataclass(frozen=True)
class Digits:
    """Activations [patterns, inputs], a bias after the pixels, and each pattern's class."""

    inputs: Array
    classes: Array

    @property
    def wanted(self) -> Array:
        """Desired outputs: the largest activation for the class; outputs beyond the classes keep
        the value of zero weights.
        """
        found = np.full((len(self.classes), OUTPUTS), _ONE // 2 + 1, np.int8)
        found[:, :CLASSES] = np.where(np.arange(CLASSES) == self.classes[:, np.newaxis], _ONE, 0)
        return found


def _digits() -> Digits:
    """All digits."""
    pixels, classes = handwritten_digits()
    inputs = np.zeros((len(pixels), INPUTS), np.int8)
    inputs[:, :64] = np.round(pixels.reshape(-1, 64) * (_ONE / LARGEST_PIXEL))
    inputs[:, 64] = _ONE
    return Digits(inputs, classes)


def sigmoid_table() -> Array:
    """Activations of 7 bits for sums of weights and activations over 2 ** `SHIFT`."""
    places = np.arange(-_HALF, _HALF)
    bits = SCALING.weight_bits + SCALING.activation_bits - SHIFT
    return np.round(_ONE / (1 + np.exp(-places / (1 << bits)))).astype(np.int8)


def first_weights(seed: int) -> _Weights:
    """Small random weights; zero for outputs beyond the classes."""
    random, unit = np.random.default_rng(seed), 1 << SCALING.weight_bits
    hidden = np.round(random.normal(0, 0.15, (INPUTS, HIDDEN)) * unit).astype(np.int16)
    outputs = np.zeros((HIDDEN, OUTPUTS), np.int16)
    outputs[:, :CLASSES] = np.round(random.normal(0, 0.15, (HIDDEN, CLASSES)) * unit)
    return _Weights(hidden, outputs)


def arithmetic(*, scaled: bool) -> Array:
    """Arithmetic for `learn`: scaled, or the report's literal one."""
    one = 1 << SCALING.activation_bits if scaled else 1
    own = (SCALING.weight_bits, 2 * SCALING.activation_bits, SCALING.update_shift)
    return np.array([SHIFT, RATE, *own, one, scaled])


def in_fixed_point(weights: _Weights, given: Digits, order: Array, *, scaled: bool) -> _Weights:
    """Weights after these sets [sets, patterns]; outputs beyond the classes keep theirs."""
    a, b = weights.hidden.copy(), weights.outputs[:, :CLASSES].copy()
    wanted, table = given.wanted[:, :CLASSES].astype(np.int64), sigmoid_table().astype(np.int64)
    learn(a, b, given.inputs.astype(np.int64), wanted, order, table, arithmetic(scaled=scaled))
    outputs = weights.outputs.copy()
    outputs[:, :CLASSES] = b
    return _Weights(a, outputs)


def in_floating_point(weights: _Weights, given: Digits, order: Array) -> tuple[Array, Array]:
    """Weights after these patterns in floating point, at the same rate."""
    unit, rate = 1 << SCALING.weight_bits, RATE / (1 << (SCALING.error_bits - 7))
    a, b = weights.hidden / unit, weights.outputs[:, :CLASSES] / unit
    inputs, wanted = given.inputs / _ONE, given.wanted[:, :CLASSES] / _ONE
    for n in order:
        hidden = 1 / (1 + np.exp(-inputs[n] @ a))
        error = rate * (wanted[n] - 1 / (1 + np.exp(-hidden @ b)))
        back = hidden * (1 - hidden) * (b @ error)
        b += np.outer(hidden, error)
        a += np.outer(inputs[n], back)
    return a, b


class Trial(Struct, frozen=True):
    """An arithmetic, the seed of weights and order, and the patterns per set."""

    mode: str
    seed: int
    together: int = 1


def accuracy(trial: Trial) -> float:
    """Percent of the test digits recognised."""
    given, (order, others) = _digits(), _shuffled_patterns(trial.seed)
    if trial.mode == "float":
        a, b = in_floating_point(first_weights(trial.seed), given, order)
        best = (1 / (1 + np.exp(-given.inputs[others] / _ONE @ a))) @ b
    else:
        best = _recognised(learnt(trial), given.inputs[others])
    return float(100 * (best.argmax(axis=1) == given.classes[others]).mean())


def learnt(trial: Trial) -> _Weights:
    """Weights after all epochs in fixed point."""
    order, _ = _shuffled_patterns(trial.seed)
    first, scaled = first_weights(trial.seed), trial.mode == "scaled"
    return in_fixed_point(first, _digits(), order.reshape(-1, trial.together), scaled=scaled)


def _shuffled_patterns(seed: int) -> tuple[Array, Array]:
    """The training patterns in order over all epochs, and the test patterns."""
    random = np.random.default_rng(100 + seed)
    places = random.permutation(len(_digits().classes))
    learn_from, others = np.split(places, [len(places) * 4 // 5])
    return np.concatenate([random.permutation(learn_from) for _ in range(EPOCHS)]), others


def _recognised(weights: _Weights, inputs: Array) -> Array:
    """Outputs of the classes, in fixed point."""
    table, found = sigmoid_table(), inputs.astype(np.int64)
    for matrix in (weights.hidden, weights.outputs[:, :CLASSES]):
        sums = (found @ matrix.astype(np.int64)) >> SHIFT
        found = table[np.clip(sums, -_HALF, _HALF - 1) + _HALF].astype(np.int64)
    return found


def digits_machine(rows: int, columns: int, sharers: int, together: int = 2) -> Machine:
    """A CNS-1 of this shape, whose kernels process `together` patterns, at least two."""
    sizes = {"mesh.rows": rows, "mesh.columns": columns, "messages.hidden_sharers": sharers}
    fabric = {"fabrics.torrents.rows": rows, "fabrics.torrents.columns": columns}
    kernels = {"kernels.patterns": max(2, together)}
    return load_machine("cns1-128", {**sizes, **fabric, **kernels})


def bits_agree(
    shape: tuple[int, int, int], steps: int, together: int = 1, *, scaled: bool = True
) -> bool:
    """True if a machine's compiled steps of `together` patterns, with weights in place, match the
    fixed-point network bit for bit.
    """
    machine, given, weights = digits_machine(*shape, together), _digits(), first_weights(0)
    network = perceptron_of((INPUTS, HIDDEN, OUTPUTS), together, SHIFT)
    step = table_step(network, scaling=SCALING if scaled else None)
    plan = DIVISION.divide(step, machine, None, TIME, 1.0)
    for own in np.arange(steps * together).reshape(steps, together):
        patterns = {"x": given.inputs[own], "labels": given.wanted[own]}
        found = plan.run({**patterns, **_weights_by_name(weights)})
        weights = in_fixed_point(weights, given, own[np.newaxis], scaled=scaled)
        states = [found[state.next] for state in step.states]
        if any((a != b).any() for a, b in zip(states, weights, strict=True)):
            return False
    return True


def _weights_by_name(weights: _Weights) -> dict[str, Array]:
    return {"table": sigmoid_table(), "w0": weights.hidden, "w1": weights.outputs}


def recall_agrees(
    shape: tuple[int, int, int], patterns: int, weights: _Weights
) -> tuple[bool, float]:
    """(True if all nodes' programs, every message included, match the fixed-point network's outputs
    for test digits bit for bit, cycles per pattern).
    """
    inputs = _digits().inputs[_shuffled_patterns(0)[1][:patterns]]
    network = perceptron_of((INPUTS, HIDDEN, OUTPUTS), patterns, SHIFT)
    plan = DIVISION.divide(network, digits_machine(*shape), None, TIME, 1.0)
    (found,) = plan.run({"x": inputs, **_weights_by_name(weights)}).values()
    same = bool((found[:, :CLASSES] == _recognised(weights, inputs)).all())
    return same, plan.simulated["cycles"] / patterns


def run(lab: Lab) -> Findings:
    """Accuracies beside floating point's, and machines compared with the fixed-point network."""
    seeds = range(1 if lab.quick else SEEDS)
    kinds = [("scaled", size) for size in SETS] + [("literal", 1), ("float", 1)]
    trials = [Trial(mode, seed, size) for mode, size in kinds for seed in seeds]
    found = dict(zip(trials, lab.map(accuracy, trials), strict=True))
    rows = [_accuracy(kind, [found[t] for t in trials if (t.mode, t.together) == kind])
            for kind in kinds]  # fmt: skip
    weights = learnt(Trial("scaled", 0))
    for name, shape in (("2 x 4 nodes", (2, 4, 4)), ("1 node", (1, 1, 1))):
        for size in SETS:
            same = float(bits_agree(shape, _STEPS, size))
            what = f"{name}: bits of {_STEPS} steps of {size} patterns"
            rows.append(compare(what, 1, same, "exact", printed=False))
        count = 16 if lab.quick else len(_digits().classes) - len(_digits().classes) * 4 // 5
        agrees, cycles = recall_agrees(shape, count, weights)
        what = f"{name}: bits of {count} digits recalled with learnt weights, every message"
        rows.append(compare(what, 1, float(agrees), "exact", printed=False))
        rows.append(simulated_row(f"{name}: recall of a digit", None, cycles))
    return Findings(tuple(rows), {"patterns learnt": 1437 * EPOCHS})


def _accuracy(kind: tuple[str, int], each: list[float]) -> Row:
    mode, size = kind
    said = f"{len(each)} seeds, {min(each):.1f} to {max(each):.1f}"
    name = f"{mode} arithmetic" + f", sets of {size}" * (size > 1)
    return compare(name, None, float(np.mean(each)), "exact", note=said, unit="%")
