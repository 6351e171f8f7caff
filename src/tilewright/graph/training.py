"""A training step as one network: forward, backward and the update of every weight.

In: a network with one output, scores or probabilities of classes, and an optimiser. Out: a network
with inputs for images, labels and states, and outputs for the loss and the states' next values.
Gradients are derived by `graph.gradient`, without knowledge of any operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from tilewright.common.dtypes import DType, converted, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.gradient import with_gradients
from tilewright.graph.graph import Network, Node, State
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.added_maps import added_maps
from tilewright.graph.rewrites.fixed_point import FixedPoint, in_reals
from tilewright.graph.rewrites.images import batch_of, fewer_images
from tilewright.graph.rewrites.separable_sums import joined_powers, separable_sums
from tilewright.graph.rewriting import simplified
from tilewright.graph.tables import looks_up, table_step
from tilewright.ir.scalar import numbers_of, parse_scalar
from tilewright.ops import CONTRACTIONS, Concat
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.op import Shape, show_shape

Method: TypeAlias = Literal["sgd", "momentum", "adam"]
LABELS, LOSS, LARGEST, TAKEN = "labels", "loss", "largest_score", "micro"
_FEW_TERMS = 64
"""Most terms of a sum that fixed point can represent without its factors."""
_OF_BATCH = 0.1
"""Weight of a batch's statistics in the running averages, as usual in frameworks."""


@dataclass(frozen=True)
class Optimiser:
    """Update rule of a weight from its gradient: `sgd`, `momentum` (heavy ball) or `adam`.

    Raises GraphError for an unknown method, a rate that is not positive or a decay outside [0, 1).
    """

    method: Method = "momentum"
    rate: float = 0.05
    decay: float = 0.9
    second_decay: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if self.method not in ("sgd", "momentum", "adam"):
            raise GraphError(
                f"unknown optimiser {quoted(self.method)}", fix="sgd, momentum or adam"
            )
        if not 0 < self.rate < float("inf"):
            raise GraphError(f"a rate must be positive, found {self.rate}")
        for decay in (self.decay, self.second_decay):
            if not 0 <= decay < 1:
                raise GraphError(f"a decay must be from 0 to below 1, found {decay}")

    def states(self, shape: Shape) -> dict[str, Shape]:
        """Shapes of the optimiser's states for a weight of `shape`, by name; all start at zero."""
        match self.method:
            case "sgd":
                return {}
            case "momentum":
                return {"velocity": shape}
            case "adam":
                return {"mean": shape, "square": shape, "steps": (1,)}

    def next(self) -> dict[str, str]:
        """The expression of each state's next value, over the weight `w`, the gradient `g` and the
        states by name; names of earlier entries denote next values.
        """
        rate, decay, second = map(repr, (self.rate, self.decay, self.second_decay))
        match self.method:
            case "sgd":
                return {"w": f"w - {rate} * g"}
            case "momentum":
                return {"velocity": f"{decay} * velocity + g", "w": f"w - {rate} * velocity"}
            case "adam":
                corrected = f"sqrt(1 - pow({second}, steps)) / (1 - pow({decay}, steps))"
                return {
                    "steps": "steps + 1",
                    "mean": f"{decay} * mean + {1 - self.decay!r} * g",
                    "square": f"{second} * square + {1 - self.second_decay!r} * g * g",
                    "w": f"w - {rate} * {corrected} * mean / (sqrt(square) + {self.epsilon!r})",
                }

    def in_fixed_point(self, kind: DType, images: int) -> Optimiser:
        """The rule for gradients of a sum over images instead of their mean; `adam` is invariant,
        since it divides by the gradient's magnitude. Raises GraphError for a factor that rounds to
        zero in this type, so that a weight would never change or a quotient be undefined.
        """
        found = self if self.method == "adam" else replace(self, rate=self.rate / images)
        smallest = 2.0**-kind.fraction_bits
        for state, expression in found.next().items():
            scalar = parse_scalar(re.sub(r"\b[a-z_]+\b(?!\()", "x0", expression))
            for number in numbers_of(scalar):
                if number and not converted(np.array(number), kind):
                    raise GraphError(
                        f"{self.method}, next {state}: {number:g} is zero in {kind}, whose "
                        f"smallest number is {smallest:g}",
                        fix=f"a rate of at least {self.rate / found.rate * smallest:g}, decays of "
                        f"at most {1 - smallest:g} and an epsilon of at least {smallest:g}",
                    )
        return found


def training_step(
    network: Network, optimiser: Optimiser | None = None, micro_batches: int = 1
) -> Network:
    """One training step of `network` as a network; its `states` are the weights and the optimiser's
    states. Inputs are the network's own, then `labels` (a one-hot row for each image); outputs are
    the mean `loss` (cross-entropy of the softmax), the scores and the states' next values. Each of
    several `micro_batches` is computed forwards and backwards before the next begins.

    Batch normalisation uses the statistics of the (micro-)batch; its statistics weights become
    running averages. In fixed point they are trained like other weights, gradients are of the sum
    of all images' losses, so that each image keeps its precision, and rates are divided by the
    number of images. Networks of integers with tables are trained by `graph.tables.table_step`,
    with a rate of its own.

    Raises GraphError for a network without weights, with several outputs, or without a row of
    scores for each image; for operators without a gradient on the path; for micro-batches that do
    not divide the images or that the network cannot compute separately; and for factors of the
    optimiser that are zero in fixed point.
    """
    found = optimiser or Optimiser()
    if not network.weights:
        raise GraphError(f"{network.name} has no weights to train")
    if looks_up(network):
        if optimiser is not None or micro_batches != 1:
            raise GraphError(
                f"{network.name}: tables are trained at the rate of integers, all patterns at once",
                fix="leave the optimiser and micro-batches",
            )
        return table_step(network)
    stored = dtype(network.weights[0].dtype)
    if stored.kind != "fixed":
        return _step(network, found, micro_batches)
    products = (n.op.dtype for n in network.nodes if n.op.kind in CONTRACTIONS)
    step = _step(in_reals(network), found, micro_batches, fixed=stored)
    return FixedPoint(next(products, stored.name)).apply(simplified(step))


def _step(
    network: Network, optimiser: Optimiser, micro_batches: int, fixed: DType | None = None
) -> Network:
    """A step of the network on real numbers, to be converted to the type `fixed` if given."""
    few = network if micro_batches == 1 else _few(network, micro_batches)
    running: dict[str, list[str]] | None = {} if fixed is None else None
    with_loss, constant, each = _with_loss(network, few, micro_batches, running)
    weights = [t.name for t in network.weights if t.name not in (running or {})]
    if fixed is not None:
        optimiser = optimiser.in_fixed_point(fixed, with_loss.tensors[each].shape[0])
    loss = LOSS if fixed is None else each
    backward, gradients = with_gradients(with_loss, loss, weights, constant)
    backward = added_maps(separable_sums(backward)) if fixed is None else for_fixed_point(backward)
    return _with_updates(_one_by_one(backward), gradients, optimiser, running or {})


def for_fixed_point(network: Network) -> Network:
    """A network of gradients simplified for fixed point, which rounds after every node."""
    return joined_powers(separable_sums(network, _FEW_TERMS, finite=True))


def _few(network: Network, micro_batches: int) -> Network:
    """The network of a micro-batch."""
    images = batch_of(network) or 1
    if micro_batches < 1 or images % micro_batches:
        raise GraphError(
            f"{network.name}: {micro_batches} micro-batches do not divide a batch of {images}"
        )
    few = fewer_images(network, images // micro_batches)
    if few is network:
        raise GraphError(f"{network.name} does not compute its images one by one")
    return few


def _scores(network: Network) -> str:
    """The tensor of scores: the operand of a final softmax, else the output."""
    if len(network.outputs) != 1:
        raise GraphError(f"{network.name} has {len(network.outputs)} outputs, one is trained")
    (output,) = network.outputs
    last = next((n for n in network.nodes if n.output == output), None)
    if last is not None and last.op.kind == "softmax":
        output = last.inputs[0]
    shape = network.tensors[output].shape
    if len(shape) != 2:
        raise GraphError(
            f"{network.name} gives {show_shape(shape)}, a row of scores for each image is trained"
        )
    return output


def _with_loss(
    network: Network, few: Network, parts: int, running: dict[str, list[str]] | None
) -> tuple[Network, tuple[str, ...], str]:
    """The network whose outputs are the mean cross-entropy of the softmax and the scores, computed
    in `parts` micro-batches by `few`; the tensors whose gradients are zero; and the tensor of the
    images' losses. Unless `running` is None, normalisations use the statistics of their batch,
    whose names are added to `running`, by weight.
    """
    scores = _scores(network)
    images, classes = network.tensors[scores].shape
    kind = network.tensors[scores].dtype
    builder = NetworkBuilder(f"{network.name}_step", kind)
    for tensor in network.inputs:
        builder.input(tensor.name, tensor.shape, tensor.dtype)
    builder.input(LABELS, (images, classes))
    for tensor in network.weights:
        builder.weight(tensor.name, tensor.shape, tensor.dtype)
    found = [_part(builder, few, scores, (part, parts), running) for part in range(parts)]
    rows, losses, constant = zip(*found, strict=True)
    all_scores, each = _concatenated(builder, rows), _concatenated(builder, losses)
    mean = define(f"loss[0] += each[n] * {1 / images!r}", each=(images,), dtype=kind)
    assert isinstance(mean, Definition)
    builder.apply(mean, each, name=LOSS, output=LOSS)
    return builder.build((LOSS, all_scores), network.values), sum(constant, ()), each


def _concatenated(builder: NetworkBuilder, tensors: Sequence[str]) -> str:
    if len(tensors) == 1:
        return tensors[0]
    shapes = tuple(map(builder.shape, tensors))
    return builder.apply(Concat(shapes, 0, builder.dtype), *tensors, name="joined")


def _part(
    builder: NetworkBuilder,
    few: Network,
    scores: str,
    part: tuple[int, int],
    running: dict[str, list[str]] | None,
) -> tuple[str, str, tuple[str, ...]]:
    """Append a micro-batch; returns its scores, the loss of each image, and the tensors whose
    gradients are zero: largest scores, and the means inside variances.
    """
    number, parts = part
    names = {t.name: t.name for t in few.weights}
    images = few.tensors[scores].shape[0]
    for name in (*(t.name for t in few.inputs), LABELS):
        whole = builder.shape(name)
        own = (images, *whole[1:])
        if parts > 1:
            start = (number * images, *[0] * (len(own) - 1))
            taken = Access(whole, straight(own).terms, start)
            copy = Definition(own, straight(own), (taken,), "x0", None, "x0", builder.dtype)
            names[name] = builder.apply(copy, name, name=f"{TAKEN}{number}_{name}")
        else:
            names[name] = name
    last, constant = few.outputs[0], list[str]()
    for node in few.nodes:
        if scores == last or node.output != last:
            read = [names[name] for name in node.inputs]
            if running is not None and node.op.normalisation is not None:
                *read[3:], centre = _statistics(builder, read[0], node)
                constant.append(centre)
                for name, batch in zip(node.inputs[3:], read[3:], strict=True):
                    running.setdefault(name, []).append(batch)
            output = node.output if parts == 1 else ""
            names[node.output] = builder.apply(node.op, *read, name=node.name, output=output)
    each, largest = _losses(builder, names[scores], names[LABELS])
    return names[scores], each, (largest, *constant)


def _statistics(builder: NetworkBuilder, x: str, node: Node) -> list[str]:
    """Append mean and variance of each channel over images and pixels. Also returns the copy of the
    mean that the variance uses, with respect to which its gradient is zero. Doubles are precise
    enough to compute the variance from the sum of squares, which needs no tensor of differences.
    """
    shape, kind = builder.shape(x), builder.dtype
    every, channel = straight(shape), straight(shape[1:2], (1,))
    share = f"* {shape[1] / prod(shape)!r}"
    of_all = Definition(shape, channel, (every,), f"x0 {share}", "sum", "x0", kind)
    mean, centre = (builder.apply(of_all, x, name=f"{node.name}_{n}") for n in ("mean", "centre"))
    if kind == "f64":
        squares = replace(of_all, body=f"x0 * x0 {share}")
        own, each = builder.apply(squares, x, name=f"{node.name}_squares"), straight(shape[1:2])
        body = "x0 + x1 * (x1 - 2.0 * x2)"
        rest = Definition(shape[1:2], each, (each,) * 3, body, None, "x0", kind)
        variance = builder.apply(rest, own, centre, mean, name=f"{node.name}_variance")
        return [mean, variance, centre]
    body = f"(x0 - x1) * (x0 - x1) {share}"
    squares = Definition(shape, channel, (every, channel), body, "sum", "x0", kind)
    return [mean, builder.apply(squares, x, centre, name=f"{node.name}_variance"), centre]


def _losses(builder: NetworkBuilder, scores: str, labels: str) -> tuple[str, str]:
    """Append the cross-entropy of each image; returns it, and each image's largest score."""
    kind, every = builder.dtype, builder.shape(scores)
    shape, row = straight(every), straight(every[:1])
    largest = Definition(every, row, (shape,), "x0", "max", "x0", kind)
    top = builder.apply(largest, scores, name=LARGEST)
    powers = Definition(every, shape, (shape, row), "exp(x0 - x1)", None, "x0", kind)
    total = Definition(every, row, (shape,), "x0", "sum", "x0", kind)
    e = builder.apply(powers, scores, top, name="powers")
    z = builder.apply(total, e, name="total_power")
    own = Definition(every, row, (shape, row, shape, row), "x0 * (log(x1) + x3 - x2)", "sum",
                     "x0", kind)  # fmt: skip
    return builder.apply(own, labels, z, scores, top, name="loss_of_image"), top


def _one_by_one(network: Network) -> Network:
    """The nodes reordered so that each micro-batch, gradients included, ends before the next."""
    turns: dict[str, int] = {}
    for node in network.nodes:
        found = re.match(rf"{TAKEN}(\d+)_", node.name)
        own = int(found[1]) if found else 0
        turns[node.output] = max([own, *(turns.get(name, 0) for name in node.inputs)])
    return replace(network, nodes=tuple(sorted(network.nodes, key=lambda n: turns[n.output])))


def _with_updates(
    network: Network, gradients: dict[str, str], optimiser: Optimiser, running: dict[str, list[str]]
) -> Network:
    """The network with weights and optimiser states as inputs, and their next values as outputs."""
    kind = network.tensors[LOSS].dtype
    builder = NetworkBuilder(network.name, kind)
    for tensor in (*network.inputs, *network.weights):
        builder.input(tensor.name, tensor.shape, tensor.dtype)
    held: list[State] = []
    kept = {}
    trained = [weight for weight in network.weights if weight.name not in running]
    for weight in trained:
        kept[weight.name] = {
            name: builder.input(builder.fresh(f"{weight.name}_{name}"), shape)
            for name, shape in optimiser.states(weight.shape).items()
        }
    updates = _updates(network, {weight.name: gradients[weight.name] for weight in trained})
    for node in network.nodes:
        builder.apply(node.op, *node.inputs, name=node.name, output=node.output)
        for own in updates.get(node.name, ()):
            names = {"w": own, "g": gradients[own], **kept[own]}
            for state, expression in optimiser.next().items():
                before = names[state]
                after = _applied(builder, expression, names, state, kind)
                held.append(State(before, after))
                names[state] = after
    for own, parts in running.items():
        batches = {f"s{part}": name for part, name in enumerate(parts)}
        share = repr(_OF_BATCH / len(parts))
        expression = f"{1 - _OF_BATCH!r} * w + {share} * ({' + '.join(batches)})"
        held.append(State(own, _applied(builder, expression, {"w": own, **batches}, "w", kind)))
    order = [s for w in network.weights for s in (*kept.get(w.name, {}).values(), w.name)]
    held.sort(key=lambda state: order.index(state.tensor))
    outputs = (*network.outputs[:2], *(state.next for state in held))
    made = builder.build(outputs, network.values)
    return Network(made.name, made.inputs, made.weights, made.nodes, outputs, made.values,
                   states=tuple(held))  # fmt: skip


def _updates(network: Network, gradients: Mapping[str, str]) -> dict[str, list[str]]:
    """The weights by the name of the last node that reads the weight or touches its gradient. The
    update follows that node, so that gradients are short-lived.
    """
    numbered = enumerate(network.nodes)
    last = {name: n for n, node in numbered for name in (*node.inputs, node.output)}
    found: dict[str, list[str]] = {}
    for weight, gradient in gradients.items():
        number = max(last.get(weight, 0), last[gradient])
        found.setdefault(network.nodes[number].name, []).append(weight)
    return found


def _applied(
    builder: NetworkBuilder, expression: str, names: dict[str, str], state: str, kind: str
) -> str:
    """Append the map of a state's next value; states of one element are broadcast."""
    shape = builder.shape(names[state])
    single = frozenset(name for name, own in names.items() if builder.shape(own) != shape)
    op = _map(expression, shape, single & set(re.findall(r"\w+", expression)), kind)
    read = [names[name] for name in op.tensors[1:]]
    return builder.apply(op, *read, name=f"next_{names[state]}")


@cache
def _map(expression: str, shape: Shape, single: frozenset[str], kind: str) -> Definition:
    """The map of an expression over tensors of `shape`; those in `single` have one element."""
    axes = ",".join(f"i{d}" for d in range(len(shape)))
    text = re.sub(
        r"\b[a-z_]\w*\b(?!\()",
        lambda name: f"{name[0]}[{'0' if name[0] in single else axes}]",
        expression,
    )
    op = define(f"next[{axes}] = {text}", dtype=kind, next=shape)
    assert isinstance(op, Definition)
    return op


def passes_of(step: Network) -> dict[str, str]:
    """The pass of each node of a training step, by name: `forward`, `data gradient`, `weight
    gradient` (needed for the update of a single weight) or `update`.
    """
    held = {state.next for state in step.states}
    needed = set(step.outputs) - held
    leads: dict[str, set[str]] = {}
    found: dict[str, str] = {}
    for node in reversed(step.nodes):
        weights = leads.get(node.output, set())
        if node.output in needed:
            found[node.name] = "forward"
            needed |= set(node.inputs)
        elif node.output in held:
            found[node.name] = "update"
            weights = weights or {node.output}
        else:
            found[node.name] = f"{'weight' if len(weights) == 1 else 'data'} gradient"
        for name in node.inputs:
            leads.setdefault(name, set()).update(weights)
    return found
