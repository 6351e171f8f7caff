"""Sunway SW26010: 64 cores with scratchpads, DMA and register communication; emits athread C."""

from tilewright.machine.family import Family

FAMILY = Family("sw26010", __name__)
