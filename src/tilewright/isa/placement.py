"""Inputs and outputs of the search for a modulo schedule: effort, verdict, issue times.

A module apart from the solver, which is slow to import and rarely needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FEW_STAGES = (2, 3)
"""Numbers of stages that are tried first; most pipelines need no more."""


class Verdict(Enum):
    """Outcome of a search."""

    FOUND = "found"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Effort:
    """Limit of a whole search. `deterministic_units` is CP-SAT's machine-independent measure of
    work.

    One unit takes one to two seconds. With one worker, the result depends on the input alone, not
    on the speed of the computer.
    """

    deterministic_units: float = 20.0
    workers: int = 1


@dataclass(frozen=True)
class Placement:
    """Issue time of each operation (cycles, kernel coordinates) if `verdict` is FOUND.

    `span_cycles` is the number of cycles from the first to the last issue of an iteration, without
    control operations; `span_bound_cycles` is the solver's proven lower bound on it.
    """

    verdict: Verdict
    times: tuple[int, ...] = ()
    span_cycles: int = 0
    span_bound_cycles: int = 0
