"""Statements of the documents about the tree, held against the tree."""

import re
import tomllib
from pathlib import Path

import tilewright

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tilewright"
LARGEST_PUBLIC_API = 15


def folders() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_architecture_names_each_package_folder_and_no_other():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)/` \|", text, flags=re.MULTILINE))
    assert named == folders()


def test_each_package_has_its_place_in_the_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (c for c in contracts if c["type"] == "layers")
    placed = re.findall(r"\w+", " ".join(contract["layers"]))
    assert len(placed) == len(set(placed))
    assert folders() <= set(placed)


def test_the_public_api_is_small_and_there():
    public = getattr(tilewright, "__all__", [])
    assert len(public) <= LARGEST_PUBLIC_API
    assert [name for name in public if not hasattr(tilewright, name)] == []


def test_tests_mirror_the_sources():
    """Each folder of tests/ is a package of the sources, or one of the few that cut across."""
    across = {"architecture", "docs", "end_to_end", "examples", "papers"}
    across |= {"plugin_example", "support"}
    tests = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert tests - {"__pycache__"} - across <= folders()
