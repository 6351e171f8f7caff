"""Limits of a BWDSP's description: keys that neither planner nor programs follow are refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright import targets
from tilewright.cli.main import app
from tilewright.common.errors import MachineError
from tilewright.machine import load_machine

FILE = Path(targets.__path__[0], "bwdsp", "machines", "bwdsp-56.toml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"fabrics.grid.topology": "torus"},
            "fabrics.grid.topology: expected mesh, found torus",
        ),
        (
            {"fabrics.grid.multicast": "line"},
            "fabrics.grid.multicast: expected none or path, found line",
        ),
        ({"fabrics.grid.rows": "3"}, "fabrics.grid.rows: expected mesh.rows = 7, found 3"),
        (
            {"mesh.rows": "3", "mesh.columns": "5"},
            "fabrics.grid.rows: expected mesh.rows = 3, found 7",
        ),
        ({"memory.buffers.banks": "1"}, "memory.buffers.banks: expected 3, found 1"),
        (
            {"core.arithmetic.f32.flops_per_cycle": "1"},
            "core.arithmetic.f32.flops_per_cycle: expected 2 * vector_lanes = 32, found 1",
        ),
    ],
)
def test_settings_that_nothing_follows_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(MachineError) as refused:
        load_machine("bwdsp-56", changes)
    assert refused.value.message == message


def test_a_mesh_of_another_shape_has_links_of_that_shape() -> None:
    shape = {"mesh.rows": "3", "mesh.columns": "5"}
    links = {"fabrics.grid.rows": "3", "fabrics.grid.columns": "5"}
    assert load_machine("bwdsp-56", shape | links).cores == 15


@pytest.mark.parametrize(("count", "found"), [(0, "none"), (2, "grid, other")])
def test_the_cores_have_one_grid_of_links(tmp_path: Path, count: int, found: str) -> None:
    before, _, behind = FILE.read_text().partition("[fabrics.grid]\n")
    table, _, after = behind.partition("\n\n")
    fabrics = [f"[fabrics.{name}]\n{table}\n\n" for name in ("grid", "other")[:count]]
    body = "\n".join(line for line in after.splitlines() if "fabrics." not in line)
    path = tmp_path / "own.toml"
    path.write_text(before + "".join(fabrics) + body)
    done = CliRunner().invoke(app, ["compile", "lenet5", "--machine", str(path)])
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: {path}: fabrics: expected one, the grid of the cores, found {found}\n"
    )


def test_costs_of_messages_that_are_not_counted_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        FILE.read_text().replace("hop_cycles = 2.0", "hop_cycles = 2.0\nheader_bytes = 8")
    )
    with pytest.raises(MachineError) as refused:
        load_machine(str(path))
    assert refused.value.message == (
        "fabrics.grid.header_bytes: expected 0, which is what is counted, found 8"
    )


def test_more_work_says_that_a_multicast_leaves_halos_to_exchanges() -> None:
    arguments = ["compile", "lenet5", "--machine", "bwdsp-56", "--most-work", "1.5"]
    done = CliRunner().invoke(app, [*arguments, "--set", "fabrics.grid.multicast=path"])
    assert done.exit_code == 0
    assert done.stderr == (
        "warning: the fabric of 'bwdsp-56' multicasts: halos are exchanged there, never computed "
        "again\n"
    )
