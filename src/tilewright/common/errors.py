"""The error hierarchy: each error states the fault, its position, and a fix.

An error is part of the product: `message` names the thing, the number and the limit; `where` is a
file, key or line; `fix` is the smallest change that helps. The command line prints all three and
exits with `exit_code`.
"""

from __future__ import annotations

from typing import Self


class TilewrightError(Exception):
    """Base of every error that tilewright raises on purpose.

    `code` is a short stable word for programs (`--json`), `exit_code` the status of the command
    line.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}; {self.fix}" if self.fix else text

    def at(self, where: str) -> Self:
        """A copy of the error with its place set to `where`."""
        return type(self)(self.message, where=where, fix=self.fix)

    def render(self) -> str:
        """The lines that the command line shows."""
        place = f"{self.where}: " if self.where else ""
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"error: {place}{self.message}{fix}"


class ShapeError(TilewrightError):
    """An operator's extents contradict each other."""

    code = "shape"


class PartitionError(TilewrightError):
    """Work cannot be divided over cores as requested, or a core lacks an element that it reads."""

    code = "partition"


class MachineError(TilewrightError):
    """A machine description that cannot be read or is not a machine."""

    code = "machine"


class GraphError(TilewrightError):
    """A network that cannot be read, or holds an operator that is not supported."""

    code = "graph"


class InternalError(TilewrightError):
    """A fault of tilewright itself, on valid input."""

    code = "internal"


class ScheduleError(TilewrightError):
    """A schedule that is malformed or illegal for its program."""

    code = "schedule"


class ProgramError(TilewrightError):
    """An IR program that breaks the rules of its stage, or cannot be parsed."""

    code = "program"


class CapacityError(TilewrightError):
    """A buffer set that does not fit a memory, or a limit of the hardware that is exceeded."""

    code = "capacity"


class AssemblyError(TilewrightError):
    """Assembly text that cannot be assembled, or an object that cannot be read."""

    code = "assembly"


class SimulationError(TilewrightError):
    """A program that does something illegal at run time: deadlock, race, memory overflow."""

    code = "simulation"


class RecordError(TilewrightError):
    """A tuning-record store that cannot be used."""

    code = "records"


class ToolError(TilewrightError):
    """An external tool (the C compiler, for instance) that is missing or failed."""

    code = "tool"


class BusyError(ToolError):
    """Other work leaves this computer too little time for any measurement."""


class CheckFailed(TilewrightError):
    """A check ran and its result is wrong."""

    code = "check"
    exit_code = 3
