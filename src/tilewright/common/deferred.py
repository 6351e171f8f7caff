"""Modules that are imported when something of them is first asked for: what is heavy waits."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """Stands for a module until a name of it is looked up."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)
