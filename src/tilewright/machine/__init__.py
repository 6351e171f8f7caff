"""Machine descriptions: TOML files in, frozen `Machine` values out, each number with its source."""

from tilewright.machine.family import Capability, Family
from tilewright.machine.load import DEFAULT_MACHINE, find_machine, list_machines, load_machine
from tilewright.machine.model import Machine, describe

__all__ = [
    "DEFAULT_MACHINE",
    "Capability",
    "Family",
    "Machine",
    "describe",
    "find_machine",
    "list_machines",
    "load_machine",
]
