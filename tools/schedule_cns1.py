"""Solve the loops of the CNS-1's kernels and write the schedules that come with tilewright.

PYTHONPATH=tests python tools/schedule_cns1.py
"""

import sys

from msgspec import json

from support.cns1_loops import usual_loops
from tilewright.targets.cns1.kernels.pipelining import SHIPPED, solved_again


def main() -> int:
    """Write the schedules; those in the user's cache are not solved again."""
    found = solved_again(usual_loops())
    lines = (
        f"  {json.encode(k).decode()}: {json.encode(found[k]).decode()}" for k in sorted(found)
    )
    SHIPPED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} schedules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
