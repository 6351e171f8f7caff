"""Random definitions: each means what explicit index arrays say, and a plan of it means the same.

    PYTHONPATH=tests:tools python -m fuzz.definitions [--count N] [--seed N] [--seconds N]
        [--plans | --texts]

Definitions have up to seven axes and three operands, borders, steps either way, joint axes, any
gather, and places that are elements of other operands; numbers are small integers, so that both
sides are exact. Goes on where the last run stopped, unless a seed is given. With `--plans` a
network of one core group is planned, interpreted and simulated; what no stage computes is counted
by reason. With `--texts` mutated texts are read: each defines something or is refused, in less than
a second of processor time. Prints what fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from time import monotonic, process_time

import numpy as np

from support.definitions import by_index, integers_for, mutated_text, network_of, random_definition
from support.plans import GROUP, quick_search
from tilewright.common.errors import GraphError, TilewrightError
from tilewright.graph.frontends.notation import define
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.network.simulate import simulate_plan
from tilewright.ops.definition import Definition

STATE = Path(tempfile.gettempdir()) / "tilewright-fuzz-definitions"
"""File with the number of the next case."""
MOST_SECONDS = 1.0


def check(op: Definition, rng: np.random.Generator, *, plans: bool) -> None:
    """Raise AssertionError if a meaning differs, GraphError if no stage computes the definition."""
    operands = integers_for(rng, op)
    expected = by_index(op, *operands)
    assert np.array_equal(op.reference(*operands), expected), "the reference differs"
    if not plans:
        return
    network = without_look_ups(simplified(network_of(op)))
    require_lowered(network, GROUP)
    plan = build_plan(network, GROUP, quick_search(network))
    given = {f"x{i}": x for i, x in enumerate(operands)}
    found = interpret_plan(plan, given, network.values)["y"]
    assert np.array_equal(found, expected), "the interpreter differs"
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles, "causes do not sum to the cycles"


def read(text: str, sizes: dict[str, int]) -> None:
    """Parse a text into a definition. Raises AssertionError if that takes more than a second, else
    TilewrightError if the text is refused.
    """
    begun = process_time()
    try:
        define(text, **sizes)
    finally:
        seconds = process_time() - begun
        assert seconds < MOST_SECONDS, f"{seconds:.2f} s"


def tried(number: int, asked: argparse.Namespace) -> str:
    """Try one definition or text; returns why it was refused, or "" if it holds.

    Raises AssertionError, and every error of the code that is no refusal.
    """
    rng = np.random.default_rng(number)
    if asked.texts:
        text, sizes = mutated_text(rng)
        try:
            read(text, sizes)
        except TilewrightError:
            return "a text"
        except Exception:
            print(f"seed {number}: {text!r}")
            raise
        return ""
    op = random_definition(rng, look_ups=True)
    try:
        check(op, rng, plans=asked.plans)
    except GraphError as refusal:
        return refusal.message.partition(": ")[2] or refusal.message
    except Exception:
        print(f"seed {number}: {op.describe()}")
        raise
    return ""


def main() -> int:
    """Check the cases; the exit code is 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=280)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--plans", action="store_true")
    kinds.add_argument("--texts", action="store_true")
    asked = parser.parse_args()
    kind = "plans" if asked.plans else "texts" if asked.texts else "meanings"
    kept = STATE.with_suffix(f".{kind}")
    first = asked.seed if asked.seed is not None else _next(kept)
    begun, failed, refusals = monotonic(), 0, Counter[str]()
    number = first
    while number < first + asked.count and monotonic() < begun + asked.seconds:
        try:
            refusals[tried(number, asked)] += 1
        except Exception:  # every failure is shown, and the next one tried
            failed += 1
            print(traceback.format_exc(limit=-2), flush=True)
        number += 1
    del refusals[""]
    for reason, times in refusals.most_common():
        print(f"{times} refused: {reason}")
    print(f"{number - first} {kind} from seed {first} on, {failed} failed")
    if asked.seed is None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(str(number), encoding="utf-8")
    return 1 if failed else 0


def _next(kept: Path) -> int:
    return int(kept.read_text(encoding="utf-8")) if kept.is_file() else 0


if __name__ == "__main__":
    sys.exit(main())
