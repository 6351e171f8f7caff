"""Files from a stranger: one message and an exit code, nothing half-written, no name let in."""

import copy
import json
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from support.examples import examples
from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app

SMALL = ["gemm", "--m", "64", "--n", "64", "--k", "64", "-m", "sw26010_cg"]
NAMES = {
    "../../x": "x",
    "$(rm -rf .)": "rm_rf",
    '"; int x': "int_x",
    "*/ #include </etc/passwd>": "include_etc_passwd",
    "x" * 10_000: "x" * 40,
    "größe": "gr_e",
    "\u202eexe\x00.txt": "exe_txt",
    "network.json": "network_json",
    "..": "unnamed",
}


def run(*arguments):
    """The result of a command, which never ends with a traceback."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_in_a_model_reach_neither_paths_nor_code(name, tmp_path):
    """As the name of the node and of every tensor; only the safe form of the node's is used."""
    x, w, y = f"x{name}", f"w{name}", f"y{name}"
    conv = node("Conv", [x, w], [y], name=name)
    proto = model([conv], {x: (8, 8, 6, 6)}, {w: floats(8, 8, 3, 3)}, outputs=(y,))
    path = saved(tmp_path, proto)
    out = tmp_path / "out"
    result = run(
        "compile", path, "--layers", "-m", "sw26010_cg", "--algorithm", "explicit", "-o", out
    )
    assert result.exit_code == 0, result.output
    assert {p.name for p in tmp_path.iterdir()} == {"m.onnx", "out"}
    assert {p.name for p in out.iterdir()} == {"network.json", NAMES[name]}
    assert [p.name for p in files(out) if not re.fullmatch(r"\w+(\.\w+)?", p.name)] == []
    assert [p for p in files(out) if name in p.read_text() and name != ".."] == []


def test_the_makefile_runs_no_name(tmp_path):
    """make prints its commands: compilers and archivers on the files that are there."""
    out = tmp_path / "out; touch here"
    assert run("compile", *SMALL, "-o", out).exit_code == 0
    commands = subprocess.run(
        ["make", "-n", "-C", out], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in commands.splitlines() if not line.startswith("make")]
    assert {line.split()[0] for line in lines} == {"sw5cc", "ar"}
    assert not re.search(r"[;&|$`<>]", "".join(lines))


def test_nothing_is_left_of_what_fails(tmp_path):
    out = tmp_path / "out"
    tiny = run("compile", *SMALL, "--set", "memory.spm.capacity_bytes=4300", "-o", out)
    assert tiny.exit_code == 1
    assert tiny.stderr == (
        "error: no tile of gemm m64 n64 k64 fits: the smallest tiles of 'gemm' take 704 bytes of "
        "scratchpad, 512 of them for 'c', the limit is 204\n"
        "  fix: --set memory.spm.capacity_bytes=4800\n"
    )
    assert run("compile", *SMALL, "--set", "target=none", "-o", out).exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_the_layer_of_a_network_that_lacks_most_is_named():
    result = run(
        "compile", "lenet5", "--layers", "-m", "sw26010", "--set", "memory.spm.capacity_bytes=4300"
    )
    assert result.exit_code == 1
    assert re.fullmatch(
        r"error: \w+, each of 4 pieces: no tile of .* fits: the smallest tiles of '\w+' take \d+ "
        r"bytes of scratchpad, \d+ of them for '\w+', the limit is 204\n"
        r"  fix: --set memory.spm.capacity_bytes=\d+\n",
        result.stderr,
    )
    enough = result.stderr.split()[-1]
    assert run("compile", "lenet5", "--layers", "-m", "sw26010", "--set", enough).exit_code == 0


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "gemm"
    assert run("compile", *SMALL, "-o", folder).exit_code == 0
    return folder, json.loads((folder / "kernel.json").read_text())


def leaves(value, path=()):
    """The place of every value in nested JSON."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


ODD = [
    None,
    -1,
    0,
    2**31,
    2**63 - 1,
    10**30,
    1.5,
    1e308,
    -1e-300,
    "",
    "../../x",
    "\x1b[31m",
    [],
    {},
]


@examples(60)
@given(data=st.data())
def test_a_changed_result_is_shown_or_refused(kernel, data):
    """Any value of kernel.json replaced by an odd one."""
    folder, stored = kernel
    changed = copy.deepcopy(stored)
    *path, last = data.draw(st.sampled_from(list(leaves(stored))))
    place = changed
    for key in path:
        place = place[key]
    place[last] = data.draw(st.sampled_from(ODD))
    (folder / "kernel.json").write_text(json.dumps(changed))
    for command in (["explain", "--no-changes"], ["simulate"], ["check"]):
        result = run(command[0], folder, *command[1:])
        assert result.exit_code in (0, 1, 3), result.output
        assert "\x1b" not in result.output
