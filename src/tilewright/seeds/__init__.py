"""Ways to compute an operator as tensorised loop nests, each with the space of its schedules
(swATOP 3, 4.2).

Each module of the package is imported with it and registers its seeds; those that other packages
bring under the entry-point group `tilewright.seeds` are loaded when an operator is looked up.
"""

from importlib import import_module
from pkgutil import iter_modules

from tilewright.seeds.space import Seed, Space, seed, seeds_for

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Seed", "Space", "seed", "seeds_for"]
