"""Package metadata for test runs straight from the sources, so that shipped targets are found."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

from tilewright.common.plugins import FAMILIES
from tilewright.machine.family import family_names

ROOT = Path(__file__).parents[2]


def ensure_installed(folder: Path) -> None:
    """Put what an installer would leave of tilewright on the path, unless it is there already."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = settings["entry-points"][FAMILIES]
    if set(entries) <= set(family_names()):
        return
    metadata = folder / "tilewright-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tilewright\nVersion: 0.1.0\n")
    lines = [f"[{FAMILIES}]", *(f"{key} = {value}" for key, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
