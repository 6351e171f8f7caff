"""The interface of a pass: a frozen value that turns a program into one that computes the same.

What a pass needs to know of a machine or a schedule is in its fields, so that equal passes give
equal programs and whoever runs them needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from tilewright.ir.nodes import Program

Observer = Callable[[str, Program], None]
"""Sees the program after each pass: printing, verifying and timing hang on it."""


class Pass(Protocol):
    """One step from program to program; `name` is what observers are told."""

    name: ClassVar[str]

    def apply(self, program: Program) -> Program:
        """The new program; raises where a limit of the machine is exceeded."""


def nothing(_: str, __: Program) -> None:
    """An observer that looks away."""


def run(passes: Sequence[Pass], program: Program, observer: Observer = nothing) -> Program:
    """The program after all passes, in order."""
    for each in passes:
        program = each.apply(program)
        observer(each.name, program)
    return program
