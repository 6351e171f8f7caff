"""Chapter 4: messages as programs that all nodes run, beside the text and the formulas.

I/O nodes run the loops of Tables 4.2 and 4.3; exchanges and global sums those of section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from tilewright.machine import load_machine
from tilewright.machine.messages import exchange_cycles as described_cycles
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare
from tilewright.targets.cns1.nodes.hosts import startup_cycles
from tilewright.targets.cns1.nodes.transfers import (
    constant_sum_cycles,
    exchange_cycles,
    transfer_cycles,
)
from tilewright.targets.cns1.timing.messages import (
    block_bytes,
    block_exchange_cycles,
    global_sum_cycles,
    hidden_sum,
    output_sum,
)

TITLE = "messages as programs: start-ups of the I/O, exchanges, global sums"
_TOP_ROW = 32


def run(lab: Lab) -> Result:
    """The numbers of the text, then each exchange and sum beside its formula."""
    machine = load_machine("cns1-128")
    ours: dict[str, float] = {}
    for nodes in (128, 1024):
        found = startup_cycles(machine, machine.mesh.rows, apart=nodes == 128)
        ours |= {f"{nodes} nodes, Hydrant {h}": c for h, c in zip("abcd", found, strict=True)}
    wide = {"mesh.columns": 2 * _TOP_ROW, "fabrics.torrents.columns": 2 * _TOP_ROW}
    ours["top row of Torrents"] = transfer_cycles(load_machine("cns1-128", wide), _TOP_ROW)
    return reproduced(lab, "chapter4", TITLE, ours, kind="simulated", beside=tuple(_beside()))


def _beside() -> Iterator[Row]:
    """Under the formula's conventions, messages without a gap, and under the hardware's."""
    machine = load_machine("cns1-128")
    fabric = machine.fabrics["torrents"]
    without = structs.replace(fabric, gap_cycles=0.0)
    for step, sharing in ((2, hidden_sum(machine)), (3, output_sum(machine))):
        for round_, distance in enumerate(sharing.distances):
            name = f"step {step}, exchange over {distance} in the {sharing.axis(round_)}"
            formula = block_exchange_cycles(machine, distance)
            closed = described_cycles(fabric, distance, block_bytes(machine))
            found = exchange_cycles(machine, sharing, round_, without)
            yield compare(f"{name}, no gaps", formula, found, "simulated", unit="cycles")
            found = exchange_cycles(machine, sharing, round_, fabric)
            said = f"a gap for each of {distance - 1} messages that wait"
            yield compare(f"{name}, gaps", closed, found, "simulated", note=said, unit="cycles")
        found = constant_sum_cycles(machine, sharing, without)
        formula = global_sum_cycles(machine, sharing)
        early = "nodes that have their partner's vector early go on before the others"
        said = early if found < formula else ""
        yield compare(
            f"step {step}, global sum", formula, found, "simulated", note=said, unit="cycles"
        )
