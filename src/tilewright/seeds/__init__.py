"""Ways to compute an operator as tensorised loop nests, each with its schedule space (swATOP 3,
4.2).

Importing the package imports every module below it, and each registers its seeds. Modules that
other packages declare under the entry-point group `tilewright.seeds` load at the first look-up.
"""

from importlib import import_module
from pkgutil import walk_packages

from tilewright.seeds.space import Seed, Space, seed, seeds_for

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["Seed", "Space", "seed", "seeds_for"]
