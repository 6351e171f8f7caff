"""Resolve `host` to the description that fits the computer at hand.

In: a machine's name, as a user gives it. Out: the name or path of a description. `host` is the
user's calibration if there is one, else the shipped description that was measured on a processor
like this one, else the shipped description for its vectors with the rates of a short probe. Other
names, and `load_machine`, do not depend on the computer.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.common.errors import ToolError
from tilewright.machine.load import load_machine
from tilewright.machine.model import Machine
from tilewright.targets.host.calibrating.description import calibration_path
from tilewright.targets.host.calibrating.probe import probed_description
from tilewright.targets.host.detect import HostDescription, detect_host
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.sections import Caches, Processor

THIS_COMPUTER = "host"
_SHIPPED = {"avx512": "host", "avx2": "host_avx2", "portable": "host_portable"}
_FOLDER = Path(__file__).parent / "machines"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostLocation:
    """Finds the description of the computer at hand."""

    def locate(self, name: str) -> str:
        """The description that fits this computer for `host`, else `name` itself."""
        return description_of_host() if name == THIS_COMPUTER else name


def description_of_host() -> str:
    """Path of this computer's description, calibrated or probed, or a shipped machine's name."""
    path = calibration_path()
    if path.is_file():
        return str(path)
    host = detect_host()
    return _measured_on(host) or _probed(host, load_machine(_SHIPPED[host.instruction_set.name]))


@cache
def _measured_on(host: HostDescription) -> str:
    """Name of the shipped machine that was measured on a processor like this one, "" if none."""
    for path in sorted(_FOLDER.glob("*.toml")):
        machine = load_machine(path.stem)
        if instruction_set_of(machine) == host.instruction_set and _is_like(host, machine):
            return machine.name
    return ""


def _is_like(host: HostDescription, machine: Machine) -> bool:
    processor = machine.find_section(Processor)
    if processor is None or not (host.family.isdigit() and host.model.isdigit()):
        return False
    told = host.vendor, int(host.family)
    return told == (processor.vendor, processor.family) and processor.has(int(host.model))


def _probed(host: HostDescription, base: Machine) -> str:
    """The path of the probed description, or the name of `base` without a C compiler."""
    try:
        return str(probed_description(host, base))
    except ToolError as error:
        _LOG.warning("%s is taken as %s: %s", host.cpu_name, base.name, error.message)
        return base.name


def warn_of_smaller_caches(machine: Machine) -> None:
    """Warn, once per description, if its code is blocked for larger caches than this processor has,
    and estimate the cost.
    """
    host, caches = detect_host(), machine.find_section(Caches)
    if caches is None or host.assumptions:
        return
    for number, level in enumerate((caches.l1, caches.l2), 1):
        size = host.cache(number).size_bytes
        if level.capacity_bytes > size:
            _warn_once(
                f"{machine.name} describes a level {number} cache of {level.capacity_bytes} bytes, "
                f"this processor has {size}: of what is blocked for it up to "
                f"{level.capacity_bytes - size} bytes come from behind again and again, at most "
                f"{level.fill_bytes_per_cycle:g} a cycle and each for "
                f"{level.exposed_cycles_per_byte:g} cycles of waiting; take --machine host, or "
                "`tilewright calibrate host`"
            )


@cache
def _warn_once(message: str) -> None:
    _LOG.warning("%s", message)


LOCATION = HostLocation()
