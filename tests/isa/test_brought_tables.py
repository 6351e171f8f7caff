"""Instruction tables come with the families that are installed, without their code being run."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.common.errors import ToolError
from tilewright.common.plugins import FAMILIES
from tilewright.isa import load_table, table_names
from tilewright.isa.load import table_files

BRACKETED = Path(__file__).parents[1] / "asm" / "tables" / "bracketed.toml"
REFUSES = "raise AssertionError('the code of a family is not needed for its tables')\n"


@pytest.fixture
def family(tmp_path, monkeypatch):
    """An installed package that brings a table, whose code cannot be run: its name and folder."""

    def install(name: str, table: str) -> Path:
        folder = tmp_path / name
        (folder / "isa").mkdir(parents=True)
        (folder / "__init__.py").write_text(REFUSES)
        (folder / "isa" / f"{table}.toml").write_bytes(BRACKETED.read_bytes())
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{FAMILIES}]\n{name} = {name}:FAMILY\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        return folder

    return install


def test_the_table_of_an_installed_family_is_found(family):
    folder = family("stranger", "bracketed")
    assert "bracketed" in table_names()
    assert table_files()["bracketed"] == ("stranger", folder / "isa" / "bracketed.toml")
    assert load_table("bracketed").elf_machine == 0x7401
    load_table.cache_clear()


def test_two_families_bring_one_name(family):
    family("another", "sw26010_cpe")
    with pytest.raises(ToolError) as caught:
        load_table("sw26010_cpe_of_nobody")
    assert caught.value.message == (
        "two targets bring the instruction table 'sw26010_cpe': another and sw26010"
    )
    assert caught.value.fix == "uninstall one of the two packages"


def test_a_table_is_loaded_without_the_code_of_its_family():
    code = (
        "import sys\n"
        "from tilewright.isa import load_table\n"
        "load_table('sw26010_cpe')\n"
        "print([name for name in sys.modules if name.startswith('tilewright.targets.')])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
