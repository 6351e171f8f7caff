"""Kill trainings at random moments: at most one epoch is lost, and the result is the same.

    PYTHONPATH=tests python tools/kill_training.py [KILLS [SEED]]

A small network is trained in separate processes, which are killed (SIGKILL) after a random time and
resume from their checkpoint. Between two kills the checkpoint is read: it is whole, and no earlier
than the last epoch that the process reported. In the end the weights equal those of an
uninterrupted run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import numpy as np

from support.training import blobs, linear
from tilewright.graph.training import Optimiser, training_step
from tilewright.training import Settings, train
from tilewright.training.checkpoint import read_checkpoint

ENDLESS = 10**6
"""Epochs for a process to be killed: more than it can finish."""
OPTIMISER = Optimiser("momentum", 0.01)


def trained(path: Path | None, epochs: int, *, resume: bool) -> dict[str, np.ndarray]:
    """The weights after `epochs` epochs; each is reported on standard output."""
    settings = Settings(epochs, OPTIMISER, checkpoint=path, resume=resume)
    found = train(
        linear(), blobs(400, 0), blobs(20, 1), "host", settings,
        told=lambda epoch: print(epoch.number, flush=True),
    )  # fmt: skip
    return found.weights


def killed(path: Path, epochs: int, seconds: float) -> int:
    """Start a training and kill it; returns the last epoch that it reported."""
    command = [sys.executable, __file__, "--work", str(path), str(epochs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        rest = process.stdout.read().split("\n")
    told = [int(line) for line in (first.strip(), *rest[:-1]) if line]
    return max(told, default=0)


def main() -> int:
    """Kill as often as asked; the exit code is 1 if anything was lost."""
    if sys.argv[1:2] == ["--work"]:
        path, epochs = Path(sys.argv[2]), int(sys.argv[3])
        trained(path, epochs, resume=path.exists())
        return 0
    given = [int(x) for x in sys.argv[1:]]
    count, seed = (*given, *(300, 0)[len(given) :])
    random, step, epochs = Random(seed), training_step(linear(), OPTIMISER), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.npz"
        for number in range(count):
            told = killed(path, ENDLESS, random.uniform(0.0, 0.05))
            _, kept = read_checkpoint(path, step, 0)
            if len(kept) < max(told, epochs):
                print(f"kill {number}: epoch {told} was told, {len(kept)} are kept")
                return 1
            epochs = len(kept)
        found, whole = (
            trained(path, epochs + 1, resume=True),
            trained(None, epochs + 1, resume=False),
        )
        if any(not np.array_equal(found[name], whole[name]) for name in whole):
            print(f"weights after {epochs + 1} epochs are not those of an uninterrupted run")
            return 1
    print(f"{count} kills, {epochs} epochs, nothing told was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
