"""Routines of the SW26010 as programs of the simulated core, by way of their text."""

from __future__ import annotations

from functools import cache

from tilewright.asm import assemble, link
from tilewright.isa import load_table
from tilewright.simulate.image import load_image
from tilewright.simulate.program import AssembledProgram


@cache
def assembled(text: str, table_name: str) -> AssembledProgram:
    """A text, assembled and linked, on the simulated core."""
    table = load_table(table_name)
    return load_image(link([assemble(text, table)], table), table).program
