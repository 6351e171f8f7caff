"""Numbers of effects, such as `codes.INT_ADD`: compiled functions read a module's attributes as
constants, but not the members of an enumeration of strings.
"""

from __future__ import annotations

from tilewright.isa.effects import Effect

OF = {effect: number for number, effect in enumerate(Effect)}


def __getattr__(name: str) -> int:
    if name in Effect.__members__:
        return OF[Effect[name]]
    raise AttributeError(f"there is no effect {name}")
