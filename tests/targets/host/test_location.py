"""`host` is the computer at hand: its calibration, or the shipped description that it executes."""

import pytest

from tilewright.machine import find_machine, list_machines, load_machine
from tilewright.targets.host import location as this_computer
from tilewright.targets.host.calibrating.description import calibration_path
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.location import description_of_host
from tilewright.targets.host.vectors.instruction_sets import INSTRUCTION_SETS


@pytest.fixture
def configuration(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return calibration_path()


@pytest.mark.parametrize("isa", INSTRUCTION_SETS, ids=lambda isa: isa.name)
def test_without_a_calibration_it_is_the_one_with_the_vectors_of_the_processor(
    monkeypatch, configuration, isa
):
    assert not configuration.exists()
    monkeypatch.setattr(this_computer, "native_instruction_sets", lambda: (isa,))
    assert description_of_host() in list_machines()
    assert instruction_set_of(find_machine("host")) == isa


def test_the_calibration_goes_first(configuration):
    configuration.parent.mkdir()
    configuration.write_text(
        'base = "host_portable"\nname = "host"\nclock_hz = 1000000000\n'
        '[sources]\n"clock_hz" = "measured"\n'
    )
    assert find_machine("host").clock_hz == 1e9
    assert find_machine("host", {"clock_hz": 2e9}).clock_hz == 2e9


def test_other_names_are_what_they_are():
    assert find_machine("sw26010") == load_machine("sw26010")
