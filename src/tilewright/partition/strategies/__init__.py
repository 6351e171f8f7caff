"""Strategies: ways to divide a layer over cores, one module each.

A module of this package with an object `STRATEGY` is one; nothing is listed. In: a layer and a
number of cores. Out: grids of at most so many cells, those that the strategy stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol

from tilewright.common.errors import PartitionError
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Strategy(Protocol):
    """One way to divide layers."""

    @property
    def name(self) -> str:
        """Its name in tables and plans."""

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """Grids of at most `cores` cells, that of the smallest tiles first; none where the strategy
        does not apply to the layer.
        """


@cache
def strategies() -> dict[str, Strategy]:
    """Every strategy by name."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    known = [module.STRATEGY for module in modules if hasattr(module, "STRATEGY")]
    return {strategy.name: strategy for strategy in known}


def find_strategy(name: str) -> Strategy:
    """The strategy called `name`. Raises PartitionError where there is none."""
    found = strategies().get(name)
    if found is None:
        raise PartitionError(
            f"there is no strategy {name!r}", fix=f"known strategies: {', '.join(strategies())}"
        )
    return found
