"""Machine descriptions: TOML files in, frozen `Machine` values out, each number with its source."""

from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.model import Machine, describe

__all__ = ["Machine", "describe", "list_machines", "load_machine"]
