"""Mutates ONNX models and reads them: each loads or is refused in words, within seconds.

What loads and what onnxruntime runs, too, has to give the same numbers. Progress is kept in a
folder, so that a stopped run goes on where it was; findings are kept beside it as models. Exits
with 1 where there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from support.onnx_mutations import Judgement, judged, mutated

SECONDS_ALLOWED = 10
SAVE_EVERY = 50


class State(msgspec.Struct):
    """Progress: mutation numbers below `done`, counted by outcome."""

    seed: int
    done: int = 0
    counts: dict[str, int] = {}


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="mutations in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", action="store_true", help="of the onnx package's node tests")
    parser.add_argument("--folder", type=Path, default=Path("out/fuzz-onnx"))
    options = parser.parse_args()
    options.folder /= "nodes" if options.nodes else ""
    options.folder.mkdir(parents=True, exist_ok=True)
    mutated(options.seed, 0, nodes=options.nodes)  # what workers are forked with
    state = read_state(options.folder, options.seed)
    with Progress(
        *Progress.get_default_columns(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
        console=Console(stderr=True),
    ) as progress:
        bar = progress.add_task("models", total=options.count, counts="", completed=state.done)
        worker = Worker(nodes=options.nodes)
        while state.done < options.count:
            judgement = worker.judged(options.seed, state.done)
            if judgement.is_finding:
                content = mutated(options.seed, state.done, nodes=options.nodes)
                keep(options.folder / f"{options.seed}-{state.done}", content, judgement)
            state.counts[judgement.status] = state.counts.get(judgement.status, 0) + 1
            state.done += 1
            if state.done % SAVE_EVERY == 0 or state.done == options.count:
                save_state(options.folder, state)
            progress.update(bar, completed=state.done, counts=shown(state))
        worker.end()
    print(f"seed {state.seed}, {state.done} mutations: {shown(state)}")
    return int(any(Judgement(status).is_finding for status in state.counts))


class Worker:
    """A process that judges mutations, replaced where it hangs or dies."""

    def __init__(self, *, nodes: bool) -> None:
        self._nodes = nodes
        self._start()

    def _start(self) -> None:
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=serve, args=(other, self._nodes), daemon=True
        )
        self._process.start()
        other.close()

    def judged(self, seed: int, number: int) -> Judgement:
        """Judges one mutation."""
        self._pipe.send((seed, number))
        reached = "started"
        try:
            while self._pipe.poll(SECONDS_ALLOWED):
                answer = self._pipe.recv()
                if isinstance(answer, Judgement):
                    return answer
                reached = answer
        except EOFError:
            self._start()
            return Judgement("died", reached) if reached != "theirs" else Judgement("theirs died")
        self.end()
        self._start()
        return Judgement("hung", reached) if reached != "theirs" else Judgement("theirs hung")

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.join()


def serve(pipe: Connection, nodes: bool) -> None:
    """Judge what is asked for until nobody asks."""
    try:
        while True:
            seed, number = pipe.recv()
            pipe.send(judged(mutated(seed, number, nodes=nodes), pipe.send))
    except EOFError:
        pass


def read_state(folder: Path, seed: int) -> State:
    """Progress of an earlier run with this seed."""
    path = folder / f"{seed}.json"
    return msgspec.json.decode(path.read_bytes(), type=State) if path.is_file() else State(seed)


def save_state(folder: Path, state: State) -> None:
    """For the next run."""
    (folder / f"{state.seed}.json").write_bytes(msgspec.json.encode(state))


def keep(place: Path, content: bytes, judgement: Judgement) -> None:
    """The model of a finding, and what it is."""
    name = place.with_name(f"{place.name}-{judgement.status.replace(' ', '-')}")
    name.with_suffix(".onnx").write_bytes(content)
    name.with_suffix(".txt").write_text(judgement.detail, encoding="utf-8")


def shown(state: State) -> str:
    """The counts in one line."""
    return ", ".join(f"{count} {status}" for status, count in sorted(state.counts.items()))


if __name__ == "__main__":
    sys.exit(main())
