"""Kernels of the SW26010 by their emitted text, against the estimate and the kernel simulation.

Checks random operators by every algorithm, and the distinct kernels of networks of one image, in
both element types, on one core group and on four. Each finished kernel is recorded, so that a
stopped run resumes; `--seconds` limits a run. Prints a table by kind of kernel: how far the text is
from the simulation and from the estimate; where routines evict each other, how far the text
launched again is from the simulation with refills; and the causes of deviations.

    PYTHONPATH=tests python tools/cross_check.py --count 300 --networks lenet5
    PYTHONPATH=tests python tools/cross_check.py --count 0 --networks alexnet --evicting
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.progress import track

from support.candidates import Case
from support.cross_check.check import checked_time
from support.running import estimated
from tilewright import ops
from tilewright.common.digest import digest
from tilewright.common.errors import TilewrightError
from tilewright.cost.prices import prices_of
from tilewright.cost.totals import executed
from tilewright.graph.zoo import network
from tilewright.ir.nodes import Program
from tilewright.ir.printer import print_program
from tilewright.machine import Machine, load_machine
from tilewright.network.build import build_plan
from tilewright.partition import split
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.code import CODE
from tilewright.tune.candidate import Candidate
from tilewright.tune.search import rank

ROOT = Path(__file__).resolve().parents[1]
MACHINES = {groups: load_machine(name) for groups, name in ((1, "sw26010_cg"), (4, "sw26010"))}
MOST_STATEMENTS = 1_000_000
"""Limit over all cores together, beyond which a kernel is refused."""
KEPT = 6
"""Number of best candidates of an algorithm from which one is drawn."""
TYPES, STEMS = ("f64", "f32"), ("winograd", "implicit", "explicit")

SMALL = 0.03
"""Deviation, as a share of the time, above which a cause is recorded."""
LARGE = 0.05
"""Deviation above which each kernel is listed."""

COLUMNS = {
    "text": "deviation",
    "of estimate": "of_estimate",
    "with refills": "of_refills",
    "cold cache": "fetched",
}
"""Columns of the table, and the attribute of a record that each shows."""


@dataclass(frozen=True)
class Record:
    """Cycles of one kernel by the model (`estimated`), the simulation, the text, and the text with
    an empty instruction cache (`cold`); if its routines evict each other, also by the simulation
    with refills and by the text launched `again`, else 0. `cause` explains a deviation, `refused`
    a missing text.
    """

    case: str
    kind: str
    estimated: float = 0.0
    simulated: float = 0.0
    text: float = 0.0
    cold: float = 0.0
    refilled: float = 0.0
    again: float = 0.0
    cause: str = ""
    refused: str = ""

    @property
    def deviation(self) -> float:
        """Relative deviation of the text from the simulation."""
        return abs(self.text / self.simulated - 1)

    @property
    def of_estimate(self) -> float:
        """Relative deviation of the text from the model."""
        return abs(self.text / self.estimated - 1)

    @property
    def of_refills(self) -> float | None:
        """Relative deviation of the text launched again from the simulation with refills."""
        return abs(self.again / self.refilled - 1) if self.refilled else None

    @property
    def fetched(self) -> float:
        """Share that fetching instructions from an empty cache adds to the text's cycles."""
        return self.cold / self.text - 1


Drawn = Callable[[], Iterator[tuple[str, Candidate, Machine]]]


def main() -> None:
    """Check the kernels that are not recorded yet, until time is up; then summarise all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="random kernels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", nargs="*", default=[], help="networks of the zoo")
    parser.add_argument(
        "--evicting", action="store_true", help="only kernels whose routines evict each other"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--records", type=Path, default=ROOT / "out/cross_check.jsonl")
    given = parser.parse_args()
    given.records.parent.mkdir(parents=True, exist_ok=True)
    known = recorded(given.records)
    end, wanted = time.monotonic() + given.seconds, list(cases(given))
    done = {name for name in known if name.endswith(":")}
    with given.records.open("a") as file:
        for case, drawn in track([one for one in wanted if f"{one[0]}:" not in done], "kernels"):
            if time.monotonic() > end:
                break
            for record in checked(case, drawn, known, given.evicting):
                known[record.case] = record
                file.write(json.dumps(asdict(record)) + "\n")
                file.flush()
    summed_up([record for record in known.values() if not record.case.endswith(":")])


def recorded(path: Path) -> dict[str, Record]:
    """Records of earlier runs, by case; the record "CASE:" marks a case as done."""
    lines = path.read_text().splitlines() if path.exists() else ()
    return {one["case"]: Record(**one) for one in map(json.loads, lines)}


def cases(given: argparse.Namespace) -> Iterator[tuple[str, Drawn]]:
    """Names of cases, each with a function that draws its kernels."""
    for name in given.networks:
        for kind in TYPES:
            for groups in MACHINES:
                yield f"{name} {kind} {groups}", lambda a=(name, kind, groups): of_network(*a)
    for number in range(given.count):
        case = f"{given.seed}.{number}"
        yield case, lambda case=case: of_random(random.Random(case))


def of_network(name: str, kind: str, groups: int) -> Iterator[tuple[str, Candidate, Machine]]:
    """The distinct kernels of a network of one image."""
    machine, seen = MACHINES[groups], set[str]()
    for stage in build_plan(network(name, 1, dtype=kind), machine).stages:
        key = digest(print_program(stage.candidate.program(machine)))
        if key not in seen:
            seen.add(key)
            yield f"{stage.op.describe()} {key[:8]}", stage.candidate, machine


def of_random(rng: random.Random) -> Iterator[tuple[str, Candidate, Machine]]:
    """One of the best candidates of a random algorithm for a random operator."""
    groups, op = rng.choice(list(MACHINES)), random_operator(rng)
    machine = MACHINES[groups]
    if groups > 1:
        op = rng.choice([p.piece for p in split(op, groups)] or [op])
    seed = rng.choice(list(seeds_for(op)))
    (ranking,) = rank([(op, seed)], machine, keep=KEPT)
    if ranking.best:
        yield f"{op.describe()} {groups}", rng.choice(ranking.best), machine


def random_operator(rng: random.Random) -> ops.Op:
    """A convolution or a product, small enough to replay every statement of every core."""
    kind = rng.choice(TYPES)
    if rng.random() < 0.25:
        m, n, k = (8 * rng.randint(1, 64) for _ in range(3))
        return ops.gemm(m, n, k, dtype=kind)
    side, channels = rng.choice((4, 7, 8, 13, 14, 16, 28)), (8, 16, 24, 32, 48, 64, 96, 128)
    size = rng.choice((1, 1, 3, 3, 3, 5))
    return ops.conv2d(
        batch=rng.choice((1, 2, 8, 32, 64)),
        in_channels=rng.choice(channels),
        out_channels=rng.choice(channels),
        height=side,
        width=side,
        kernel=size,
        stride=rng.choice((1, 1, 1, 2)),
        padding=size // 2,
        dtype=kind,
    )


def checked(case: str, drawn: Drawn, known: dict[str, Record], evicting: bool) -> Iterator[Record]:
    """Records of a case that are not known yet, then the one that marks it as done."""
    try:
        for what, candidate, machine in drawn():
            name, program = f"{case}: {candidate.seed.name} {what}", candidate.program(machine)
            evict = prices_of(machine).code(program, machine) is not None
            if name not in known and (evict or not evicting):
                yield record_of(name, candidate, machine, evict)
        yield Record(f"{case}:", "")
    except TilewrightError as refusal:
        yield Record(f"{case}:", "", refused=refusal.message)


def record_of(case: str, candidate: Candidate, machine: Machine, evict: bool) -> Record:
    """Time one kernel in every way."""
    program = candidate.program(machine)
    artifact = CODE.emit(program, machine)
    kind = kind_of(candidate)
    if any("_chain_" in text for name, text in artifact.files.items() if name.endswith("slave.c")):
        kind = "chain"
    try:
        found = checked_time(artifact, machine, MOST_STATEMENTS)
    except TilewrightError as refusal:
        return Record(case, kind, refused=refusal.message)
    simulated = simulate(program, machine, refills=False).cycles
    model = estimated(Case(machine, candidate))
    cycles = [model, simulated, found.cycles, found.cold_cycles]
    if evict:
        cycles += simulate(program, machine).cycles, found.repeated_cycles
    record = Record(case, kind, *(round(n, 1) for n in cycles))
    return replace(record, cause=cause_of(program, machine) if record.deviation > SMALL else "")


def cause_of(program: Program, machine: Machine) -> str:
    """The property that explains most deviations, if the program has it: the simulation represents
    all cores by the clocks of two crowds.
    """
    if any(group.shape.moving < 1 for group in executed(program, machine)[0]):
        return "cores without a part in a transfer"
    return "no cause known"


def kind_of(candidate: Candidate) -> str:
    """Kind of a kernel: its algorithm's stem, or its operator's kind."""
    stem = next((s for s in STEMS if candidate.seed.name.startswith(s)), "")
    return stem or candidate.op.kind


def summed_up(records: Sequence[Record]) -> None:
    """Print the table by kind, the causes, the refusals and the largest deviations."""
    print(f"{'kind':14}{'kernels':>8}" + "".join(f"{title:>16}" for title in COLUMNS))
    print(" " * 22 + f"{'mean    worst':>16}" * len(COLUMNS) + "  %")
    kinds = sorted({r.kind for r in records})
    for kind in [*kinds, "all"]:
        own = [r for r in records if kind in (r.kind, "all") and not r.refused]
        if own:
            cells = (cell_of([getattr(r, name) for r in own]) for name in COLUMNS.values())
            print(f"{kind:14}{len(own):>8}" + "".join(f"{cell:>16}" for cell in cells))
    for cause, count in Counter(r.cause for r in records if not r.refused).most_common():
        print(f"{count:5} {cause or f'less than {SMALL:.0%} off'}")
    for reason, count in Counter(r.refused for r in records if r.refused).most_common():
        print(f"{count:5} refused: {reason}")
    for name in ("deviation", "of_refills"):
        found = [(getattr(r, name), r.case) for r in records if not r.refused]
        off = sorted((pair for pair in found if pair[0] is not None), reverse=True)
        for share, case in [pair for pair in off if pair[0] > LARGE] or off[:5]:
            print(f"{name} {100 * share:6.2f} % {case}")


def cell_of(shares: Sequence[float | None]) -> str:
    """Mean and worst of the known shares, in per cent."""
    known = [share for share in shares if share is not None]
    return f"{100 * sum(known) / len(known):6.2f}{100 * max(known):9.2f}" if known else "-"


if __name__ == "__main__":
    main()
