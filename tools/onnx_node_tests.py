"""Runs the node tests of the onnx package on the reference and on this computer, and counts.

Exits with 1 where a result is wrong; anything else than a refusal in words ends with a traceback.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from support.onnx_backend import Outcome, Runnable, node_tests, on_host, on_reference, read


def main() -> int:
    """Exit code."""
    tests = node_tests()
    with Progress(console=Console(stderr=True)) as progress, tempfile.TemporaryDirectory() as name:
        reading = progress.add_task("read and run on the reference", total=len(tests))
        found: list[Outcome] = []
        runnables: list[Runnable] = []
        for case in tests:
            outcome = read(case, Path(name))
            if isinstance(outcome, Runnable):
                runnables.append(outcome)
                outcome = on_reference(outcome)
            found.append(outcome)
            progress.advance(reading)
        refused = [outcome for outcome in found if outcome.status == "refused"]
        compiling = progress.add_task("compile and run", total=len(runnables))
        host = [*on_host(runnables, lambda n: progress.advance(compiling, n)), *refused]
    report("reference", found)
    report("this computer", host)
    print("\nreasons of refusals on this computer:")
    for reason, count in Counter(map(_reason, _refused(host))).most_common():
        print(f"{count:6}  {reason}")
    return int(any(outcome.status == "wrong" for outcome in (*found, *host)))


def report(where: str, outcomes: Iterable[Outcome]) -> None:
    """Counts, and each wrong result."""
    counts = Counter(outcome.status for outcome in outcomes)
    shown = ", ".join(f"{counts[status]} {status}" for status in ("passed", "refused", "wrong"))
    print(f"{where}: {sum(counts.values())} tests: {shown}")
    for outcome in outcomes:
        if outcome.status == "wrong":
            print(f"  {outcome.name}: {outcome.detail}")


def _refused(outcomes: Iterable[Outcome]) -> list[str]:
    return [outcome.detail for outcome in outcomes if outcome.status == "refused"]


def _reason(detail: str) -> str:
    """A refusal without what belongs to its one node."""
    if "\n" in detail:
        return "several nodes, or several reasons"
    first = detail.split("; ")[0]
    if "cannot be run on this computer" in first:
        return "cannot be run on this computer, since" + first.partition("since")[2]
    if first.startswith("input"):
        return "an input" + first.removeprefix(first[: first.index("' ") + 1])
    return first.partition("): ")[2] or first


if __name__ == "__main__":
    sys.exit(main())
