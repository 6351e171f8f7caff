"""A package that registers a family of machines, written and installed for one test."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from tilewright.common.plugins import FAMILIES


def installed_family(folder: Path, monkeypatch, name: str, files: Mapping[str, str]) -> None:
    """Put a package of that name with these modules on the path, with the metadata of a family."""
    package, metadata = folder / name, folder / f"{name}-0.1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    head = "from tilewright.machine import Family\n\n"
    (package / "__init__.py").write_text(f'{head}FAMILY = Family("{name}", __name__)\n')
    for module, text in files.items():
        (package / module).write_text(text)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{FAMILIES}]\n{name} = {name}:FAMILY\n")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
