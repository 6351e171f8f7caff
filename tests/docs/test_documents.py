"""README and docs/ are executed: Python blocks run, commands exit with 0 and print what is shown.

Every fenced block names one of the languages below; a block of another language fails the test.
In a console block a line that starts with `$ ` is a command, and the lines after it are its output,
in which `...` stands for anything. Commands run in a folder of their own, beside `examples`.
"""

import doctest
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from support.documents import Block, blocks_of
from tilewright.cli.main import app_main
from tilewright.ops import gemm
from tilewright.seeds import space

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
"""Records of why something is as it is; what they show was true when they were written."""
DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if DECISIONS not in path.parents
)
BLOCKS = [block for path in DOCUMENTS for block in blocks_of(path, ROOT)]
LANGUAGES = ("python", "console", "toml", "text")

NOT_RUN = {
    "make": "the Makefile's targets, which run this suite themselves",
    "git": "needs the network",
    "cd": "changes the reader's folder",
}
"""First word of a command that the runner leaves alone -> why."""


def of(language: str) -> list[object]:
    """The blocks of one language."""
    chosen = [block for block in BLOCKS if block.language == language]
    return [pytest.param(block, id=block.where) for block in chosen]


def test_every_block_names_a_language_that_is_checked():
    assert [block.where for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", of("python"))
def test_python_block_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space.seeds_for(gemm(1, 1, 1))  # the seeds that packages register are there for all blocks
    for registry in ("_RULES", "_ADDRESSED"):  # a block's end with it
        monkeypatch.setattr(space, registry, type(known := getattr(space, registry))(known))
    exec(compile(block.text, block.where, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", of("toml"))
def test_toml_block_parses(block):
    assert tomllib.loads(block.text)


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Each command of a console block with the output shown after it."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.where}: a console block starts with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


CONSOLES = [
    pytest.param(block, id=f"{block.where} {commands_of(block)[0][0]}")
    for block in BLOCKS
    if block.language == "console"
]


@pytest.mark.parametrize("block", CONSOLES)
def test_commands_print_what_the_document_shows(block, tmp_path, monkeypatch, capsys):
    """The commands of one block, one after the other in one folder."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for command, output in commands_of(block):
        assert_prints(command, output, monkeypatch, capsys)


def assert_prints(command, output, monkeypatch, capsys):
    program, *arguments = shlex.split(command)
    if program in NOT_RUN:
        assert not output.strip(), f"the output of {program} is shown but not checked"
        return
    assert program == "tilewright"
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    with pytest.raises(SystemExit) as finished:
        sys.exit(app_main())
    printed = capsys.readouterr()
    assert finished.value.code in (None, 0), printed.err
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    shown = output.strip() or "..."
    assert doctest.OutputChecker().check_output(shown, printed.out, options), printed.out
