"""Sunway SW26010: 64 cores with scratchpads, DMA and register communication; emits athread C."""

from tilewright.targets.sw26010.target import TARGET

__all__ = ["TARGET"]
