"""How long the model takes to rank every schedule of VGG-16, against trying them all.

    python benchmarks/tuning_speed.py [--quick] [--batch 128] [--machine sw26010_cg] [--json]

Ranks the convolutions of VGG-16 (13, of 9 different shapes; equal ones are ranked once, and swATOP
Table 3 counts 9 too) under all four algorithms on one core of this computer: warm (structures
lowered by an earlier call), and cold in fresh processes, whose imports are done and whose compiled
code is on disk (one warm-up process sees to that; its time, with the compiling where that was due,
is printed). The alternative is a black-box search that runs every candidate: here that means the
kernel-level simulator, of which a random sample of candidates gives the time per candidate, and one
layer is searched to the end. swATOP Table 3 compares with running candidates on the machine.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from shared.nests import search_by_simulation
from shared.output import note, processor, show, text_table

from tilewright.graph.zoo import network
from tilewright.ir.printer import print_program
from tilewright.machine import Machine
from tilewright.machine.load import load_machine
from tilewright.ops import Conv2d
from tilewright.seeds.space import Seed, seeds_for
from tilewright.simulate.kernel_level import simulate
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import Candidate, NestChoice, Ranking, rank

PAPER_AVERAGE_SPACE = 454.2
PAPER_BLACK_BOX_SECONDS = 47 * 3600 + 50 * 60
PAPER_MODEL_SECONDS = 6 * 60 + 21
Case = tuple[Conv2d, Seed]


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
    """What a fresh process does: rank, print the two times."""
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
    """Times of ranking, and what was ranked."""
    machine = load_machine(arguments.machine)
    first = fresh_process(arguments)
    note(f"warm-up process: {first[0]:.1f} s with whatever had to be compiled")
    cold = [fresh_process(arguments) for _ in range(arguments.repeats)]
    rank(cases, machine)
    warm = [timed(lambda: rank(cases, machine)) for _ in range(arguments.repeats)]
    return {
        "warm_up_process_seconds": first[0],
        "cold_process_seconds": min(own for own, _ in cold),
        "cold_wall_seconds": min(wall for _, wall in cold),
        "warm_process_seconds": min(own for _, own, _ in warm),
        "warm_wall_seconds": min(wall for *_, wall in warm),
        "rankings": warm[-1][0],
    }


def spaces(cases: list[Case], rankings: list[Ranking]) -> list[dict[str, Any]]:
    """Candidates of each algorithm."""
    rows = []
    for name in dict.fromkeys(seed.name for _, seed in cases):
        own = [r for r in rankings if r.seed.name == name]
        rows.append(
            {
                "algorithm": name,
                "layers": len(own),
                "space": sum(r.candidates for r in own),
                "priced": sum(r.fitting for r in own),
            }
        )
    return rows


def simulate_nest(op: Conv2d, seed: Seed, nest: NestChoice, machine: Machine) -> None:
    """What a black-box search does for one candidate of one nest."""
    program = Candidate(op, seed, (nest,)).program(machine)
    print_program(program)
    simulate(program, machine)


def sampled_cost(cases: list[Case], machine: Machine, count: int) -> float:
    """Mean seconds (this process) to simulate one candidate, from a random sample of all."""
    generator = random.Random(0)
    rankings = rank(cases, machine, keep=EVERYTHING)
    every = [
        (case, nest)
        for case, ranking in zip(cases, rankings, strict=True)
        for nest in {id(n): n for c in ranking.best for n in c.nests}.values()
    ]
    chosen = generator.sample(every, min(count, len(every)))
    (op, seed), nest = chosen[0]
    simulate_nest(op, seed, nest, machine)  # compiles or loads
    times = []
    for (op, seed), nest in chosen:
        _, own, _ = timed(
            lambda op=op, seed=seed, nest=nest: simulate_nest(op, seed, nest, machine)
        )
        times.append(own)
    note(f"{len(chosen)} of {len(every)} candidates simulated")
    return statistics.fmean(times)


def one_layer(cases: list[Case], machine: Machine) -> dict[str, Any]:
    """The smallest implicit space of the network, every candidate simulated."""
    implicit = [case for case in cases if case[1].name == "implicit"]
    rankings = rank(implicit, machine)
    fitting = [(r.fitting, i) for i, r in enumerate(rankings) if r.fitting]
    op, seed = implicit[min(fitting)[1]]
    _, model, _ = timed(lambda: rank([(op, seed)], machine))
    found, own, _ = timed(
        lambda: search_by_simulation(op, seed, machine, floor=0.0, seconds=float("inf"))
    )
    assert found is not None
    return {
        "layer": op.describe(),
        "candidates": found.simulated,
        "programs": found.programs,
        "black_box_seconds": own,
        "model_seconds": model,
        "ratio": own / model,
        "loss": found.loss,
    }


def as_text(result: dict[str, Any]) -> str:
    """Tables and the summary."""
    rows = [
        (r["algorithm"], r["layers"], r["space"], r["priced"], f"{r['space'] / r['layers']:.0f}",
         f"{r['priced'] / r['layers']:.0f}")
        for r in result["spaces"]
    ]  # fmt: skip
    layer = result["one_layer"]
    lines = [
        f"cold: {result['cold_process_seconds']:.2f} s of one core "
        f"({result['cold_wall_seconds']:.2f} s on the clock), best of {result['repeats']}",
        f"warm: {result['warm_process_seconds']:.2f} s of one core "
        f"({result['warm_wall_seconds']:.2f} s on the clock), "
        f"{result['priced_per_second']:.0f} priced candidates per second",
        f"swATOP Table 3: {PAPER_AVERAGE_SPACE} candidates a layer, 6 m 21 s by its model, "
        f"47 h 50 m by running them all, {PAPER_BLACK_BOX_SECONDS / PAPER_MODEL_SECONDS:.0f} "
        "times as long",
        f"black box by simulation, extrapolated from a random sample of {result['sample']}: "
        f"{result['seconds_per_candidate'] * 1e3:.0f} ms a candidate, "
        f"{result['black_box_seconds']:.0f} s for all priced, {result['ratio']:.0f} times as long",
        f"{layer['layer']}, implicit, all {layer['candidates']} priced candidates really simulated "
        f"({layer['programs']} distinct programs): {layer['black_box_seconds']:.1f} s against "
        f"{layer['model_seconds']:.3f} s, {layer['ratio']:.0f} times as long; "
        f"the model's pick loses {layer['loss']:.2%}",
    ]
    headers = ("algorithm", "layers", "in the space", "priced", "in the space per layer",
               "priced per layer")  # fmt: skip
    title = f"VGG-16, batch {result['batch']}, {result['machine']}; {result['processor']}, one core"
    return "\n\n".join([title, text_table(headers, rows), "\n".join(lines)])


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="sw26010_cg")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="--repeats 2 --sample 20")
    parser.add_argument("--fresh", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats, arguments.sample = 2, 20
    return arguments


def main() -> None:
    """Measure, then print."""
    arguments = read_arguments()
    if arguments.fresh:
        rank_once(arguments)
        return
    machine, cases = load_machine(arguments.machine), cases_of("vgg16", arguments.batch)
    times = ranking_times(arguments, cases)
    found = spaces(cases, times.pop("rankings"))
    priced = sum(r["priced"] for r in found)
    each = sampled_cost(cases, machine, arguments.sample)
    result = {
        "processor": processor(),
        "machine": arguments.machine,
        "batch": arguments.batch,
        "repeats": arguments.repeats,
        "sample": arguments.sample,
        **times,
        "spaces": found,
        "priced_per_second": priced / times["warm_process_seconds"],
        "seconds_per_candidate": each,
        "black_box_seconds": each * priced,
        "ratio": each * priced / times["warm_process_seconds"],
        "one_layer": one_layer(cases, machine),
    }
    show(result, as_text(result), arguments.json)


if __name__ == "__main__":
    main()
