"""Runs the node tests of the onnx package on the reference and on this computer, and counts.

Networks that the SW26010, and the Cambricon in fixed point, have all stages of are counted as well.
Outcomes are kept in a folder, slice by slice, so that a stopped run goes on where it was; `--again`
repeats the tests with an outcome, such as `refused`. Slices run in processes of their own: what
kills one is an outcome, too. Exits with 1 where a result is wrong or no refusal in words. A whole
run writes the counts of each operator, which docs/reference/onnx.md shows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from support.onnx_backend import Outcome, Runnable, node_tests, on_host, on_reference, read
from support.plans import GROUP
from tilewright.common.errors import TilewrightError
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.rewriting import simplified
from tilewright.machine import load_machine
from tilewright.network.requirements import without_look_ups
from tilewright.targets.cambricon.networks import NETWORKS as CAMBRICON
from tilewright.targets.sw26010.networks import NETWORKS as SW26010

COUNTS = Path(__file__).parents[1] / "docs" / "reference" / "onnx_node_tests.json"
TOGETHER = 32
"""Number of tests in a slice."""
FAULTS = ("wrong", "traceback", "died")
GOOD = ("passed", "rounded", "has stages")
DEVICE, FIXED = load_machine("dla-al"), FixedPoint("q8.8:q48.16:q8.8")

Outcomes = dict[str, Outcome]
REQUIRE: dict[str, Callable[[Network], None]] = {
    "sw26010": lambda network: SW26010.require(without_look_ups(network), GROUP),
    "cambricon": lambda network: CAMBRICON.require(FIXED.apply(network), DEVICE),
}
"""Checks that raise if a machine lacks a stage of a network."""


class State(msgspec.Struct):
    """Outcomes at each place, by name of the test."""

    reference: Outcomes = {}
    host: Outcomes = {}
    sw26010: Outcomes = {}
    cambricon: Outcomes = {}


PLACES = State.__struct_fields__


def main() -> int:
    """Run the tests without an outcome and report all; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/onnx-node-tests"))
    parser.add_argument("--again", nargs="*", default=[], help="outcomes that are tried again")
    parser.add_argument("--only", default="", help="a text that names of tests hold")
    parser.add_argument("--place", action="append", choices=PLACES, help="all by default")
    options = parser.parse_args()
    state = State() if (known := kept(options.folder)) is None else known
    for outcomes in (getattr(state, place) for place in PLACES):
        for name in [n for n, o in outcomes.items() if o.status in options.again]:
            del outcomes[name]
    places: dict[str, Outcomes] = {p: getattr(state, p) for p in options.place or PLACES}
    for place, outcomes in places.items():
        left = [name for name in names() if options.only in name and name not in outcomes]
        with Progress(
            *Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)
        ) as progress:
            bar = progress.add_task(place, total=len(left))
            for start in range(0, len(left), TOGETHER):
                part = left[start : start + TOGETHER]
                outcomes |= in_process(place, part)
                keep(options.folder, state)
                progress.advance(bar, len(part))
    for place, outcomes in places.items():
        report(place, outcomes)
    if not options.only:
        lines = (f'"{kind}": {own}' for kind, own in counted(places).items())
        COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    found = (outcome.status for outcomes in places.values() for outcome in outcomes.values())
    return int(any(status in FAULTS for status in found))


def names() -> list[str]:
    """Every node test."""
    return [case.name for case in node_tests()]


def in_process(place: str, part: Sequence[str]) -> Outcomes:
    """Outcomes of a slice; if its process dies, its halves are tried."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, place, part))
    process.start()
    theirs.close()
    try:
        found: list[Outcome] = ours.recv()
        process.join()
        return {outcome.name: outcome for outcome in found}
    except EOFError:
        process.join()
    if len(part) == 1:
        return {part[0]: Outcome(part[0], "died", f"exit code {process.exitcode}")}
    middle = len(part) // 2
    return in_process(place, part[:middle]) | in_process(place, part[middle:])


def serve(pipe: Connection, place: str, part: Sequence[str]) -> None:
    """Send the outcomes of a slice."""
    cases = [case for case in node_tests() if case.name in set(part)]
    with tempfile.TemporaryDirectory() as folder:
        tried = [item for case in cases for item in guarded(case.name, lambda c=case: [
            read(c, Path(folder))])]  # fmt: skip
    runnables = [item for item in tried if isinstance(item, Runnable)]
    found = [item for item in tried if isinstance(item, Outcome)]
    if place == "host":
        found += computed_here(runnables)
    else:
        judge = on_reference if place == "reference" else partial(in_stages, place)
        for item in runnables:
            found += guarded(item.case.name, lambda i=item: [judge(i)])
    pipe.send(found)


def in_stages(place: str, runnable: Runnable) -> Outcome:
    """Outcome of a test: whether a machine has all stages of its network."""
    try:
        REQUIRE[place](simplified(runnable.network))
    except TilewrightError as error:
        return Outcome(runnable.case.name, "refused", str(error))
    return Outcome(runnable.case.name, "has stages")


def computed_here(runnables: Sequence[Runnable]) -> list[Outcome]:
    """Outcomes of generated code; tests are run one by one if together they raise an error."""
    try:
        return list(on_host(runnables))
    except Exception:
        return [o for r in runnables for o in guarded(r.case.name, lambda r=r: list(on_host([r])))]


def guarded(name: str, act: Callable[[], list[Outcome | Runnable]]) -> list[Outcome | Runnable]:
    """The outcomes of `act`, or one outcome with the traceback of an unexpected error."""
    try:
        return act()
    except Exception:
        return [Outcome(name, "traceback", traceback.format_exc())]


def kept(folder: Path) -> State | None:
    """The recorded outcomes, if any."""
    path = folder / "outcomes.json"
    return msgspec.json.decode(path.read_bytes(), type=State) if path.is_file() else None


def keep(folder: Path, state: State) -> None:
    """Record the outcomes for the next run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "outcomes.json").write_bytes(msgspec.json.encode(state))


def counted(places: Mapping[str, Outcomes]) -> dict[str, list[int]]:
    """For each operator with tests: their number, and at each place how many pass. Places that were
    not run keep the counts of the file.
    """
    before = json.loads(COUNTS.read_text(encoding="utf-8"))
    counts: dict[str, list[int]] = {}
    for case in node_tests():
        for kind in {node.op_type for node in case.model.graph.node}:
            own = counts.setdefault(kind, [0] * (1 + len(PLACES)))
            own[0] += 1
            for number, place in enumerate(PLACES, 1):
                if place in places:
                    own[number] += places[place][case.name].status in GOOD
                else:
                    own[number] = [*before.get(kind, []), *own][number]
    return dict(sorted(counts.items()))


def report(place: str, outcomes: Outcomes) -> None:
    """Print counts, each fault, and the causes of refusals."""
    counts = Counter(outcome.status for outcome in outcomes.values())
    shown = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    print(f"{place}: {sum(counts.values())} tests: {shown}")
    for outcome in outcomes.values():
        if outcome.status in FAULTS:
            print(f"  {outcome.name}: {outcome.status}: {outcome.detail}")
    refusals = (o.detail for o in outcomes.values() if o.status == "refused")
    for cause, count in Counter(map(_cause, refusals)).most_common():
        print(f"{count:6}  {cause}")


def _cause(detail: str) -> str:
    """A refusal without the details of its node."""
    lines = list(_lines(detail))
    return lines[0] if len(lines) == 1 else f"{lines[0]}; and {len(lines) - 1} more"


def _lines(detail: str) -> Iterable[str]:
    if "\n" in detail:
        yield from (line.strip().partition(" (node")[0] for line in detail.splitlines()[1:])
        return
    first = detail.split("; ")[0]
    kind = first.partition(" (")[2].partition(")")[0]
    yield f"{kind}: {first.partition('): ')[2]}" if "): " in first else first


if __name__ == "__main__":
    sys.exit(main())
