"""Compiles this installation's modules, and makes what the first command would else take time for.

That are the functions of its simulators and cost models, structures of schedules ready to be
priced, and software pipelines; nothing of it depends on the extents of operators. Each of
`COMMANDS` runs with a cache of its own; what it made of these `KINDS` is put beside the installed
modules (`common.cache.INSTALLED`), that of earlier sources is removed.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tilewright
from tilewright.common.cache import INSTALLED

COMMANDS = (
    "compile lenet5 --machine sw26010",
    "compile digits --machine bwdsp-56",
    "compile gemm --m 64 --n 64 --k 64 --machine dla-al",
)
KINDS = ("functions", "structures", "pipelines")


def main() -> None:
    """Compile everything, and say what there is then."""
    compileall.compile_dir(Path(str(tilewright.__file__)).parent, quiet=1)
    with tempfile.TemporaryDirectory() as cache:
        own = {**os.environ, "XDG_CACHE_HOME": cache}
        for command in COMMANDS:
            line = [sys.executable, "-m", "tilewright", *command.split()]
            subprocess.run(line, env=own, check=True, stdout=subprocess.DEVNULL)
        for kind in KINDS:
            made = sorted(Path(cache, "tilewright", kind).glob("*/value"))
            _install({path.parent.name: path.read_bytes() for path in made}, INSTALLED / kind)


def _install(made: dict[str, bytes], folder: Path) -> None:
    """Make the folder hold these values by their keys, each in one step."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for key, content in made.items():
        filling = folder / f".{key}"
        filling.write_bytes(content)
        filling.replace(folder / key)
    print(f"{folder} holds {len(made)} values, {sum(map(len, made.values())):,} bytes")


if __name__ == "__main__":
    main()
