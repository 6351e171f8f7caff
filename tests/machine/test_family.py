"""Targets are found by package metadata, a stranger's like the shipped ones."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from tilewright.codegen.artifact import EMITS
from tilewright.common.errors import ToolError
from tilewright.common.plugins import FAMILIES
from tilewright.ir.parser import parse
from tilewright.machine import Family, load_machine
from tilewright.machine.family import family_names, find_family
from tilewright.targets.sw26010 import TARGET

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "plugin_example"


def install(folder: Path, name: str, entries: dict[str, str]) -> None:
    """What an installer leaves of a package: its metadata."""
    metadata = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [f"[{FAMILIES}]", *(f"{key} = {value}" for key, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    importlib.invalidate_caches()


def declared(pyproject: Path) -> dict[str, str]:
    """The targets that a project declares."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    return dict(settings["project"]["entry-points"][FAMILIES])


@pytest.fixture
def packages(tmp_path, monkeypatch) -> Path:
    """A folder of installed packages: tilewright and nothing else that registers targets."""
    folder = tmp_path / "packages"
    install(folder, "tilewright", declared(ROOT / "pyproject.toml"))
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_the_shipped_target(packages):
    assert "sw26010" in family_names()
    assert find_family("sw26010") is TARGET
    assert isinstance(TARGET, Family)


def test_a_package_of_its_own_is_a_target(packages, monkeypatch):
    install(packages, "tilewright-listing", declared(PLUGIN / "pyproject.toml"))
    monkeypatch.syspath_prepend(str(PLUGIN / "src"))
    assert {"listing", "sw26010"} <= set(family_names())
    program = parse("def empty():\n    barrier()\n")
    artifact = EMITS.of_family(find_family("listing")).emit(program, load_machine("sw26010"))
    assert dict(artifact.files) == {
        "empty.txt": "# for sw26010\ndef empty():\n    barrier()\n",
    }
    for name in [name for name in sys.modules if name.startswith("tilewright_listing")]:
        del sys.modules[name]


def test_an_unknown_target(packages):
    with pytest.raises(ToolError) as caught:
        find_family("sw26020")
    known = ", ".join(family_names())
    assert str(caught.value) == f"unknown target 'sw26020'; known targets: {known}"


def test_two_targets_of_one_name(packages):
    install(packages, "another", {"sw26010": "another:TARGET"})
    with pytest.raises(ToolError) as caught:
        find_family("sw26010")
    assert caught.value.message in {
        "two targets are called 'sw26010': tilewright.targets.sw26010:TARGET and another:TARGET",
        "two targets are called 'sw26010': another:TARGET and tilewright.targets.sw26010:TARGET",
    }
    assert caught.value.fix == "uninstall one of the two packages"


def test_the_same_metadata_twice_is_no_clash(packages):
    install(packages, "tilewright-again", declared(ROOT / "pyproject.toml"))
    assert find_family("sw26010") is TARGET


@pytest.mark.parametrize(
    ("value", "message", "fix"),
    [
        (
            "no_such_module:TARGET",
            "target 'other' cannot be loaded from no_such_module:TARGET: "
            "No module named 'no_such_module'",
            "reinstall the package that registers it",
        ),
        (
            "tilewright.common.plugins:FAMILIES",
            "target 'other': tilewright.common.plugins:FAMILIES is not a family of machines",
            "register a tilewright.machine.Family",
        ),
        (
            "tilewright.targets.sw26010:TARGET",
            "target 'other': tilewright.targets.sw26010:TARGET calls itself 'sw26010'",
            "register it under its own name",
        ),
    ],
)
def test_what_is_registered_must_be_a_target(packages, value, message, fix):
    install(packages, "broken", {"other": value})
    with pytest.raises(ToolError) as caught:
        find_family("other")
    assert (caught.value.message, caught.value.fix) == (message, fix)
