"""The files of two small kernels as texts, without the micro-kernels that have tests of their own.

`pytest tests/targets --update-golden` writes them anew.
"""

from __future__ import annotations

from support.host_programs import COPIES
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.host.code import CODE

CONSTANTS = """\
def constants():
    y: tensor("f64", "output", cols=10, channels=40)
    x: tensor("f64", "input", cols=12, depth=8)
    w: tensor("f64", "constant", taps=3, depth=8, channels=40)
    for tap in range(3):
        if tap == 0:
            fill(y[at(0, 10), at(0, 40)]("ab"), value=0.0)
        gemm(
            y[at(0, 10), at(0, 40)]("nm"),
            w[tap, at(0, 8), at(0, 40)](".km"),
            x[at(tap, 10), at(0, 8)]("nk"),
            vector="m",
            dtype="f64",
        )
"""


def entry(text: str, name: str) -> str:
    """The last functions of a C file: those that pack, and the entry point."""
    first = text.find(f"void {name}_pack_")
    return text[first if first >= 0 else text.index(f"void {name}(") :]


def test_copies_are_packed_on_the_way(golden):
    artifact = CODE.emit(parse(COPIES), load_machine("host"))
    golden("copies.h", artifact.files["copies.h"])
    golden("copies_entry.c", entry(artifact.files["copies.c"], "copies"))
    golden("Makefile", artifact.files["Makefile"])
    assert [t.panels for t in artifact.tensors] == [None, None, None]


def test_constants_are_packed_once(golden):
    artifact = CODE.emit(parse(CONSTANTS), load_machine("host"))
    golden("constants.h", artifact.files["constants.h"])
    golden("constants_entry.c", entry(artifact.files["constants.c"], "constants"))
