"""Targets are found by package metadata, a stranger's like the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.installed import declared, install
from tilewright.common.errors import ToolError
from tilewright.machine import Family, family
from tilewright.machine.family import family_names, find_family, machine_files
from tilewright.targets.sw26010 import FAMILY

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "plugin_example"


@pytest.fixture
def packages(tmp_path, monkeypatch) -> Path:
    """A folder of installed packages: tilewright and nothing else that registers targets."""
    folder = tmp_path / "packages"
    install(folder, "tilewright", declared(ROOT / "pyproject.toml"))
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_the_shipped_target(packages):
    assert "sw26010" in family_names()
    assert find_family("sw26010") is FAMILY
    assert isinstance(FAMILY, Family)


def test_a_package_of_its_own_is_a_target(packages, monkeypatch):
    install(packages, "tilewright-duo", declared(PLUGIN / "pyproject.toml"))
    monkeypatch.syspath_prepend(str(PLUGIN / "src"))
    assert {"duo", "sw26010"} <= set(family_names())
    assert find_family("duo").package == "tilewright_duo"
    assert machine_files()["duo"][0] == "duo"


def test_an_unknown_target(packages):
    with pytest.raises(ToolError) as caught:
        find_family("sw26020")
    known = ", ".join(family_names())
    assert str(caught.value) == f"unknown target 'sw26020'; known targets: {known}"


def test_where_nothing_is_installed_the_package_is_the_way_out(monkeypatch):
    monkeypatch.setattr(family, "registered", lambda *_: {})
    with pytest.raises(ToolError) as caught:
        find_family("a target")
    assert str(caught.value) == (
        "unknown target 'a target'; "
        "known targets: none; install the package, `pip install -e .` in a checkout"
    )


def test_two_targets_of_one_name(packages):
    install(packages, "another", {"sw26010": "another:FAMILY"})
    with pytest.raises(ToolError) as caught:
        find_family("sw26010")
    assert caught.value.message in {
        "two targets are called 'sw26010': tilewright.targets.sw26010:FAMILY and another:FAMILY",
        "two targets are called 'sw26010': another:FAMILY and tilewright.targets.sw26010:FAMILY",
    }
    assert caught.value.fix == "uninstall one of the two packages"


def test_the_same_metadata_twice_is_no_clash(packages):
    install(packages, "tilewright-again", declared(ROOT / "pyproject.toml"))
    assert find_family("sw26010") is FAMILY


@pytest.mark.parametrize(
    ("value", "message", "fix"),
    [
        (
            "no_such_module:FAMILY",
            "target 'other' cannot be loaded from no_such_module:FAMILY: "
            "No module named 'no_such_module'",
            "reinstall the package that registers it",
        ),
        (
            "tilewright.common.plugins:FAMILIES",
            "target 'other': tilewright.common.plugins:FAMILIES is not a family of machines",
            "register a tilewright.machine.Family",
        ),
        (
            "tilewright.targets.sw26010:FAMILY",
            "target 'other': tilewright.targets.sw26010:FAMILY calls itself 'sw26010'",
            "register it under its own name",
        ),
    ],
)
def test_what_is_registered_must_be_a_target(packages, value, message, fix):
    install(packages, "broken", {"other": value})
    with pytest.raises(ToolError) as caught:
        find_family("other")
    assert (caught.value.message, caught.value.fix) == (message, fix)
