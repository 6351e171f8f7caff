"""Epochs on this computer: what is learned, what a checkpoint holds, what is refused."""

import re
import time

import numpy as np
import pytest

from support.training import blobs, linear
from tilewright.common.errors import GraphError, ShapeError, TilewrightError
from tilewright.graph.training import Optimiser, training_step
from tilewright.training import Settings, train
from tilewright.training.checkpoint import read_checkpoint, write_checkpoint
from tilewright.training.epochs import _Task

MOMENTUM = Optimiser("momentum", 0.1)


def trained(settings, network=None, examples=None, told=lambda _: None):
    given, test = blobs(64, 0), blobs(20, 1)
    return train(network or linear(), examples or given, test, "host", settings, told=told)


class ByReference:
    """A session that computes every operator by its reference, and keeps what its steps say."""

    def __init__(self, step, states):
        self.network, self.held, self.steps = step, dict(states), []

    def _run(self, inputs):
        return self.network.evaluate({**inputs, **self.held})

    def step(self, inputs):
        found = self._run(inputs)
        self.held = {state.tensor: found[state.next] for state in self.network.states}
        scores = found[self.network.outputs[1]]
        right = (scores.argmax(1) == inputs["labels"].argmax(1)).mean()
        self.steps.append((float(found["loss"][0]), float(right)))
        return found

    def until(self, output, inputs):
        return self._run(inputs)[output]

    def states(self):
        return dict(self.held)

    def give(self, states):
        self.held = dict(states)


def test_an_epoch_tells_the_means_of_its_steps_and_how_many_epochs_are_done():
    sessions, progress = [], []

    def begun(step, states):
        sessions.append(ByReference(step, states))
        return sessions[0]

    found = train(
        linear(), blobs(64, 0), blobs(20, 1), settings=Settings(3, MOMENTUM),
        progress=lambda *done: progress.append(done), begun=begun,
    )  # fmt: skip
    steps = np.array(sessions[0].steps).reshape(3, 64 // 16, 2)
    told = [(epoch.loss, epoch.accuracy) for epoch in found.epochs]
    assert np.allclose(told, steps.mean(axis=1))
    assert progress == [("train", done, 3) for done in range(4)]
    assert sessions[0].network.nodes == training_step(linear(), MOMENTUM).nodes  # no micro-batches
    started = time.perf_counter()
    usual = train(linear(), blobs(16, 0), blobs(20, 1), begun=begun)
    assert len(usual.epochs) == 10
    assert 0 < sum(epoch.seconds for epoch in usual.epochs) < time.perf_counter() - started


def stepped_by_reference(settings, epochs):
    """The states after so many epochs, every operator computed by its reference."""
    step, examples = training_step(linear(), settings.optimiser), blobs(64, 0)
    states = {s.tensor: np.zeros(step.tensors[s.tensor].shape, "f4") for s in step.states}
    session = ByReference(step, states | linear().values)
    for epoch in range(1, epochs + 1):
        for numbers in examples.shuffled(16, settings.seed, epoch):
            labels = np.eye(3, dtype="f4")[examples.labels[numbers]]
            session.step({"x": examples.images[numbers], "labels": labels})
    return session.states()


def test_epochs_are_the_steps_of_their_batches_and_learn():
    found = trained(Settings(4, MOMENTUM))
    expected = stepped_by_reference(Settings(4, MOMENTUM), 4)
    for name, array in found.weights.items():
        assert np.allclose(array, expected[name], rtol=1e-4, atol=1e-6)
    assert [epoch.number for epoch in found.epochs] == [1, 2, 3, 4]
    assert found.epochs[-1].loss < found.epochs[0].loss
    assert 0.5 < found.epochs[-1].accuracy <= 1
    assert found.epochs[-1].test_accuracy == 1.0


def test_a_single_batch_of_examples_is_enough():
    step = training_step(linear(), Settings(1).optimiser)
    task = _Task(step, linear(), blobs(16, 0), blobs(20, 1), Settings(1))
    assert task.batch == len(task.examples)


def test_who_goes_on_from_a_checkpoint_ends_where_one_who_never_stopped_does(tmp_path):
    path = tmp_path / "kept.npz"
    whole = trained(Settings(3, MOMENTUM))

    def stop(epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(Settings(3, MOMENTUM, checkpoint=path), told=stop)
    left = []
    found = trained(Settings(3, MOMENTUM, checkpoint=path, resume=True), told=left.append)
    assert [epoch.number for epoch in left] == [3]
    for name, array in whole.weights.items():
        assert np.array_equal(found.weights[name], array)
    assert [e.loss for e in found.epochs] == [e.loss for e in whole.epochs]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(a step, a checkpoint of its states)."""
    path = tmp_path_factory.mktemp("kept") / "kept.npz"
    step = training_step(linear(), MOMENTUM)
    states = {s.tensor: np.zeros(step.tensors[s.tensor].shape, "f4") for s in step.states}
    write_checkpoint(path, step, states, 0, ())
    return step, path


def test_each_truncated_checkpoint_is_refused(kept, tmp_path):
    step, path = kept
    whole, cut = path.read_bytes(), tmp_path / "cut.npz"
    for size in range(0, len(whole) - 1, 101):
        cut.write_bytes(whole[:size])
        with pytest.raises(ShapeError, match=re.escape(f"{cut}: is no .npz file of arrays")):
            read_checkpoint(cut, step, 0)


@pytest.mark.parametrize(
    ("step", "seed", "message"),
    [
        (
            lambda: training_step(linear(name="other"), MOMENTUM),
            0,
            "is a checkpoint of 'linear_step' with 4 states, not of 'other_step' with 4",
        ),
        (
            lambda: training_step(linear(), Optimiser("sgd")),
            0,
            "is a checkpoint of 'linear_step' with 4 states, not of 'linear_step' with 2: only "
            "one of both has 'b_velocity'",
        ),
        (
            lambda: training_step(linear(features=5), MOMENTUM),
            0,
            "'w_velocity' is 3x4 float32, the network has 3x5 float32",
        ),
        (
            lambda: training_step(linear(), MOMENTUM),
            7,
            "was trained with the seed 0, found 7; --seed 0",
        ),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(kept, step, seed, message):
    _, path = kept
    with pytest.raises(GraphError) as refused:
        read_checkpoint(path, step(), seed)
    assert str(refused.value) == f"{path}: {message}"


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, kept):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with pytest.raises(GraphError) as refused:
        read_checkpoint(tmp_path / "a.npz", kept[0], 0)
    assert str(refused.value) == f"{tmp_path / 'a.npz'}: is no checkpoint of tilewright"


def with_value(number):
    network = linear()
    network.values["w"][1, 2] = number
    return network


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: trained(Settings(1), with_value(np.inf)),
            "'w' has 1 of 12 elements that are not finite",
        ),
        (
            lambda: trained(Settings(1), with_value(3e38)),
            "epoch 1, step 1: node product gives 7 of 48 elements of 'product', 16x3, that are "
            "not finite; a smaller rate",
        ),
        (
            lambda: trained(Settings(1), examples=blobs(8, 0)),
            "8 examples to train with are less than a batch of 16",
        ),
        (lambda: Settings(0), "at least one epoch is trained, found 0"),
        (lambda: Settings(resume=True), "to resume takes a checkpoint, found none"),
    ],
)
def test_what_is_not_trained(make, message):
    with pytest.raises(TilewrightError) as refused:
        make()
    assert str(refused.value) == message
