"""Kill compilations at drawn moments and damage the cache, round after round.

Each finished round is recorded, so that a stopped run resumes. A round that fails ends the run with
its number, which suffices to repeat it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from rich.progress import track

from support.cache_kills import answers, kill_round


def main() -> None:
    """Run the rounds that are not recorded yet; then summarise all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=300)
    parser.add_argument("--records", type=Path, default=Path("out/fuzz-cache.jsonl"))
    parser.add_argument("--only", type=int, help="repeat the round of this number")
    arguments = parser.parse_args()
    records: Path = arguments.records
    records.parent.mkdir(parents=True, exist_ok=True)
    lines = records.read_text().splitlines() if records.exists() else []
    done = {json.loads(line)["number"] for line in lines}
    wanted = [n for n in range(arguments.rounds) if n not in done]
    with tempfile.TemporaryDirectory() as folder, records.open("a") as file:
        span_seconds = seconds_of_one(Path(folder))
        for number in track(wanted if arguments.only is None else [arguments.only], "kills"):
            found = kill_round(number, Path(folder), span_seconds)
            file.write(json.dumps(asdict(found)) + "\n")
            file.flush()
    rounds = [json.loads(line) for line in records.read_text().splitlines()]
    while_compiling = sum(one["left_aside"] > 0 for one in rounds)
    print(f"{len(rounds)} rounds, {sum(one['processes'] for one in rounds)} processes killed")
    print(f"{while_compiling} rounds killed one while it made an entry")
    print("damage:", dict(Counter(one["damage"] for one in rounds)))


def seconds_of_one(cache: Path) -> float:
    """Seconds that a process works if it is not killed."""
    started = time.perf_counter()
    status, _, messages = answers(1_000_000, cache)
    if status:
        raise SystemExit(messages)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
