"""One who runs networks, in a process of its own (`host.processes`).

    python -m host.network_worker NAME THREADS MACHINE BATCH FOLDER

What is prepared is answered by {"seconds": UNTIL_IT_HAD_RUN_ONCE} or {"failed": WHY}; the outputs
are in the folder, in NAME.NETWORK.npz; files of networks that are not of the zoo are there before.
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
    """Serve."""
    name, threads, machine, batch, folder = sys.argv[1:]
    (runner,) = (r for r in find_runners(int(threads), machine) if r.name == name)
    if isinstance(runner, Missing):
        raise SystemExit(f"{name} takes no part: {runner.why}")

    def prepare(network: str) -> tuple[list[Any], Any]:
        try:
            ready, seconds = timed(runner, Task(network, int(batch), Path(folder)))
        except Exception as error:
            # Whatever a library raises, the others go on.
            return [], {"failed": f"{type(error).__name__}: {error}"}
        outputs: Any = ready.outputs()
        np.savez(Path(folder) / f"{name}.{network}.npz", **outputs)
        return [ready.run], {"seconds": seconds}

    serve(int(threads), prepare)


if __name__ == "__main__":
    main()
