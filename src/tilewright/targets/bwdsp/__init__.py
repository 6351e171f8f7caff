"""BWDSP: a grid of VLIW signal processors that divide the layers of a network among them."""

from tilewright.machine.family import Family

FAMILY = Family("bwdsp", __name__)
