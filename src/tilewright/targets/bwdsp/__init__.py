"""BWDSP: a grid of VLIW signal processors that divide the layers of a network."""

from tilewright.machine.family import Family

FAMILY = Family("bwdsp", __name__)
