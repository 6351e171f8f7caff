"""CNS-1: nodes of a scalar unit and a vector unit behind four RDRAM ports, joined by a mesh."""

from tilewright.machine.family import Family

FAMILY = Family("cns1", __name__)
