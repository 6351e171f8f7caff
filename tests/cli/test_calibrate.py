"""`tilewright calibrate`: what it prints and writes; the measuring is tested with the target."""

import json
import tomllib

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.machine import find_machine, load_machine
from tilewright.targets.host import calibration
from tilewright.targets.host.calibrating.measure import measure_host
from tilewright.tune.sampling import Protocol

HURRIED = Protocol(rounds=1, sample_seconds=2e-5, share=0.0, patience=1)


@pytest.fixture(autouse=True)
def hurried(monkeypatch, tmp_path):
    def measured(host, protocol, progress):
        return measure_host(host, HURRIED, progress)

    monkeypatch.setattr(calibration, "measure_host", measured)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_description_is_written_to_the_users_folder(tmp_path):
    result = CliRunner().invoke(app, ["calibrate", "host", "--quick"])
    assert result.exit_code == 0, result.output
    path = tmp_path / "tilewright" / "host.toml"
    assert "use it: --machine host" in result.output
    assert "matrix kernels, measured" in result.output
    assert find_machine("host") == load_machine(str(path))


def test_json(tmp_path):
    file = tmp_path / "mine.toml"
    result = CliRunner().invoke(app, ["calibrate", "--json", "-o", str(file)])
    found = json.loads(result.stdout)
    assert set(found) == {"file", "measured"}
    assert found["file"] == str(file)
    assert found["measured"]["clock_hz"] == pytest.approx(
        tomllib.loads(file.read_text())["clock_hz"], abs=1
    )
    assert set(found["measured"]["kernels"]) == {"f32", "f64"}


def test_only_the_host_can_be_measured():
    result = CliRunner().invoke(app, ["calibrate", "sw26010"])
    assert result.exit_code == 2
    assert "error: only the machine 'host' can be measured, found 'sw26010'" in result.output
