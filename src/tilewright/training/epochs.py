"""Epochs of training: batches through a compiled step, tests between them, a checkpoint after each.

In: a network whose output are scores of classes, examples, a machine. Out: `Trained`. The states
stay in the machine's memory from step to step. Batches follow from seed and epoch, so that a run
that goes on from a checkpoint ends where an uninterrupted one does.
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
    """How long to train, and how. A `checkpoint` is written after each epoch; with `resume` the
    epochs go on from it. The batch is computed in so many `micro_batches`, one after the other.

    Raises GraphError for less than one epoch, and to resume without a checkpoint.
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
    """The numbers of the weights, and the epochs that led to them."""

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
    """Train a network on examples; its first extent is the batch. Weights begin with the network's
    own numbers, and with random ones where it has none. Each epoch is `told` when it is over. What
    runs the step is `begun` with its states, by default the compiled step on the machine.

    Raises GraphError for a network that cannot be trained, numbers that are not finite and
    checkpoints that are not the network's, ShapeError for examples that do not fit it.
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
        """Images of a step."""
        return self.network.inputs[0].shape[0]

    @property
    def one(self) -> int:
        """Denominator of an element of the loss: 1 of floats."""
        return 1 << dtype(self.step.tensors[LOSS].dtype).fraction_bits

    @property
    def scores(self) -> str:
        """The output with the scores."""
        return self.step.outputs[1]

    def start(self) -> tuple[dict[str, Array], tuple[Epoch, ...]]:
        """The states to begin with, and the epochs before."""
        if self.settings.resume and self.settings.checkpoint is not None:
            return read_checkpoint(self.settings.checkpoint, self.step, self.settings.seed)
        shapes = {state.tensor: self.step.tensors[state.tensor] for state in self.step.states}
        found = {n: np.zeros(t.shape, dtype(t.dtype).numpy) for n, t in shapes.items()}
        found |= initial_weights(self.network, self.settings.seed)
        for name, tensor in shapes.items():
            require_state(tensor, found[name])
        return found, ()

    def given(self, examples: Examples, numbers: Array) -> dict[str, Array]:
        """The inputs of a step: images, and a row of zeros with a one for each label."""
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
        """All epochs that are left."""
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
        """The share of right answers on the examples to test with."""
        right = 0
        for numbers, count in self.test.in_order(self.batch):
            scores = session.until(self.scores, self.given(self.test, numbers))
            right += self._right(scores, self.test, numbers, count)
        return right / len(self.test)

    @staticmethod
    def _right(scores: Array, examples: Examples, numbers: Array, count: int) -> int:
        return int((scores.argmax(1) == examples.labels[numbers])[:count].sum())

    def _explain(self, session: Session, before: Arrays, epoch: int, count: int) -> None:
        """Raise GraphError for a step whose loss is not finite, with the first node that gives such
        numbers: the epoch runs again up to that step.
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
    """Images, the first dimension counting them, and for each one the number of its class.

    Raises ShapeError for labels that are no integers, are negative or do not go with the images,
    and for images that are not finite.
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
        """(the examples to train with, a `share` of all, drawn by the seed, to test with)."""
        order = np.random.default_rng((seed, 0)).permutation(len(self))
        count = round(share * len(self))
        if not 0 < count < len(self):
            raise ShapeError(f"a share of {share} of {len(self)} examples leaves none on one side")
        return self.taken(order[count:]), self.taken(order[:count])

    def taken(self, numbers: Array) -> Examples:
        """The examples of these numbers."""
        return Examples(self.images[numbers], self.labels[numbers])

    def shuffled(self, size: int, seed: int, epoch: int) -> Iterator[Array]:
        """Numbers of the examples of each batch of an epoch; those that fill none are left out."""
        order = np.random.default_rng((seed, 1, epoch)).permutation(len(self))
        for start in range(0, len(self) - size + 1, size):
            yield order[start : start + size]

    def in_order(self, size: int) -> Iterator[tuple[Array, int]]:
        """Examples of each batch, the last filled up with the last example, and how many count."""
        for start in range(0, len(self), size):
            numbers = np.arange(start, start + size)
            yield np.minimum(numbers, len(self) - 1), min(size, len(self) - start)


def read_examples(path: Path) -> tuple[Examples, Examples | None]:
    """(the examples in an .npz file, those to test with where it has some): its arrays are `images`
    and `labels`, `test_images` and `test_labels`.

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
