"""How much is lost by trusting the model: its pick against the best of the space by simulation.

    python benchmarks/search_quality.py [--algorithm NAME ...] [--sample N] [--records FILE]

The cases are the 225 convolutions of swATOP Listing 1 (see shared/listings.py for which 225), each
the piece of one core group where the output rows are divided over four (swDNN III-D). Everything is
simulated at kernel level; the paper ran its candidates on the machine (swATOP 5.2, Fig. 9). A
candidate is left unsimulated only where its estimate says that it cannot win unless it runs faster
than `--floor` times the estimate; the lowest such ratio that was seen is printed, and `--floor 0`
simulates everything.

Each finished case is one line of the records file, so a run that was stopped goes on where it was;
lines that other code or another machine wrote are not used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from shared.listings import listing1, spread_sample
from shared.nests import Search, search_by_simulation
from shared.output import code_digest, note, processor, show, text_table

from tilewright.machine import Machine
from tilewright.machine.load import load_machine
from tilewright.ops import Conv2d
from tilewright.partition import split
from tilewright.seeds.space import seeds_for
from tilewright.tune.measure import schedule_text
from tilewright.tune.search import Candidate, main_memory_bytes

ALGORITHMS = ("implicit", "explicit", "winograd2", "winograd4")
QUICK = 9
Row = dict[str, Any]
Task = tuple[Conv2d, str, str, float, float]


def piece_of(op: Conv2d, machine: Machine) -> Conv2d:
    """What one core group computes where the output rows are divided."""
    found = split(op, machine.groups.count)
    piece = next((p.piece for p in found if p.kind in ("rows", "whole")), found[0].piece)
    assert isinstance(piece, Conv2d)
    return piece


def measured(task: Task) -> Row:
    """One case as a record."""
    op, algorithm, machine_name, floor, seconds = task
    machine = load_machine(machine_name)
    piece = piece_of(op, machine)
    (seed,) = seeds_for(piece, algorithm)
    start = time.perf_counter()
    row: Row = {"case": op.describe(), "algorithm": algorithm, "floor": floor}
    if main_memory_bytes(piece, seed) > machine.memory.main.capacity_bytes:
        return row | {"skipped": "its tensors exceed the main memory of a core group"}
    search = search_by_simulation(piece, seed, machine, floor=floor, seconds=seconds)
    if search is None:
        return row | {"skipped": "no tile fits the scratchpad"}
    best = Candidate(piece, seed, search.best)
    return row | {
        "batch": op.batch,
        "estimate_cycles": search.picked.cycles,
        "picked_cycles": search.picked_cycles,
        "best_cycles": search.best_cycles,
        "best_estimate_cycles": best.cycles,
        "loss": search.loss,
        **{name: getattr(search, name) for name in _COUNTS},
        "picked": schedule_text(search.picked),
        "best": schedule_text(best),
        "seconds": time.perf_counter() - start,
    }


_COUNTS = (
    "space", "priced", "simulated", "programs", "left_out", "lowest_ratio", "highest_ratio",
)  # fmt: skip
assert set(_COUNTS) <= set(Search.__dataclass_fields__)


def run(tasks: Sequence[Task], workers: int) -> Iterator[Row]:
    """The records of the tasks as they are done."""
    if workers == 1:
        yield from map(measured, tasks)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        yield from executor.map(measured, tasks)


def known_rows(path: Path, stamp: str) -> list[Row]:
    """The records that this code wrote; a line cut short by a killed run is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row.get("stamp") == stamp:
            rows.append(row)
    return rows


def collect(arguments: argparse.Namespace) -> list[Row]:
    """Every case's record, from the file or made now and appended to it."""
    machine = load_machine(arguments.machine)
    stamp = f"{machine.content_hash()[:16]} {code_digest()}"
    path = Path(arguments.records)
    known = {(r["case"], r["algorithm"], r["floor"]): r for r in known_rows(path, stamp)}
    cases = [
        (op, name)
        for name in arguments.algorithm
        for op in spread_sample(listing1(), arguments.sample)
    ]
    limit = arguments.floor, arguments.seconds_per_case
    open_tasks = [
        (op, name, arguments.machine, *limit)
        for op, name in cases
        if (op.describe(), name, arguments.floor) not in known
    ]
    note(f"{len(cases)} cases, {len(cases) - len(open_tasks)} of them known from {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for i, row in enumerate(run(open_tasks, arguments.workers), 1):
            file.write(json.dumps(row | {"stamp": stamp}) + "\n")
            file.flush()
            known[row["case"], row["algorithm"], row["floor"]] = row
            note(f"{i}/{len(open_tasks)} {row['algorithm']} {row['case']}: {_short(row)}")
    return [known[op.describe(), name, arguments.floor] for op, name in cases]


def _short(row: Row) -> str:
    if "skipped" in row:
        return str(row["skipped"])
    return (
        f"loss {row['loss']:.2%}, {row['simulated']} of {row['priced']} simulated, "
        f"{row['seconds']:.1f} s" + (f", {row['left_out']} LEFT OUT" if row["left_out"] else "")
    )


def summary(rows: list[Row]) -> list[Row]:
    """Losses by algorithm and batch, then of the whole algorithm."""
    found = []
    for name in dict.fromkeys(r["algorithm"] for r in rows):
        of_name = [r for r in rows if r["algorithm"] == name]
        done = [r for r in of_name if "skipped" not in r]
        for batch in (*sorted({r["batch"] for r in done}), None):
            chosen = [r for r in done if batch in (None, r["batch"])]
            if chosen:
                found.append({"algorithm": name, "batch": batch, **_statistics(chosen)})
        if done:
            found[-1]["skipped"] = len(of_name) - len(done)
    return found


def _statistics(rows: list[Row]) -> Row:
    losses = [r["loss"] for r in rows]
    return {
        "cases": len(rows),
        "mean_loss": statistics.fmean(losses),
        "worst_loss": max(losses),
        "optimal": sum(loss == 0 for loss in losses),
        "simulated": sum(r["simulated"] for r in rows),
        "priced": sum(r["priced"] for r in rows),
        "left_out": sum(r["left_out"] for r in rows),
        "lowest_ratio": min(r["lowest_ratio"] for r in rows),
        "highest_ratio": max(r["highest_ratio"] for r in rows),
    }


def as_text(rows: list[Row], table: list[Row]) -> str:
    """The table of losses, the worst cases and what the figures rest on."""
    headers = ("algorithm", "batch", "cases", "mean loss", "worst", "optimal", "simulated", "of",
               "left out", "simulated/estimate")  # fmt: skip
    lines = [
        (
            r["algorithm"], r["batch"] or "all", r["cases"], f"{r['mean_loss']:.2%}",
            f"{r['worst_loss']:.2%}", r["optimal"], r["simulated"], r["priced"], r["left_out"],
            f"{r['lowest_ratio']:.3f} to {r['highest_ratio']:.3f}",
        )
        for r in table
    ]  # fmt: skip
    done = sorted((r for r in rows if "skipped" not in r), key=lambda r: -r["loss"])
    worst = [(r["algorithm"], r["case"], f"{r['loss']:.2%}") for r in done[:8] if r["loss"]]
    skipped = [f"skipped: {r['algorithm']} {r['case']}: {r['skipped']}" for r in rows
               if "skipped" in r]  # fmt: skip
    parts = ["performance lost by the model's pick against the best of the space (simulated)",
             text_table(headers, lines)]  # fmt: skip
    if worst:
        parts += ["worst cases", text_table(("algorithm", "case", "loss"), worst)]
    return "\n\n".join([*parts, *(["\n".join(skipped)] if skipped else [])])


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithm", nargs="+", choices=ALGORITHMS, default=["implicit"])
    parser.add_argument("--machine", default="sw26010")
    parser.add_argument("--sample", type=int, help="this many cases spread over the 225")
    parser.add_argument("--quick", action="store_true", help=f"--sample {QUICK}")
    parser.add_argument("--floor", type=float, default=0.85, help="lowest simulated / estimate")
    parser.add_argument("--seconds-per-case", type=float, default=120.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--records", default="out/search_quality.jsonl")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sample = QUICK
    return arguments


def main() -> None:
    """Run, then print."""
    arguments = read_arguments()
    rows = collect(arguments)
    table = summary(rows)
    result = {
        "processor": processor(),
        "machine": arguments.machine,
        "kind": "simulated",
        "floor": arguments.floor,
        "summary": table,
        "rows": rows,
    }
    show(result, as_text(rows, table), arguments.json)


if __name__ == "__main__":
    main()
