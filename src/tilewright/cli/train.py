"""`tilewright train`: a network and examples in; loss and accuracy per epoch, and weights out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from tilewright.cli.arguments import Train
from tilewright.cli.options import OperatorOptions
from tilewright.cli.output import UsageProblem, progress_bar
from tilewright.cli.workload import machine_of, named_network
from tilewright.codegen.folder import write_arrays
from tilewright.common.deferred import Deferred
from tilewright.common.files import new_file
from tilewright.graph.training import Optimiser
from tilewright.training import Examples, Settings, digits, read_examples, train
from tilewright.training.checkpoint import Epoch

figures = Deferred("tilewright.papers.figures")
_DIGITS = "digits"
_PICTURES = (".png", ".svg")
_DOTS_PER_INCH = 150


class TrainingRun(Struct, frozen=True):
    """The `--json` form: `seconds` of the whole command, `train_seconds` of the epochs' steps."""

    network: str
    machine: str
    examples: int
    test_examples: int
    epochs: tuple[Epoch, ...]
    seconds: float
    train_seconds: float


def run(asked: Train) -> None:
    """Train, show each epoch, and write the files requested."""
    started = time.perf_counter()
    if asked.resume and asked.checkpoint is None:
        raise UsageProblem("--resume goes on from a --checkpoint, found none")
    if asked.curve is not None and asked.curve.suffix not in _PICTURES:
        raise UsageProblem(f"--curve takes a file {' or '.join(_PICTURES)}, found {asked.curve}")
    settings = _settings(asked)
    options = OperatorOptions(batch=asked.batch, dtype=asked.dtype)
    network, machine = named_network(asked.network, options, asked.dtype), machine_of(asked.machine)
    examples, test = _examples(asked)
    with progress_bar(asked.output) as progress:
        told = partial(_show, asked)
        found = train(network, examples, test, machine, settings, told=told, progress=progress)
    seconds = time.perf_counter() - started
    steps = sum(epoch.seconds for epoch in found.epochs)
    run = TrainingRun(
        network.name, machine.name, len(examples), len(test), found.epochs, seconds, steps
    )
    asked.output.value(run)
    asked.output.show(f"{seconds:.2f} s in all, {steps:.2f} s of it training")
    if asked.curve is not None:
        _write_curve(asked.curve, network.name, found.epochs)
        asked.output.show(f"curve written to {asked.curve}")
    if asked.out is not None:
        write_arrays(asked.out, found.weights)
        asked.output.show(f"weights written to {asked.out}")


def _settings(asked: Train) -> Settings:
    method, rate, decay = asked.optimiser, asked.rate, asked.decay
    optimiser = Optimiser(method, rate, decay)  # type: ignore[arg-type]  # it checks the method
    resume = asked.resume and asked.checkpoint is not None and asked.checkpoint.exists()
    return Settings(
        asked.epochs, optimiser, asked.seed, asked.micro_batches, asked.checkpoint, resume
    )


def _examples(asked: Train) -> tuple[Examples, Examples]:
    """The examples to train and to test with."""
    if asked.data == _DIGITS:
        return digits().divided(asked.test_share, asked.seed)
    found, test = read_examples(Path(asked.data))
    return found.divided(asked.test_share, asked.seed) if test is None else (found, test)


def _show(asked: Train, epoch: Epoch) -> None:
    width = len(str(asked.epochs))
    asked.output.show(
        f"epoch {epoch.number:{width}} of {asked.epochs}: loss {epoch.loss:.4f}, accuracy "
        f"{100 * epoch.accuracy:.2f} %, tested {100 * epoch.test_accuracy:.2f} %, "
        f"{epoch.seconds:.3f} s"
    )


def _write_curve(path: Path, name: str, epochs: Sequence[Epoch]) -> None:
    """Draw loss and errors into a .png or .svg file. Raises OSError if it cannot be written."""
    series = {
        "loss": [epoch.loss for epoch in epochs],
        "errors while training": [1 - epoch.accuracy for epoch in epochs],
        "errors when tested": [1 - epoch.test_accuracy for epoch in epochs],
    }
    figure = figures.lines(
        [epoch.number for epoch in epochs],
        series,
        title=f"training of {name}",
        x_label="epoch",
        y_label="loss, share of errors",
    )
    with new_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=_DOTS_PER_INCH)
