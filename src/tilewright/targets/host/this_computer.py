"""What `host` means: the description that fits the computer at hand.

In: the name of a machine, as users give it. Out: the machine. `host` is the user's calibration
where there is one, else the shipped description with the vectors that the processor has. Other
names, and `load_machine`, know nothing of the computer.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.machine import Machine, load_machine
from tilewright.machine.model import Leaf
from tilewright.targets.host.calibration_file import calibration_path
from tilewright.targets.host.native import native_instruction_sets

THIS_COMPUTER = "host"
_SHIPPED = {"avx512": "host", "avx2": "host_avx2", "portable": "host_portable"}


def machine_named(name: str, overrides: Mapping[str, Leaf] | None = None) -> Machine:
    """The machine of that name or file; errors as those of `load_machine`."""
    return load_machine(description_of_host() if name == THIS_COMPUTER else name, overrides)


def description_of_host() -> str:
    """The calibration's path, or the name of a shipped machine."""
    path = calibration_path()
    return str(path) if path.is_file() else _SHIPPED[native_instruction_sets()[0].name]
