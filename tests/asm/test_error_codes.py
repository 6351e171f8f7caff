"""Error codes: each is raised by a source of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.source_errors import SOURCES, table_of
from tilewright.asm import SourceErrors, assemble
from tilewright.asm.diagnostics import ErrorCode, SourceError
from tilewright.targets.cambricon.dla.error_codes import DlaError

ROOT = Path(__file__).parents[2]
CODES: tuple[ErrorCode, ...] = (*SourceError, *DlaError)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.number)
def test_each_code_has_a_source_that_raises_it(code: ErrorCode) -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble(SOURCES[code], table_of(code), folder=ROOT / "docs")
    assert [diagnostic.error_code for diagnostic in raised.value.diagnostics] == [code]


def test_numbers_and_titles_name_one_code() -> None:
    assert len({code.number for code in CODES}) == len(CODES)
    assert len({code.title for code in CODES}) == len(CODES)
