"""Sections of a Duo's description beyond every machine's: its product, its port."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from tilewright.machine import Section, Sections, VectorPrimitive


class Product(Section, frozen=True, forbid_unknown_fields=True):
    """A product takes `start_cycles`, and a cycle for each vector of multiply-adds."""

    key: ClassVar[str] = "primitives.product"

    start_cycles: Annotated[float, Meta(ge=0)]


class Port(Section, frozen=True, forbid_unknown_fields=True):
    """The port to main memory, which both engines share: it takes `turn_cycles` to change over to
    another memory or the other direction.
    """

    key: ClassVar[str] = "port"

    turn_cycles: Annotated[int, Meta(ge=0)]


SECTIONS = Sections(
    required=(Product, Port, VectorPrimitive),
    needs=("memory.neuron", "memory.synapse", "memory.main"),
)
