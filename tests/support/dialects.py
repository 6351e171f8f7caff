"""The made-up table `bracketed`, and the same in other dialects."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tilewright.isa import Dialect, InstructionTable, read_table
from tilewright.isa.load import check_table

BRACKETED = read_table(Path(__file__).parents[1] / "asm" / "tables" / "bracketed.toml")
# comments, immediate, memory, prefixes of the two register files
SPELLINGS = (
    (("#", "//"), "", "{displacement}({base})", ("$", "$v")),
    (("//", ";"), "#", "{displacement}[{base}]", ("r", "v")),
    (("--",), "$", "[{base}+{displacement}]", ("%r", "%v")),
    ((";",), "", "[{base}+{displacement}]", ("R", "Rv")),
    (("@@",), "#", "[{base}, #{displacement}]", ("x", "v")),
    (("|#",), "", "({base},{displacement})", ("%", "%v")),
)


def spelled(
    comments: tuple[str, ...], mark: str, memory: str, names: tuple[str, str]
) -> InstructionTable:
    """The made-up table in another dialect and with other names of its registers."""
    files = tuple(
        msgspec.structs.replace(file, prefix=prefix)
        for file, prefix in zip(BRACKETED.register_files, names, strict=True)
    )
    dialect = Dialect(comments=comments, immediate=mark, memory=memory)
    table = msgspec.structs.replace(BRACKETED, dialect=dialect, register_files=files)
    check_table(table, where="drawn")
    return table


TABLES = [spelled(*spelling) for spelling in SPELLINGS]
