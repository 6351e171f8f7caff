"""Epochs of training: batches through a compiled step, a test and a checkpoint after each epoch.

In: a network whose output holds class scores, examples, a machine. Out: `Trained`. The states stay
in the machine's memory from step to step. Batches follow from seed and epoch, so a run resumed from
a checkpoint ends where an uninterrupted one does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tilewright.codegen.arrays import read_arrays
from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.digits import LARGEST_PIXEL, handwritten_digits
from tilewright.common.dtypes import converted, dtype
from tilewright.common.errors import GraphError, ShapeError
from tilewright.common.progress import Progress, silent
from tilewright.compiler.entry import compile
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.training import LABELS, LOSS, Optimiser, training_step
from tilewright.graph.weights import initial_weights
from tilewright.machine import Machine
from tilewright.network.plans import Session
from tilewright.ops.op import Shape, show_shape
from tilewright.training.checkpoint import Epoch, read_checkpoint, require_state, write_checkpoint


@dataclass(frozen=True)
class Settings:
    """How long and how to train.

    A `checkpoint` is written after each epoch; `resume` continues from it. The batch is computed as
    `micro_batches` parts, one after the other. Raises GraphError for less than one epoch, and for
    `resume` without a checkpoint.
    """

    epochs: int = 10
    optimiser: Optimiser = field(default_factory=Optimiser)
    seed: int = 0
    micro_batches: int = 1
    checkpoint: Path | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise GraphError(f"at least one epoch is trained, found {self.epochs}")
        if self.resume and self.checkpoint is None:
            raise GraphError("to resume takes a checkpoint, found none")


@dataclass(frozen=True, eq=False)
class Trained:
    """The trained weights, and the epochs that led to them."""

    network: Network
    weights: dict[str, Array]
    epochs: tuple[Epoch, ...]


def train(
    network: Network,
    examples: Examples,
    test: Examples,
    machine: str | Machine = "host",
    settings: Settings | None = None,
    *,
    told: Callable[[Epoch], None] = lambda _: None,
    progress: Progress = silent,
    begun: Callable[[Network, Arrays], Session] | None = None,
) -> Trained:
    """Train a network on examples; the first extent of its input is the batch.

    Weights start from the network's numbers, or from random ones. `told` is called after each
    epoch. `begun` creates the session that runs the step from its initial states, by default the
    compiled step on the machine. Raises GraphError for a network that cannot be trained, non-finite
    numbers and foreign checkpoints, ShapeError for examples that do not fit the network.
    """
    asked = settings or Settings()
    step = training_step(network, asked.optimiser, asked.micro_batches)
    task = _Task(step, network, examples, test, asked)
    states, before = task.start()
    if begun is None:
        session: Session = compile(step, machine, progress=progress).session(states)
    else:
        session = begun(step, states)
    return task.run(session, before, told, progress)


@dataclass(frozen=True)
class _Task:
    """A step, its examples and its settings."""

    step: Network
    network: Network
    examples: Examples
    test: Examples
    settings: Settings

    def __post_init__(self) -> None:
        images, *others = self.network.inputs
        if others:
            raise GraphError(f"{self.network.name} has {1 + len(others)} inputs, images are one")
        for given in (self.examples, self.test):
            given.require(images.shape[1:], self.step.tensors[LABELS].shape[1])
        if len(self.examples) < self.batch:
            raise GraphError(
                f"{len(self.examples)} examples to train with are less than a batch of {self.batch}"
            )

    @property
    def batch(self) -> int:
        """Images per step."""
        return self.network.inputs[0].shape[0]

    @property
    def one(self) -> int:
        """Scale of the loss as a fixed-point integer; 1 for floats."""
        return 1 << dtype(self.step.tensors[LOSS].dtype).fraction_bits

    @property
    def scores(self) -> str:
        """The output that holds the scores."""
        return self.step.outputs[1]

    def start(self) -> tuple[dict[str, Array], tuple[Epoch, ...]]:
        """The initial states, and the epochs before."""
        if self.settings.resume and self.settings.checkpoint is not None:
            return read_checkpoint(self.settings.checkpoint, self.step, self.settings.seed)
        shapes = {state.tensor: self.step.tensors[state.tensor] for state in self.step.states}
        found = {n: np.zeros(t.shape, dtype(t.dtype).numpy) for n, t in shapes.items()}
        found |= initial_weights(self.network, self.settings.seed)
        for name, tensor in shapes.items():
            require_state(tensor, found[name])
        return found, ()

    def given(self, examples: Examples, numbers: Array) -> dict[str, Array]:
        """The inputs of a step: images, and one-hot labels."""
        rows, classes = self.step.tensors[LABELS].shape
        images, kind = self.network.inputs[0], dtype(self.step.tensors[LABELS].dtype)
        labels = np.zeros((rows, classes))
        labels[np.arange(rows), examples.labels[numbers]] = 1
        taken = converted(examples.images[numbers], dtype(images.dtype))
        return {images.name: taken, LABELS: converted(labels, kind)}

    def run(
        self,
        session: Session,
        before: tuple[Epoch, ...],
        told: Callable[[Epoch], None],
        progress: Progress,
    ) -> Trained:
        """Run all remaining epochs."""
        epochs, asked = list(before), self.settings
        for number in range(len(epochs) + 1, asked.epochs + 1):
            progress("train", number - 1, asked.epochs)
            epochs.append(self._epoch(session, number))
            states = session.states()
            for name, array in states.items():
                require_state(self.step.tensors[name], array, f"after epoch {number}")
            if asked.checkpoint is not None:
                write_checkpoint(asked.checkpoint, self.step, states, asked.seed, epochs)
            told(epochs[-1])
        progress("train", asked.epochs, asked.epochs)
        states = session.states()
        return Trained(
            self.network, {t.name: states[t.name] for t in self.network.weights}, tuple(epochs)
        )

    def _epoch(self, session: Session, number: int) -> Epoch:
        started, before = time.perf_counter(), session.states()
        losses, right, batches = (
            [],
            0,
            self.examples.shuffled(self.batch, self.settings.seed, number),
        )
        for count, numbers in enumerate(batches):
            found = session.step(self.given(self.examples, numbers))
            loss = float(found[LOSS][0]) / self.one
            if not np.isfinite(loss):
                self._explain(session, before, number, count)
            losses.append(loss)
            right += self._right(found[self.scores], self.examples, numbers, self.batch)
        seconds = time.perf_counter() - started
        return Epoch(number, float(np.mean(losses)), right / (len(losses) * self.batch),
                     self._tested(session), seconds)  # fmt: skip

    def _tested(self, session: Session) -> float:
        """Accuracy on the test examples."""
        right = 0
        for numbers, count in self.test.in_order(self.batch):
            scores = session.until(self.scores, self.given(self.test, numbers))
            right += self._right(scores, self.test, numbers, count)
        return right / len(self.test)

    @staticmethod
    def _right(scores: Array, examples: Examples, numbers: Array, count: int) -> int:
        return int((scores.argmax(1) == examples.labels[numbers])[:count].sum())

    def _explain(self, session: Session, before: Arrays, epoch: int, count: int) -> None:
        """Raise GraphError for a step with a non-finite loss, naming the first node with a
        non-finite result: the epoch runs again up to that step.
        """
        session.give(before)
        batches = list(self.examples.shuffled(self.batch, self.settings.seed, epoch))
        for numbers in batches[:count]:
            session.step(self.given(self.examples, numbers))
        held = {**session.states(), **self.given(self.examples, batches[count])}
        place = f"epoch {epoch}, step {count + 1}"
        for node in self.step.nodes:
            with np.errstate(all="ignore"):
                held[node.output] = node.op.reference(*(held[name] for name in node.inputs))
            result = held[node.output]
            if wrong := int(result.size - np.isfinite(result).sum()):
                raise GraphError(
                    f"node {node.name} gives {wrong} of {result.size} elements of "
                    f"{quoted(node.output)}, {show_shape(result.shape)}, that are not finite",
                    where=place,
                    fix="a smaller rate",
                )
        raise GraphError("the loss is not finite", where=place, fix="a smaller rate")


_FIX = "write them with numpy.savez(FILE, images=IMAGES, labels=LABELS)"


@dataclass(frozen=True, eq=False)
class Examples:
    """Images, counted by the first dimension, and the class number of each.

    Raises ShapeError for labels that are no integers, are negative or do not match the images, and
    for non-finite images.
    """

    images: Array
    labels: Array

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if labels.dtype.kind not in "iu":
            raise ShapeError(f"labels are integers, found {labels.dtype}")
        if labels.ndim != 1 or labels.shape != images.shape[:1] or not labels.size:
            raise ShapeError(
                f"a label for each image is expected, found images {show_shape(images.shape)} and "
                f"labels {show_shape(labels.shape)}"
            )
        if labels.min() < 0:
            self._refuse_label(int(labels.argmin()), "classes are counted from 0")
        if images.dtype.kind not in "biuf":
            raise ShapeError(f"images hold {images.dtype}, no real numbers")
        if not (finite := np.isfinite(images)).all():
            place = np.unravel_index(int(finite.argmin()), images.shape)
            at = ", ".join(map(str, place))
            raise ShapeError(f"images hold {images[place]} at ({at}), {images.size - finite.sum()}"
                             f" of {images.size} elements are not finite")  # fmt: skip

    def __len__(self) -> int:
        return len(self.labels)

    def require(self, shape: Shape, classes: int) -> None:
        """Raise ShapeError unless each image has this shape and each label is below `classes`."""
        own = self.images.shape[1:]
        if own != shape:
            raise ShapeError(
                f"each image is {show_shape(own)}, the network takes {show_shape(shape)}"
            )
        place = int(self.labels.argmax())
        if self.labels[place] >= classes:
            self._refuse_label(place, f"the network has the classes 0 to {classes - 1}")

    def _refuse_label(self, place: int, why: str) -> None:
        raise ShapeError(f"label {place} is {self.labels[place]}: {why}")

    def divided(self, share: float, seed: int) -> tuple[Examples, Examples]:
        """(training examples, test examples): a random `share` of all is for testing."""
        order = np.random.default_rng((seed, 0)).permutation(len(self))
        count = round(share * len(self))
        if not 0 < count < len(self):
            raise ShapeError(f"a share of {share} of {len(self)} examples leaves none on one side")
        return self.taken(order[count:]), self.taken(order[:count])

    def taken(self, numbers: Array) -> Examples:
        """The examples with these numbers."""
        return Examples(self.images[numbers], self.labels[numbers])

    def shuffled(self, size: int, seed: int, epoch: int) -> Iterator[Array]:
        """Example numbers of each batch of an epoch, without a remainder smaller than a batch."""
        order = np.random.default_rng((seed, 1, epoch)).permutation(len(self))
        for start in range(0, len(self) - size + 1, size):
            yield order[start : start + size]

    def in_order(self, size: int) -> Iterator[tuple[Array, int]]:
        """(example numbers, how many count) of each batch, padded with the last example."""
        for start in range(0, len(self), size):
            numbers = np.arange(start, start + size)
            yield np.minimum(numbers, len(self) - 1), min(size, len(self) - start)


def read_examples(path: Path) -> tuple[Examples, Examples | None]:
    """(training examples, test examples or None) of an .npz file with the arrays `images`, `labels`
    and perhaps `test_images`, `test_labels`.

    Raises ShapeError for anything else, OSError for a file that cannot be opened.
    """
    arrays = read_arrays(path)
    known = ({"images", "labels"}, {"images", "labels", "test_images", "test_labels"})
    if set(arrays) not in known:
        raise ShapeError(
            f"expected the arrays images and labels, found {', '.join(sorted(arrays)) or 'none'}",
            where=str(path),
            fix=_FIX,
        )
    try:
        found = Examples(arrays["images"], arrays["labels"])
        if "test_images" not in arrays:
            return found, None
        return found, Examples(arrays["test_images"], arrays["test_labels"])
    except ShapeError as error:
        raise error.at(str(path)) from None


def digits() -> Examples:
    """The 1797 handwritten digits that tilewright ships, as 8x8 pixels from 0 to 1."""
    pixels, labels = handwritten_digits()
    return Examples(pixels[:, np.newaxis].astype(np.float32) / LARGEST_PIXEL, labels)
