"""Compiles this installation's modules and the functions of its simulators and cost models.

The first command from an empty cache would compile them otherwise, which takes most of its time.
Each of `COMMANDS` runs with a cache of its own; the functions that it compiled are put beside the
installed modules (`common.compiled.INSTALLED`), those of earlier sources are removed.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tilewright
from tilewright.common.compiled import FUNCTIONS, INSTALLED

COMMANDS = (
    "compile digits --machine sw26010",
    "compile digits --machine bwdsp-56",
    "compile gemm --m 64 --n 64 --k 64 --machine dla-al",
)


def main() -> None:
    """Compile everything, and say what there is then."""
    compileall.compile_dir(Path(str(tilewright.__file__)).parent, quiet=1)
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for path in INSTALLED.iterdir():
        path.unlink()
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as cache:
        own = {**os.environ, "XDG_CACHE_HOME": cache}
        for command in COMMANDS:
            line = [sys.executable, "-m", "tilewright", *command.split()]
            subprocess.run(line, env=own, check=True, stdout=subprocess.DEVNULL)
        for value in Path(cache, "tilewright", FUNCTIONS).glob("*/value"):
            found[value.parent.name] = value.read_bytes()
    for key, content in found.items():
        filling = INSTALLED / f".{key}"
        filling.write_bytes(content)
        filling.replace(INSTALLED / key)
    print(f"{INSTALLED} holds {len(found)} functions, {sum(map(len, found.values())):,} bytes")


if __name__ == "__main__":
    main()
