"""Modules imported on first use, so that heavy ones load only if needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """A proxy that imports its module on the first access to an attribute."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)
