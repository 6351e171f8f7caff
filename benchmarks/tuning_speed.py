"""How long the model takes to rank every schedule of VGG-16, against trying them all.

    python benchmarks/tuning_speed.py [--quick] [--batch 128] [--machine sw26010_cg]
        [--sample 4] [--json] [--csv FILE]

Ranks the convolutions of VGG-16 (13, of 9 different shapes; equal ones are ranked once, and swATOP
Table 3 counts 9 too) under every algorithm that applies, on one core of this computer: warm
(structures lowered by an earlier call), and cold in fresh processes, whose imports are done and
whose compiled code is on disk (one warm-up process sees to that; its time, with the compiling where
that was due, is printed). Of each algorithm it prints the candidates considered, fitting, priced
and played. A black box would run every candidate: of each layer a sample of those of implicit
convolution is lowered and simulated, and the mean stands for all that are priced.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.output import note, processor, show, text_table
from shared.results import add_csv_option, write_results

from tilewright.graph.zoo import network
from tilewright.machine import Machine
from tilewright.machine.load import load_machine
from tilewright.ops import Conv2d
from tilewright.seeds.space import Seed, seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.brute_force import EVERYTHING
from tilewright.tune.search import Ranking, rank

Case = tuple[Conv2d, Seed]
PAPER = ("implicit", "explicit", "winograd2")


def cases_of(name: str, batch: int) -> list[Case]:
    """Every distinct convolution of the network with every algorithm that applies."""
    ops = [op for _, op in network(name, batch).layers() if isinstance(op, Conv2d)]
    return [(op, seed) for op in dict.fromkeys(ops) for seed in seeds_for(op)]


def timed(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, seconds of this process, seconds on the clock)."""
    wall, own = time.perf_counter(), time.process_time()
    result = action()
    return result, time.process_time() - own, time.perf_counter() - wall


def rank_once(arguments: argparse.Namespace) -> None:
    """Rank in a fresh process, and print the two times."""
    machine, cases = load_machine(arguments.machine), cases_of("vgg16", arguments.batch)
    _, own, wall = timed(lambda: rank(cases, machine))
    print(json.dumps([own, wall]))


def fresh_process(arguments: argparse.Namespace) -> tuple[float, float]:
    """Times of `rank_once` in a process of its own."""
    command = [sys.executable, __file__, "--fresh", "--machine", arguments.machine]
    command += ["--batch", str(arguments.batch)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    own, wall = json.loads(done.stdout)
    return own, wall


def ranking_times(arguments: argparse.Namespace, cases: list[Case]) -> dict[str, Any]:
    """Times of ranking, and the rankings."""
    machine = load_machine(arguments.machine)
    first = fresh_process(arguments)
    note(f"warm-up process: {first[0]:.1f} s with whatever had to be compiled")
    cold = [fresh_process(arguments) for _ in range(arguments.repeats)]
    rank(cases, machine)
    warm = [timed(lambda: rank(cases, machine)) for _ in range(arguments.repeats)]
    three = [(op, seed) for op, seed in cases if seed.name in PAPER]
    of_paper = [timed(lambda: rank(three, machine)) for _ in range(arguments.repeats)]
    return {
        "warm_up_process_seconds": first[0],
        "cold_process_seconds": min(own for own, _ in cold),
        "cold_wall_seconds": min(wall for _, wall in cold),
        "warm_process_seconds": min(own for _, own, _ in warm),
        "warm_wall_seconds": min(wall for *_, wall in warm),
        "warm_process_seconds_of_the_papers_three": min(own for _, own, _ in of_paper),
        "rankings": warm[-1][0],
    }


def black_box(arguments: argparse.Namespace, cases: list[Case], machine: Machine) -> dict[str, Any]:
    """Seconds to rank implicit convolutions, and to simulate all priced ones (by a sample)."""
    own = [(op, seed) for op, seed in cases if seed.name == "implicit"]
    _, ranking, _ = timed(lambda: rank(own, machine))
    generator, seconds, simulated = random.Random(0), 0.0, 0
    for found in rank(own, machine, keep=EVERYTHING):
        chosen = generator.sample(found.best, min(arguments.sample, len(found.best)))
        _, taken, _ = timed(lambda few=chosen: [simulate(c.program(machine), machine) for c in few])
        seconds += taken / max(1, len(chosen)) * found.counts.priced
        simulated += len(chosen)
    return {
        "black_box_simulated": simulated,
        "black_box_seconds": seconds,
        "ranking_seconds_of_the_same": ranking,
        "black_box_ratio": seconds / ranking,
    }


def spaces(cases: list[Case], rankings: list[Ranking]) -> list[dict[str, Any]]:
    """Numbers of candidates, by algorithm."""
    rows = []
    for name in dict.fromkeys(seed.name for _, seed in cases):
        own = [r for r in rankings if r.seed.name == name]
        rows.append(
            {
                "algorithm": name,
                "layers": len(own),
                "space": sum(r.counts.considered for r in own),
                "fitting": sum(r.counts.fitting for r in own),
                "priced": sum(r.counts.priced for r in own),
                "played": sum(r.counts.played for r in own),
            }
        )
    return rows


def as_text(result: dict[str, Any]) -> str:
    """Tables and the summary."""
    rows = [
        (r["algorithm"], r["layers"], r["space"], r["fitting"], r["priced"],
         r["played"], f"{r['space'] / r['layers']:.0f}", f"{r['priced'] / r['layers']:.0f}")
        for r in result["spaces"]
    ]  # fmt: skip
    lines = [
        f"cold: {result['cold_process_seconds']:.2f} s of one core "
        f"({result['cold_wall_seconds']:.2f} s on the clock), best of {result['repeats']}",
        f"warm: {result['warm_process_seconds']:.2f} s of one core "
        f"({result['warm_wall_seconds']:.2f} s on the clock), "
        f"{result['priced_per_second']:.0f} priced candidates per second",
        f"warm, the three algorithms of swATOP ({', '.join(PAPER)}): "
        f"{result['warm_process_seconds_of_the_papers_three']:.2f} s of one core",
        f"implicit alone: ranked in {result['ranking_seconds_of_the_same']:.2f} s, one by one "
        f"simulated in {result['black_box_seconds']:.0f} s, by {result['black_box_simulated']} "
        f"that were: {result['black_box_ratio']:.0f} times as long",
    ]
    headers = ("algorithm", "layers", "considered", "fitting", "priced", "played",
               "considered per layer", "priced per layer")  # fmt: skip
    title = f"VGG-16, batch {result['batch']}, {result['machine']}; {result['processor']}, one core"
    return "\n\n".join([title, text_table(headers, rows), "\n".join(lines)])


def csv_rows(result: dict[str, Any]) -> list[dict[str, object]]:
    """Seconds of the two sets of algorithms."""
    cold, warm = (result[f"{name}_process_seconds"] for name in ("cold", "warm"))
    of_paper = result["warm_process_seconds_of_the_papers_three"]
    return [
        {"algorithms": "all", "cold_seconds": cold, "warm_seconds": warm},
        {"algorithms": ", ".join(PAPER), "cold_seconds": None, "warm_seconds": of_paper},
    ]


def keep(path: Path | None, result: dict[str, Any]) -> None:
    """Write the requested CSV."""
    write_results(
        path,
        csv_rows(result),
        title="Seconds to rank every schedule of VGG-16",
        kind="measured",
        machine=result["machine"],
        conditions=f"batch {result['batch']}; processor time, least of {result['repeats']}; "
        f"{result['priced_per_second']:.0f} candidates priced a second",
        meanings={
            "cold_seconds": "a fresh process, compiled code on disk",
            "warm_seconds": "a second call in the same process",
        },
    )


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="sw26010_cg")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sample", type=int, default=4, help="candidates simulated of each layer")
    parser.add_argument("--quick", action="store_true", help="--repeats 2 --sample 1")
    parser.add_argument("--fresh", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats, arguments.sample = 2, 1
    return arguments


def main() -> None:
    """Measure, then print."""
    arguments = read_arguments()
    if arguments.fresh:
        rank_once(arguments)
        return
    cases = cases_of("vgg16", arguments.batch)
    times = ranking_times(arguments, cases)
    found = spaces(cases, times.pop("rankings"))
    priced = sum(r["priced"] for r in found)
    result = {
        "processor": processor(),
        "machine": arguments.machine,
        "batch": arguments.batch,
        "repeats": arguments.repeats,
        **times,
        **black_box(arguments, cases, load_machine(arguments.machine)),
        "spaces": found,
        "priced_per_second": priced / times["warm_process_seconds"],
    }
    keep(arguments.csv, result)
    show(result, as_text(result), arguments.json)


if __name__ == "__main__":
    main()
