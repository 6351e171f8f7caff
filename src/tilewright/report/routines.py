"""The calls of routines of generated code as rows of a table.

In: calls with what they are priced at and what their code takes. Out: rows of words, which fit a
line of 100 columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.artifact import RoutineCycles

_NAME_COLUMNS, _CALL_COLUMNS, _STAGE_COLUMNS = 34, 34, 24
_SHOWN_CALLS = 6
"""Calls shown of one routine; the others are counted."""


def routine_rows(routines: Sequence[RoutineCycles]) -> list[tuple[str, ...]]:
    """A table of calls: those of each routine that take most in all, and how many others it has."""
    counted = any(r.calls is not None for r in routines)
    rows: list[tuple[str, ...]] = [
        ("routine", "call", *(["calls"] * counted), "priced", "simulated")
    ]
    for name in dict.fromkeys(r.name for r in routines):
        own = [r for r in routines if r.name == name]
        most = sorted(own, key=lambda r: -(r.calls or 1) * r.priced_cycles)[:_SHOWN_CALLS]
        for r in (r for r in own if r in most):
            simulated = "" if r.simulated_cycles is None else str(r.simulated_cycles)
            calls = [str(r.calls)] if counted else []
            words = _shortened(name, _NAME_COLUMNS), _shortened(r.call, _CALL_COLUMNS)
            rows.append((*words, *calls, str(r.priced_cycles), simulated))
        if len(own) > len(most):
            others = sum(r.calls or 1 for r in own if r not in most)
            noun = f"{len(own) - len(most)} other shapes"
            rows.append(("", noun, *([str(others)] * counted), "", ""))
    return rows


LEGEND = (
    "priced: by the model, fitted constants included",
    "simulated: the routine alone, instruction by instruction, its code in the cache",
)
STAGE_HEAD = ("stage", "routine", "shapes", "calls", "priced", "simulated")


def stage_rows(stage: str, routines: Sequence[RoutineCycles]) -> list[tuple[str, ...]]:
    """A row for each routine of a stage: distinct calls, calls, and the cycles of all of them."""
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(r.name for r in routines):
        own = [(r, r.calls or 1) for r in routines if r.name == name]
        priced = sum(calls * r.priced_cycles for r, calls in own)
        exact = [calls * r.simulated_cycles for r, calls in own if r.simulated_cycles is not None]
        simulated = str(sum(exact)) if len(exact) == len(own) else ""
        numbers = map(str, (len(own), sum(calls for _, calls in own), priced))
        words = stage if not rows else "", _shortened(name, _NAME_COLUMNS)
        rows.append((_shortened(words[0], _STAGE_COLUMNS), words[1], *numbers, simulated))
    return rows


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."
