"""Machine descriptions: TOML files in, frozen `Machine` values out, each number with its source."""

from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.machine.family import Capability, Family
from tilewright.machine.load import find_machine, list_machines, load_machine
from tilewright.machine.model import Machine, Section, describe
from tilewright.machine.sections import GemmPrimitive, Sections, VectorPrimitive

__all__ = [
    "DEFAULT_MACHINE",
    "Capability",
    "Family",
    "GemmPrimitive",
    "Machine",
    "Section",
    "Sections",
    "VectorPrimitive",
    "describe",
    "find_machine",
    "list_machines",
    "load_machine",
]
