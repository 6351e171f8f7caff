"""Sections that a family declares: sources and refusals as for every key."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import Struct

from tilewright.common.errors import MachineError
from tilewright.machine import GemmPrimitive, Machine, Section, Sections, describe, load_machine
from tilewright.machine.build import SECTIONS, stored_machine, usual_value
from tilewright.machine.model import document_of


class Spool(Struct, frozen=True, forbid_unknown_fields=True):
    """Half of the wires."""

    turns: int


class Wires(Section, frozen=True, forbid_unknown_fields=True):
    """A section that a stranger's family understands."""

    key: ClassVar[str] = "memory.wires"

    length_metres: float
    spool: Spool

    def problem(self, machine: Machine) -> str:
        """Wires are as long as the machine has groups."""
        short = self.length_metres < machine.groups.count
        return f"memory.wires.length_metres: found {self.length_metres}" if short else ""


class Racks(Section, frozen=True, forbid_unknown_fields=True):
    """One whose table is no part of every machine."""

    key: ClassVar[str] = "building.racks"

    count: int


DECLARED = Sections(required=(Wires,), optional=(Racks,), needs=("mesh", "memory.local"))

TEXT = """
name = "odd"
description = "a stranger's"
target = "sw26010"
clock_hz = 1000
mesh = { rows = 1, columns = 1 }
core.arithmetic.i8 = { vector_lanes = 1, flops_per_cycle = 2 }
memory.local = { capacity_bytes = 64 }
memory.wires = { length_metres = 2.5, spool = { turns = 3 } }
building.racks = { count = 4 }

[sources]
clock_hz = "s"
"mesh.rows" = "s"
"mesh.columns" = "s"
"core.arithmetic.i8.vector_lanes" = "s"
"core.arithmetic.i8.flops_per_cycle" = "s"
"memory.local.capacity_bytes" = "s"
"memory.wires.length_metres" = "measured by hand"
"memory.wires.spool.turns" = "s"
"building.racks.count" = "s"
"""


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """The family of the tests' machines declares `DECLARED`."""
    monkeypatch.setattr(type(SECTIONS), "of_family", lambda self, family: DECLARED)


def written(folder: Path, old: str = "", new: str = "") -> str:
    assert old in TEXT
    path = folder / "odd.toml"
    path.write_text(TEXT.replace(old, new, 1) if old else TEXT)
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(MachineError) as caught:
        load_machine(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_sections_are_typed_values(tmp_path):
    machine = load_machine(written(tmp_path))
    assert machine.section(Wires) == Wires(2.5, Spool(3))
    assert machine.section(Racks).count == 4
    assert list(machine.memory) == ["local"]


def test_their_numbers_are_shown_set_hashed_and_stored(tmp_path):
    path = written(tmp_path)
    machine = load_machine(path)
    other = load_machine(path, {"memory.wires.spool.turns": 7})
    assert ("memory.wires.length_metres", 2.5, "measured by hand") in describe(machine)
    assert ("memory.wires.spool.turns", 7, "set by the user") in describe(other)
    assert machine.content_hash() != other.content_hash()
    assert stored_machine(document_of(other)) == other


def test_a_section_that_the_description_lacks(tmp_path):
    found = load_machine(written(tmp_path))
    assert found.find_section(GemmPrimitive) is None
    with pytest.raises(MachineError) as caught:
        found.section(GemmPrimitive)
    assert str(caught.value) == (
        "machine 'odd' has no [primitives.gemm]; describe primitives.gemm in its file, or take "
        "another machine"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "memory.wires = { length_metres = 2.5, spool = { turns = 3 } }",
            "",
            "memory.wires is missing; give it, and its source under [sources]",
        ),
        (
            "spool = { turns = 3 }",
            "spool = 3",
            "memory.wires.spool: expected a table, found 3",
        ),
        (
            "turns = 3",
            "turn = 3",
            "unknown key memory.wires.spool.turn; did you mean turns?",
        ),
        (
            "length_metres = 2.5, ",
            "",
            "memory.wires.length_metres is missing; give it, and its source under [sources]",
        ),
        ("length_metres = 2.5", "length_metres = 0.5", "memory.wires.length_metres: found 0.5"),
        (
            "building.racks",
            "building.rack",
            "unknown key building.rack; did you mean racks?",
        ),
        (
            "memory.local = { capacity_bytes = 64 }",
            "",
            "memory.local is missing; give it, and its source under [sources]",
        ),
        (
            '"memory.wires.spool.turns" = "s"',
            "",
            'memory.wires.spool.turns = 3 has no source; add "memory.wires.spool.turns" = "where '
            'the number comes from" under [sources]',
        ),
        (
            'name = "odd"',
            'name = "odd"\nsections = []',
            "unknown key sections; did you mean description?",
        ),
    ],
)
def test_refusals_name_the_key(tmp_path, old, new, message):
    assert refusal(written(tmp_path, old, new)) == message


def test_a_family_that_is_not_installed(tmp_path):
    with pytest.raises(Exception, match="unknown target 'nobody'; known targets: "):
        load_machine(written(tmp_path, 'target = "sw26010"', 'target = "nobody"'))


class Paint(Section, frozen=True, forbid_unknown_fields=True):
    """Numbers with and without a default."""

    key: ClassVar[str] = "paint"

    layers: int
    litres: float = 2.5
    colors: tuple[str, ...] = ("red",)


def test_a_number_has_the_usual_value_that_its_section_says(monkeypatch):
    declared = Sections(optional=(Paint,))
    monkeypatch.setattr(type(SECTIONS), "of_family", lambda self, family: declared)
    tree = {"target": "sw26010"}
    keys = ("paint.litres", "paint.layers", "paint.colors", "paint.brush", "wires.litres")
    assert [usual_value(tree, key, "") for key in keys] == [2.5, None, None, None, None]


def test_a_family_that_declares_nothing_has_machines_without_sections(tmp_path, monkeypatch):
    monkeypatch.setattr(type(SECTIONS), "of_family", lambda self, family: None)
    lines = [line for line in TEXT.splitlines() if "wires" not in line and "racks" not in line]
    path = tmp_path / "odd.toml"
    path.write_text("\n".join(lines))
    assert load_machine(str(path)).sections == ()
