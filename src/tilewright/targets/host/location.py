"""Resolve `host` to the description that fits the computer at hand.

In: the name of a machine, as users give it. Out: that of the description. `host` is the user's
calibration where there is one, else the shipped description with the vectors that the processor
has. Other names, and `load_machine`, know nothing of the computer.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.host.calibrating.description import calibration_path
from tilewright.targets.host.native import native_instruction_sets

THIS_COMPUTER = "host"
_SHIPPED = {"avx512": "host", "avx2": "host_avx2", "portable": "host_portable"}


@dataclass(frozen=True)
class HostLocation:
    """Finds the description of the computer at hand."""

    def locate(self, name: str) -> str:
        """For `host` the calibration's path or the shipped machine that fits; other names as
        they are.
        """
        return description_of_host() if name == THIS_COMPUTER else name


def description_of_host() -> str:
    """The calibration's path, or the name of a shipped machine."""
    path = calibration_path()
    return str(path) if path.is_file() else _SHIPPED[native_instruction_sets()[0].name]


LOCATION = HostLocation()
