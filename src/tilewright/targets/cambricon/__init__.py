"""Cambricon accelerators: two scratchpads, 16-bit fixed point, the language DLA-AL."""

from tilewright.machine.family import Family

FAMILY = Family("cambricon", __name__)
