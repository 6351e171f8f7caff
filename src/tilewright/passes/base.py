"""The interface of a pass: a frozen value that turns a program into an equivalent one.

A pass carries all that it needs of a machine or a schedule in its fields, so equal passes return
equal programs, and running them needs no further context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from tilewright.ir.nodes import Program

Observer = Callable[[str, Program], None]
"""Called with a pass's name and the program after it, for printing, verifying or timing."""


class Pass(Protocol):
    """One step from program to program; observers receive its `name`."""

    name: ClassVar[str]

    def apply(self, program: Program) -> Program:
        """The new program. Raises an error where a limit of the machine is exceeded."""


def nothing(_: str, __: Program) -> None:
    """An observer that does nothing."""


def run(passes: Sequence[Pass], program: Program, observer: Observer = nothing) -> Program:
    """The program after all passes, in order."""
    for each in passes:
        program = each.apply(program)
        observer(each.name, program)
    return program
