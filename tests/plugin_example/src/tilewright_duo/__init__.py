"""Duo: a made-up core with a memory for neurons, one for synapses, and 16-bit integers."""

from tilewright.machine import Family

FAMILY = Family("duo", __name__)
