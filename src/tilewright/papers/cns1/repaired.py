"""The report's listings (appendix A), repaired where the printed text cannot be meant, and run.

In: a listing by name. Out: its text in the dialect of the instruction table `torrent`, or its run
on a simulated node. Every repair has a number in the text and its reason here. Registers and the
stack are as the head of each listing says; the stack lies in the data cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Machine, load_machine
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.node import Bytes, assembled, node_table, run_node

STACK, CACHE_BYTES = 4000, 4096
IN_REGISTERS = ("$4", "$5", "$6", "$7")

REPAIRS = {
    1: "print: lost or doubled $ signs: v1, vlr = 10, m[18], sp",
    2: "what the report keeps in the data cache is addressed as d[...]",
    3: "four packed inputs are loaded as a word: .b is printed for .w",
    4: "$v5 and $v7 sum columns 0 to 31, $v6 and $v8 columns 32 to 63, as their comments say: the"
    " printed loop adds both halves of a row into one of them, and the next row into the other",
    5: "print: = for ==, a label without its colon, a second semicolon",
    6: "the copies of $v5 and $v7 stand behind the last sum into them, which repair 4 moves",
    7: "results have one byte: .w is printed for .b, and 128 for the stride of 32",
    8: "the scale that is loaded and never used sets the shift of addap0",
    9: "T_preload counts an access for each of the four chips of a port, the listing has one",
    10: "gsum is done by message handlers: the sums of other nodes are not part of one node",
    11: "the listing ends in the middle of the loop: the rest is that of Table 6.1",
    12: "print: v1r for vlr",
    13: "a scalar register multiplies a vector: the rule of A.1 asks for one of the vector unit",
    14: "the column pointer is an offset: its end is the bytes of a row, not the address that is"
    " printed",
    15: "the fourth byte is shifted out of the word, not out of the third byte",
    16: "every four rows begin with the first errors again: the printed pointer stays where the"
    " rows before ended",
    17: "the delay slot of the return is not printed",
    18: "the end of the intermediate results is computed before their place is known",
    19: "the hidden vector is read 32 elements on in each round: its pointer is never moved",
    20: "results have one byte, and their stride is in a register: the width is not printed",
}


def repaired_listing(name: str) -> str:
    """The repaired text: "recall", "forward", "errors", "backward" or "update"."""
    file = resources.files("tilewright.papers.cns1") / "listings" / f"{name}.s"
    return file.read_text(encoding="utf-8")


def run_listing(
    name: str,
    main: Bytes,
    cached: Sequence[NDArray[Any]],
    stack: Sequence[int],
    arguments: Sequence[int],
    machine: Machine | None = None,
    *,
    trace: bool = False,
) -> CoreRun:
    """Run a listing with consecutive `cached` arrays and `arguments` in registers."""
    image = np.zeros(CACHE_BYTES, np.uint8)
    for place, array in ((0, np.concatenate([np.zeros(0, np.uint8), *map(in_bytes, cached)])),
                         (STACK, in_bytes(np.array(stack, "<i4")))):  # fmt: skip
        image[place : place + len(array)] = array
    table = node_table(machine or load_machine("cns1-128"))
    registers = dict(zip(IN_REGISTERS, arguments, strict=True))
    program = assembled(repaired_listing(name), table, f"{name}.s")
    return run_node(
        program, main=main, cache=image, registers={**registers, "$29": STACK}, trace=trace
    )


def in_bytes(array: NDArray[Any]) -> Bytes:
    """The bytes of an array in C order."""
    return np.ascontiguousarray(array).view(np.uint8).ravel()
