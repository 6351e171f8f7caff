"""Error codes: each is raised by a source of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.source_errors import SOURCES
from tilewright.asm import SourceErrors, assemble
from tilewright.asm.error_codes import ErrorCode, SourceError
from tilewright.isa import load_table
from tilewright.targets.cambricon.dla.error_codes import DlaError

ROOT = Path(__file__).parents[2]
CODES: tuple[ErrorCode, ...] = (*SourceError, *DlaError)
TABLES = {"A": load_table("sw26010_cpe"), "D": load_table("cambricon")}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.number)
def test_each_code_has_a_source_that_raises_it(code: ErrorCode) -> None:
    table = TABLES["D" if code is SourceError.MARK else code.number[0]]
    with pytest.raises(SourceErrors) as raised:
        assemble(SOURCES[code], table, folder=ROOT / "docs")
    assert [diagnostic.error_code for diagnostic in raised.value.diagnostics] == [code]


def test_numbers_and_titles_name_one_code() -> None:
    assert len({code.number for code in CODES}) == len(CODES)
    assert len({code.title for code in CODES}) == len(CODES)
