"""Table 4.6: run time of a global sum, by machine and step."""

from __future__ import annotations

from msgspec import structs

from tilewright.machine import load_machine
from tilewright.machine.messages import exchange_cycles, transfer_cycles
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.sections import Messages
from tilewright.targets.cns1.timing.messages import hidden_sum, output_sum

TITLE = "the terms of a global sum's run time"


def run(lab: Lab) -> Result:
    """The factor of the message length, the constant, and the factor of the rounds."""
    ours: dict[str, float] = {}
    for nodes in (128, 1024):
        machine = load_machine(f"cns1-{nodes}")
        fabric = structs.replace(machine.fabrics["torrents"], gap_cycles=0.0)
        extra = machine.section(Messages).sum_cycles
        for step, sharing in ((2, hidden_sum(machine)), (3, output_sum(machine))):
            name = f"{nodes} nodes, step {step}"
            empty, one = (
                sum(exchange_cycles(fabric, d, length) for d in sharing.distances)
                for length in (-fabric.header_bytes, 1 - fabric.header_bytes)
            )
            fixed = transfer_cycles(fabric, 0, -fabric.header_bytes)
            ours[f"{name}: p"] = 1 << sharing.rounds
            ours[f"{name}: a"] = one - empty
            ours[f"{name}: b"] = empty - fixed * sharing.rounds
            ours[f"{name}: c"] = fixed + extra
    notes = (
        "section 4.1 says that two columns share results on 128 nodes, 4.3.2 that four do; this"
        " table, and the formulas, have four",
    )
    return reproduced(lab, "table4_6", TITLE, ours, kind="exact", notes=notes)
