"""Functions that only compiled code calls, run by Python."""

from __future__ import annotations

import sys
from functools import cache
from operator import getitem
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, get_type_hints

from numba.core.registry import CPUDispatcher

from tilewright.common.compiled import at
from tilewright.cost.pipeline_types import PipelineState


@cache
def uncompiled(module: ModuleType) -> Any:
    """The names of a module; its compiled functions, and those of others that they call, run by
    Python on lists of records.
    """
    scope: dict[str, Any] = {}
    for name, value in vars(module).items():
        if isinstance(value, CPUDispatcher):
            home = sys.modules[value.py_func.__module__]
            plain = FunctionType(value.py_func.__code__, scope)
            scope[name] = plain if home is module else vars(uncompiled(home))[name]
        else:
            scope[name] = getitem if value is at else value
    return SimpleNamespace(**scope)


FIELDS = {name: tuple(get_type_hints(kind)) for name, kind in get_type_hints(PipelineState).items()}


def pipeline_state(**counts: int) -> Any:
    """A state of the composition with so many records of each kind, one if not given, all zero."""
    state = {
        name: [SimpleNamespace(**dict.fromkeys(fields, 0)) for _ in range(counts.get(name, 1))]
        for name, fields in FIELDS.items()
    }
    return SimpleNamespace(**{**state, "clock": state["clock"][0]})
