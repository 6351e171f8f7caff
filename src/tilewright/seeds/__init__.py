"""Ways to compute an operator as tensorised loop nests, each with the space of its schedules
(swATOP 3, 4.2).

Each module below the package is imported with it and registers its seeds; those that other packages
bring under the entry-point group `tilewright.seeds` are loaded when an operator is looked up.
"""

from importlib import import_module
from pkgutil import walk_packages

from tilewright.seeds.space import Seed, Space, seed, seeds_for

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["Seed", "Space", "seed", "seeds_for"]
