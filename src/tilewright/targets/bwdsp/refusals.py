"""Refusals of one core's programs in the terms of the whole machine.

In: an error that names the two memories of a core. Out: the same that names the buffers of the
machine's description, and what can be set in it.
"""

from __future__ import annotations

import re

from tilewright.common.errors import CapacityError, PartitionError
from tilewright.ir.nodes import memory_words
from tilewright.machine import Machine
from tilewright.machine.check import capacity_setting
from tilewright.targets.bwdsp.core import READ, RESULTS

_WORDS = {READ: "the two buffers that are read", RESULTS: "the buffer of results"}
_SET = re.compile(r"--set memory\.(?P<space>\w+)\.capacity_bytes=(?P<bytes>\d+)")


def of_whole(error: CapacityError, core: Machine, layer: str) -> PartitionError:
    """The error of a program on `core` for a part of a layer as one of the machine."""
    message = error.message
    for name, words in _WORDS.items():
        message = message.replace(memory_words(name), words)
    found = _SET.search(error.fix)
    fix = _fix(found["space"], int(found["bytes"]), core) if found else ""
    return PartitionError(message, where=f"layer {layer}", fix=fix)


def _fix(space: str, needed: int, core: Machine) -> str:
    if space not in _WORDS:
        return capacity_setting(space, needed) or "smaller extents"
    buffers = core.space(READ).banks
    share = buffers - 1 if space == READ else 1
    return capacity_setting("buffers", -(-needed // share) * buffers) or "smaller extents"
