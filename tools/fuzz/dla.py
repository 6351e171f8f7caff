"""Assembles and times mutated programs of DLA-AL: each is refused in words, or runs, within 2 s.
As many random instructions of DLA-AL and of the CPE go through text and back.

    PYTHONPATH=tests:tools python -m fuzz.dla --count 20000 --seed 0

A program or instruction that does anything else is printed, and the tool ends with 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from support.dla_mutations import mutated, outcome
from support.round_trips import TABLES, failures

LONGEST_SECONDS = 2.0
BATCH = 2000


def main() -> int:
    """Run the mutations; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not _round_trips(arguments.count, arguments.seed):
        return 1
    outcomes: Counter[str] = Counter()
    for number in range(arguments.count):
        text = mutated(random.Random(arguments.seed * 1_000_003 + number))
        start = time.process_time()
        try:
            outcomes[outcome(text)] += 1
            seconds = time.process_time() - start
            if seconds > LONGEST_SECONDS:
                raise TimeoutError(f"{seconds:.1f} s")
        except Exception as error:  # any other error is a finding
            print(f"program {number}: {error!r}\n{text}", file=sys.stderr)
            return 1
    print(", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))
    return 0


def _round_trips(count: int, seed: int) -> bool:
    """True if random instructions of each table decode to themselves."""
    for table in TABLES:
        wrong = [
            text
            for part in range(-(-count // BATCH))
            for text in failures(table, min(BATCH, count - part * BATCH), seed * 1_000_003 + part)
        ]
        print(f"{table.name}: {count} instructions through text and back, {len(wrong)} wrong")
        if wrong:
            print("\n".join(wrong[:20]), file=sys.stderr)
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
