"""Mutates ONNX models and reads them: each loads or is refused in words, within seconds.

What loads and what onnxruntime runs, too, has to give the same numbers. With `--sanitized` whatever
was run is then compiled for this computer as well and run under the address and undefined-behaviour
sanitizers, many models in one program; its numbers have to be those of the reference. Progress is
kept in a folder, so that a stopped run goes on where it was; findings are kept beside it as models.
Exits with 1 where there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from support.native import NATIVE_HOSTS
from support.networks import merged
from support.onnx_backend import BY_THE_MODEL
from support.onnx_mutations import Judgement, judged, mutated, network_of, numbers_for
from support.sanitized_networks import apart, sanitized_network
from tilewright.common.digest import digest
from tilewright.common.errors import InternalError, TilewrightError
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.targets.host.network.generate import generated

SECONDS_ALLOWED = 10
SAVE_EVERY = 50
TOGETHER = 60
"""Number of models that are built together."""
GOOD = ("right", "built before", "refused")
"""Outcomes of code that are no findings. Many mutations build the same network."""
Outcome = tuple[int, str, str]
"""Number of a mutation, the outcome of its code, and details."""


class State(msgspec.Struct):
    """Progress: mutations numbered below `done` are judged, with `counts` by outcome. Those that
    were `run` are listed; the first `built` of them are built, with `codes` by outcome and digests
    of their `networks`.
    """

    seed: int
    done: int = 0
    counts: dict[str, int] = {}
    run: list[int] = []
    built: int = 0
    codes: dict[str, int] = {}
    networks: set[str] = set()


def main() -> int:
    """Judge the mutations, build their code on request; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="mutations in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", action="store_true", help="of the onnx package's node tests")
    parser.add_argument("--sanitized", action="store_true", help="run their code as well")
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
            if judgement.status in ("alike", "ours alone"):
                state.run.append(state.done)
            state.done += 1
            if state.done % SAVE_EVERY == 0 or state.done == options.count:
                save_state(options.folder, state)
            progress.update(bar, completed=state.done, counts=shown(state))
        worker.end()
    print(f"seed {state.seed}, {state.done} mutations: {shown(state)}")
    if options.sanitized:
        build_all(state, options.folder, nodes=options.nodes)
    is_bad = any(Judgement(status).is_finding for status in state.counts)
    return int(is_bad or bool(state.codes.keys() - {*GOOD}))


class Worker:
    """A process that judges mutations, replaced when it hangs or dies."""

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
        """The judgement of one mutation."""
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
    """Judge the mutations requested through the pipe until it is closed."""
    try:
        while True:
            seed, number = pipe.recv()
            pipe.send(judged(mutated(seed, number, nodes=nodes), pipe.send))
    except EOFError:
        pass


def build_all(state: State, folder: Path, *, nodes: bool) -> None:
    """Build and run the code of mutations that were run, from where an earlier call stopped."""
    arena = apart(setattr)
    while state.built < len(state.run):
        part = state.run[state.built : state.built + TOGETHER]
        contents = {number: mutated(state.seed, number, nodes=nodes) for number in part}
        for number, status, detail in of_code(contents, state.networks, arena):
            state.codes[status] = state.codes.get(status, 0) + 1
            if status not in GOOD:
                name = folder / f"{state.seed}-{number}-code"
                name.with_suffix(".onnx").write_bytes(contents[number])
                name.with_suffix(".txt").write_text(f"{status}: {detail}", encoding="utf-8")
        state.built += len(part)
        save_state(folder, state)
        print(f"{state.built} of {len(state.run)} that were run, built: {state.codes}", flush=True)


def of_code(
    contents: dict[int, bytes], known: set[str], arena: Sequence[tuple[int, int]]
) -> Iterator[Outcome]:
    """Outcomes of the models' code under the sanitizers; `known` networks are not run again."""
    cases: list[tuple[int, Network, Network]] = []
    with tempfile.TemporaryDirectory() as place:
        for number, content in contents.items():
            try:
                network = network_of(content, Path(place))
                own = without_look_ups(simplified(network), reads=False)
                require_lowered(own, NATIVE_HOSTS[0])
                values = (
                    part
                    for name in sorted(own.values)
                    for part in (name, own.values[name].tobytes())
                )
                key = digest(repr((own.nodes, own.inputs, own.weights, own.outputs)), *values)
                if key in known:
                    yield number, "built before", ""
                    continue
                known.add(key)
                cases.append((number, network, own))
            except TilewrightError as refusal:
                yield number, "refused", str(refusal)
    yield from together(cases, arena)


def together(
    cases: Sequence[tuple[int, Network, Network]], arena: Sequence[tuple[int, int]]
) -> Iterator[Outcome]:
    """Outcomes of models built as one; if one is refused or fails, each half is tried."""
    if not cases:
        return
    inputs = [numbers_for(network) for _, network, _ in cases]
    try:
        whole = merged([own for _, _, own in cases])
        code = generated(whole, NATIVE_HOSTS[0], BY_THE_MODEL)
        given = {f"{i}/{n}": x for i, own in enumerate(inputs) for n, x in own.items()}
        found = sanitized_network(code, arena, whole.values, given, ("-O0",))
    except Exception as error:  # an error without words, or one of the sanitizers'
        if len(cases) > 1:
            middle = len(cases) // 2
            yield from together(cases[:middle], arena)
            yield from together(cases[middle:], arena)
            return
        is_refusal = isinstance(error, TilewrightError) and not isinstance(error, InternalError)
        yield cases[0][0], "refused" if is_refusal else "failed", traceback.format_exc()
        return
    for i, ((number, network, _), own) in enumerate(zip(cases, inputs, strict=True)):
        results = [{n: y[f"{i}/{n}"] for n in network.outputs} for y in found]
        yield number, *compared(network.evaluate(own), results)


def compared(expected: dict[str, Any], results: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """The outcome, and how the first different result differs."""
    try:
        for name, y in expected.items():
            for own in results:
                np.testing.assert_allclose(
                    own[name], y, 1e-4, 1e-4 * np.abs(y[np.isfinite(y)]).max(initial=1)
                )
    except AssertionError as error:
        return "different", f"{name}: {error}"
    return "right", ""


def read_state(folder: Path, seed: int) -> State:
    """Progress of an earlier run with this seed."""
    path = folder / f"{seed}.json"
    return msgspec.json.decode(path.read_bytes(), type=State) if path.is_file() else State(seed)


def save_state(folder: Path, state: State) -> None:
    """Record the progress for the next run."""
    (folder / f"{state.seed}.json").write_bytes(msgspec.json.encode(state))


def keep(place: Path, content: bytes, judgement: Judgement) -> None:
    """Write the model of a finding, and its details."""
    name = place.with_name(f"{place.name}-{judgement.status.replace(' ', '-')}")
    name.with_suffix(".onnx").write_bytes(content)
    name.with_suffix(".txt").write_text(judgement.detail, encoding="utf-8")


def shown(state: State) -> str:
    """The counts in one line."""
    return ", ".join(f"{count} {status}" for status, count in sorted(state.counts.items()))


if __name__ == "__main__":
    sys.exit(main())
