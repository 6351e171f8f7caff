"""Further results of the assembler: the trace of its expansion, the files it read."""

from __future__ import annotations

from pathlib import Path

from tilewright.asm import assemble, assemble_file, dependency_rule, expansion_trace
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")

SOURCE = """\
.macro twice a
.rept 2
addl \\a, \\a, \\a
.endr
.endm
start: twice $3
halt
"""

TRACE = """\
<source>: sw26010_cpe
    1  .macro twice a
    2  .rept 2
    3  addl \\a, \\a, \\a
    4  .endr
    5  .endm
    6  start: twice $3
         macro 'twice'
         .rept 2
         addl $3, $3, $3
         .endr
           a repetition
           addl $3, $3, $3
           addl $3, $3, $3
    7  halt
"""


def test_the_trace_shows_what_each_line_became() -> None:
    assert expansion_trace(assemble(SOURCE, CPE)) == TRACE


def test_the_rule_for_make_has_every_file_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "my part.s").write_text("halt\n")
    (tmp_path / "empty.s").write_text("")
    (tmp_path / "k.s").write_text('.include "my part.s"\n.include "empty.s"\n')
    source = assemble_file(tmp_path / "k.s", CPE)
    assert dependency_rule(source, Path("out/k$1.o"), Path("src")) == (
        "out/k$$1.o: src/k.s src/my\\ part.s src/empty.s\n"
    )
