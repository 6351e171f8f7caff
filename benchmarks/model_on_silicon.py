"""The cost model against this computer: estimates beside measured times, picks beside whole spaces.

    PYTHONPATH=src python benchmarks/model_on_silicon.py estimates [vgg16 | products | ...]
    PYTHONPATH=src python benchmarks/model_on_silicon.py spaces [vgg16 | products | ...]
        [--machine host] [--only NAME] [--every N] [--records FILE] [--quick] [--json] [--csv FILE]

`estimates` measures the model's pick for every layer, and the direct one, and compares the cycles
with the estimates. `spaces` times every candidate of a layer and prints what the model's first
pick, and the best of its first five, lose against the fastest (`host.spaces`, `host.sieve`); with
`--every N` it times only one candidate in N, and its tables do not call that a whole space. Each
measurement is appended to a file of records at once, and is not repeated by the same sources.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from host.contest import NETWORKS, Workload, layers, products
from host.spaces import TOP, Landscape, explore, timed
from shared.output import note, processor, show, text_table
from shared.results import add_csv_option, write_results

from tilewright.common.digest import digest, own_sources
from tilewright.machine import Machine, find_machine
from tilewright.tune.choose import choose
from tilewright.tune.sampling import DEFAULT_PROTOCOL, Protocol

RECORDS = Path("out/model_on_silicon.jsonl")
QUICK_ROUNDS, QUICK_WORKLOADS, QUICK_EVERY = 3, 2, 64

Record = dict[str, Any]
Key = tuple[str, str, str, int, str]
"""Part, machine, workload, one candidate in so many, digest of the machine and the sources."""


def main() -> None:
    """Measure the workloads that are not recorded yet, and show all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=("estimates", "spaces"), default="estimates")
    parser.add_argument("kind", nargs="*", help="products, or networks of the zoo; default: all")
    parser.add_argument("--machine", default="host")
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--every", type=int, default=1, help="one candidate in so many")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--quick", action="store_true", help="few workloads, samples, candidates")
    parser.add_argument("--json", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.every = max(arguments.every, QUICK_EVERY)
        arguments.records = arguments.records.with_suffix(".quick.jsonl")
    machine, found = find_machine(arguments.machine), []
    known = {key(r): r for r in records(arguments.records)}
    sources = digest(machine.content_hash(), own_sources())
    for workload in workloads(arguments.kind, arguments.only, quick=arguments.quick):
        what = (arguments.part, machine.name, workload.name, arguments.every, sources)
        if what in known:
            note(f"{workload.name}: measured on {known[what]['date']}, --records NEW repeats it")
        else:
            note(f"{workload.name}: {workload.op.describe()}")
            known[what] = measured(what, workload, machine, arguments)
            append(arguments.records, known[what])
        found.append(known[what])
    text = estimates_text(found) if arguments.part == "estimates" else spaces_text(found)
    keep(arguments, found)
    show({"processor": processor(), "workloads": found}, f"{processor()}\n{text}", arguments.json)


def workloads(kinds: Sequence[str], only: str, *, quick: bool) -> Iterator[Workload]:
    """The selected distinct layers and products."""
    for kind in kinds or (*NETWORKS, "products"):
        every = products(quick=quick) if kind == "products" else layers(kind, 1, quick=quick)
        chosen = [one for one in every if only in one.name]
        yield from chosen[:QUICK_WORKLOADS] if quick else chosen


def key(record: Record) -> Key:
    """Identity of a record's subject; records without sources are of earlier ones."""
    own = record["part"], record["machine"], record["name"], record["every"]
    return *own, record.get("sources", "")


def records(path: Path) -> list[Record]:
    """The records of earlier runs."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


def append(path: Path, record: Record) -> None:
    """Append a record to the file at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def measured(
    what: Key,
    workload: Workload,
    machine: Machine,
    arguments: argparse.Namespace,
) -> Record:
    """Measure one workload; returns its record."""
    protocol = DEFAULT_PROTOCOL.hurried(QUICK_ROUNDS) if arguments.quick else DEFAULT_PROTOCOL
    head = dict(zip(("part", "machine", "name", "every", "sources"), what, strict=True))
    head |= {
        "shape": workload.op.describe(),
        "flops": workload.op.flops,
        "date": date.today().isoformat(),
    }
    if arguments.part == "estimates":
        return head | {"picks": estimated(workload, machine, protocol)}
    landscape = explore(workload.op, machine, arguments.every, protocol, note)
    write_csv(arguments.records, workload.name, landscape, machine)
    return head | summary(landscape, machine)


def estimated(workload: Workload, machine: Machine, protocol: Protocol) -> list[Record]:
    """Estimated and measured cycles of the model's pick and of the direct one, if different."""
    (choice,) = choose([workload.op], machine)
    direct = (o for o in choice.options if o.algorithm == "direct")
    options = [choice.best, next(direct, choice.best)]
    picks = list({id(o.candidate): o.candidate for o in options}.values())
    timings = timed(workload.op, picks, machine, protocol)
    return [
        {
            "algorithm": pick.seed.name,
            "estimated_cycles": pick.cycles,
            "measured_cycles": timing.seconds,
            "spread": timing.spread,
            "clock": timing.clock,
        }
        for pick, timing in zip(picks, timings, strict=True)
    ]


def summary(found: Landscape, machine: Machine) -> Record:
    """The figures of a landscape, without its candidates."""
    winner = found.finalists[found.fastest]
    return {
        "candidates": found.counts,
        "left_out": found.left_out,
        "timed": len(found.sifted),
        "picked": found.finalists[0].seed.name,
        "fastest": winner.seed.name,
        "estimated_cycles": found.finalists[0].cycles,
        "picked_cycles": found.timings[0].best_seconds,
        "fastest_cycles": found.timings[found.fastest].best_seconds,
        "loss": found.loss(1),
        "loss_of_top": found.loss(found.picks),
        "clock": found.timings[0].clock,
    }


def write_csv(beside: Path, name: str, found: Landscape, machine: Machine) -> None:
    """Write all candidates of a space: algorithm, estimate, least measured time, schedule."""
    path = beside.parent / f"{beside.stem}.{name.replace(' ', '_')}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("algorithm", "estimated_us", "measured_us", "schedule"))
        for one in found.sifted:
            estimate = one.candidate.cycles / machine.clock_hz * 1e6
            blocks = " ".join(f"{n}={v}" for n, v in one.candidate.blocks.items())
            schedule = f"{blocks} " + " | ".join(str(n.schedule) for n in one.candidate.nests)
            cells = (f"{estimate:.2f}", f"{one.seconds * 1e6:.2f}")
            writer.writerow((one.candidate.seed.name, *cells, " ".join(schedule.split())))


def estimates_text(found: Iterable[Record]) -> str:
    """A table with a line for each pick, and the errors over all."""
    rows, errors, pairs = [], [], []
    for record in found:
        for pick in record["picks"]:
            pairs.append((pick["estimated_cycles"], pick["measured_cycles"]))
            errors.append(pairs[-1][0] / pairs[-1][1] - 1)
            counts = [f"{c / 1e6:.3f}" for c in pairs[-1]]
            cells = (*counts, f"{errors[-1]:+.1%}", f"{pick['spread']:.1%}", pick["clock"])
            rows.append((record["name"], pick["algorithm"], *cells))
    heads = ("workload", "algorithm", "expected Mcycles", "measured", "error", "spread", "clock")
    mean, worst = statistics.mean(map(abs, errors)), max(errors, key=abs)
    order = rank_correlation(*zip(*pairs, strict=True)) if len(pairs) > 1 else float("nan")
    text = f"mean absolute error {mean:.1%}, worst {worst:+.1%}, of {len(errors)}"
    return f"{text_table(heads, rows)}\n{text}; rank correlation {order:.4f}"


def keep(arguments: argparse.Namespace, found: Sequence[Record]) -> None:
    """Write the requested CSV: a row for each pick, or for each space."""
    estimates = arguments.part == "estimates"
    whole = "whole spaces" if arguments.every == 1 else f"one candidate in {arguments.every}"
    write_results(
        arguments.csv,
        estimate_rows(found) if estimates else space_rows(found),
        title="The model's estimates against measured times"
        if estimates
        else f"Loss of the model's pick, {whole} timed",
        kind="measured, model" if estimates else "measured",
        machine=arguments.machine,
        conditions="one thread, batch 1, f32",
    )


def estimate_rows(found: Iterable[Record]) -> list[dict[str, object]]:
    """One row for each pick."""
    return [
        {
            "workload": record["name"],
            "algorithm": pick["algorithm"],
            "estimated_cycles": round(pick["estimated_cycles"]),
            "measured_cycles": round(pick["measured_cycles"]),
            "error_percent": 100 * (pick["estimated_cycles"] / pick["measured_cycles"] - 1),
            "clock": pick["clock"],
        }
        for record in found
        for pick in record["picks"]
    ]


def space_rows(found: Iterable[Record]) -> list[dict[str, object]]:
    """One row for each space."""
    return [
        {
            "layer": record["name"],
            "candidates": sum(record["candidates"].values()),
            "timed": record["timed"],
            "first_pick_loss_percent": 100 * record["loss"],
            "best_of_five_loss_percent": 100 * record["loss_of_top"],
            "clock": record["clock"],
        }
        for record in found
    ]


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation of two sequences without ties.

    >>> rank_correlation([1, 2, 3], [10, 20, 30])
    1.0
    """
    orders = [sorted(range(len(x)), key=x.__getitem__) for x in (a, b)]
    ranks = [[0] * len(a) for _ in orders]
    for own, order in zip(ranks, orders, strict=True):
        for place, i in enumerate(order):
            own[i] = place
    return statistics.correlation(*ranks)


def spaces_text(found: Iterable[Record]) -> str:
    """A table with a line for each space, and mean losses of whole spaces and of others."""
    rows, losses = [], {True: [], False: []}
    for r in found:
        count, proven = sum(r["candidates"].values()), sum(r["left_out"].values())
        losses[r["every"] == 1].append((r["loss"], r["loss_of_top"]))
        timed_ = f"{r['timed']}" + (f" (1 in {r['every']})" if r["every"] > 1 else "")
        way = r["picked"] if r["picked"] == r["fastest"] else f"{r['picked']} for {r['fastest']}"
        cells = (count, proven, timed_, way, f"{r['loss']:.1%}", f"{r['loss_of_top']:.1%}")
        rows.append((r["name"], *cells, r["clock"]))
    heads = (
        "workload",
        "candidates",
        "cannot win",
        "timed",
        "pick",
        "loss",
        f"of top {TOP}",
        "clock",
    )
    lines = [text_table(heads, rows)]
    for whole, pairs in losses.items():
        if pairs:
            first, top = (statistics.mean(x) for x in zip(*pairs, strict=True))
            kind = "whole spaces" if whole else "spaces in part"
            lines.append(f"{len(pairs)} {kind}: mean loss {first:.1%}, of the top {TOP} {top:.1%}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
