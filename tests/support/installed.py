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
    entries = declared(ROOT / "pyproject.toml")
    if set(entries) <= set(family_names()):
        return
    install(folder, "tilewright", entries)
    sys.path.insert(0, str(folder))


def install(folder: Path, name: str, entries: dict[str, str]) -> None:
    """Leaves a package's metadata as an installer does."""
    metadata = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [f"[{FAMILIES}]", *(f"{key} = {value}" for key, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    importlib.invalidate_caches()


def declared(pyproject: Path) -> dict[str, str]:
    """The families that a project declares."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    return dict(settings["project"]["entry-points"][FAMILIES])
