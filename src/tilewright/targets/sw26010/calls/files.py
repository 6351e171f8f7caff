"""The files of the routines in assembly that programs call."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir.nodes import Program
from tilewright.targets.sw26010.calls.maps import map_routines
from tilewright.targets.sw26010.calls.reductions import reduce_routines
from tilewright.targets.sw26010.elementwise.reduce_text import reduce_text
from tilewright.targets.sw26010.elementwise.routines import program_routines


def routine_texts(programs: Iterable[Program]) -> dict[str, str]:
    """The text of each routine by file name, in the order of the calls, those of maps and then
    of reductions behind all others.
    """
    given = list(programs)
    plain = (r for program in given for r in program_routines(program))
    maps = (r for program in given for r in map_routines(program))
    reductions = (r for program in given for r in reduce_routines(program))
    texts = {f"{r.name}.S": r.text() for r in plain} | {f"{r.name}.S": r.text() for r in maps}
    return texts | {f"{r.name}.S": reduce_text(r) for r in reductions}
