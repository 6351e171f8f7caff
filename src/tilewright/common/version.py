"""The version of tilewright: part of the key of every stored result."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """The installed version of tilewright; "uninstalled" if run from plain sources."""
    try:
        return version("tilewright")
    except PackageNotFoundError:
        return "uninstalled"
