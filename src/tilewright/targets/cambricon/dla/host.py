"""The host's program around a launch, stored beside the device's program.

In: the statements of section `.host`. Out: a section of the object with one line of JSON each, so
that one executable holds both programs (Lan et al. 2019, Fig. 6 and section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import msgspec

from tilewright.asm import Object
from tilewright.asm.diagnostics import Fault
from tilewright.asm.suggest import did_you_mean
from tilewright.targets.cambricon.dla.declarations import Data, declared_in, json_records
from tilewright.targets.cambricon.dla.error_codes import DlaError

SECTION = ".host"
Action = Literal["initialise", "upload", "launch", "download"]
ACTIONS: tuple[Action, ...] = get_args(Action)
FORMS: Mapping[Action, str] = {
    "initialise": "@initialise name, #element",
    "upload": "@upload name",
    "launch": "@launch",
    "download": "@download name",
}
"""Syntax of the host's statements."""
_SMALLEST, _LARGEST = -(2**15), 2**15 - 1


class HostStep(msgspec.Struct, frozen=True):
    """One statement: initialise data with one element, upload an array, launch the device's
    program, or download an array.
    """

    action: Action
    name: str = ""
    value: int = 0

    def text(self) -> str:
        """The statement."""
        value = f", #{self.value}" if self.action == "initialise" else ""
        return f"@{self.action} {self.name}{value}".rstrip()


def host_step(word: str, values: Sequence[Data | int], before: Sequence[HostStep]) -> HostStep:
    """A validated statement after others. Raises Fault without a place."""
    action = next((known for known in ACTIONS if known == word), None)
    if action is None:
        fix = did_you_mean(word, ACTIONS) or f"the host has @{', @'.join(ACTIONS)}"
        raise Fault(DlaError.HOST, f"the host's program has no @{word}", fix=fix)
    match values:
        case [] if action == "launch":
            data, element = None, 0
        case [Data() as data] if action in ("upload", "download"):
            element = 0
        case [Data() as data, int(element)] if action == "initialise":
            pass
        case _:
            raise Fault(DlaError.ARGUMENTS, f"@{word} is written {FORMS[action]}")
    _check_order(action, data, before)
    if not _SMALLEST <= element <= _LARGEST:
        raise Fault(DlaError.HOST, f"the element {element} is outside {_SMALLEST} .. {_LARGEST}")
    return HostStep(action, data.name if data else "", element)


def _check_order(action: Action, data: Data | None, before: Sequence[HostStep]) -> None:
    launched = any(step.action == "launch" for step in before)
    name = data.name if data else ""
    if action == "launch" and launched:
        raise Fault(DlaError.HOST, "a second @launch: the host launches once")
    if action in ("initialise", "upload") and launched:
        raise Fault(DlaError.HOST, f"@{action} {name} behind @launch has no effect")
    if action == "download" and not launched:
        raise Fault(DlaError.HOST, f"@download {name} before @launch", fix="write @launch before")
    if action == "download" and data is not None and data.read_only:
        raise Fault(DlaError.HOST, f"@download {name}, which no program writes")


def check_host(steps: Sequence[HostStep]) -> None:
    """Refuse a host program without a launch. Raises Fault."""
    if steps and not any(step.action == "launch" for step in steps):
        raise Fault(DlaError.HOST, "the host program has no @launch", fix="write @launch")


def host_program(image: Object, given: Sequence[str]) -> tuple[HostStep, ...]:
    """The host statements of an image; by default, upload the `given` arrays, launch, and download
    all data that the program may write. Raises AssemblyError.
    """
    stored = json_records(image, SECTION, HostStep)
    if stored:
        return tuple(stored)
    written = [name for name, data in declared_in(image).items() if not data.read_only]
    return (
        *(HostStep("upload", name) for name in given),
        HostStep("launch"),
        *(HostStep("download", name) for name in written),
    )
