"""Modules imported on first use, so that heavy ones load only when needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """Stands for a module until a name of it is looked up."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)
