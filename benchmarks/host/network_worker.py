"""A contender that runs networks, in a process of its own (`host.processes`).

    python -m host.network_worker NAME THREADS MACHINE BATCH FOLDER

The answer to a preparation is {"seconds": UNTIL_IT_HAD_RUN_ONCE} or {"failed": WHY}. Outputs are
written to NAME.NETWORK.npz in the folder, which already has the files of networks outside the zoo.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from host.contest import Missing
from host.network_contest import Task, find_runners, timed
from host.processes import serve


def main() -> None:
    """Serve one contender."""
    name, threads, machine, batch, folder = sys.argv[1:]
    (runner,) = (r for r in find_runners(int(threads), machine) if r.name == name)
    if isinstance(runner, Missing):
        raise SystemExit(f"{name} takes no part: {runner.why}")

    def prepare(network: str) -> tuple[list[Any], Any]:
        try:
            ready, seconds = timed(runner, Task(network, int(batch), Path(folder)))
        except Exception as error:
            # The other contenders go on, whatever a library raises.
            return [], {"failed": f"{type(error).__name__}: {error}"}
        outputs: Any = ready.outputs()
        np.savez(Path(folder) / f"{name}.{network}.npz", **outputs)
        return [ready.run], {"seconds": seconds}

    serve(int(threads), prepare)


if __name__ == "__main__":
    main()
