"""The tile loops that the paper compares, as basic statements, and their time on a machine.

Figs. 7 and 8 are bars without numbers: loads of 3 and 8 cycles, a product of 6 and an addition of 2
have their proportions, those of a layer that waits for its weights. Numbers that no source states
are halved and doubled under one loop.

A tile is a load of inputs, a load of weights, a product and an addition (Code #1 and Code #2 of
Fig. 7). `naive` loads a tile and then computes it; `prefetched` first loads the next one; `halved`
computes a tile in two halves, each beside a load, as the paper's hand-optimised code does (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.asm import assemble, link
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.machine.model import describe
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.simulate.window.launch import window_executor
from tilewright.simulate.window.run import WindowRun

TITLES = {
    "figure8": "overlaps of the naive and the prefetched loop",
    "figure9": "one load of a segment against several",
    "sensitivity": "sensitivity to the parameters that no source states",
}
TABLE = "cambricon"
PAPER_MACHINE, ISA_MACHINE = "dla-al", "cambricon-acc"
ORDERS = ("naive", "prefetched", "halved")


@dataclass(frozen=True)
class Tiles:
    """`count` tiles; `inputs` and `outputs` are the elements per segment."""

    count: int
    inputs: int
    outputs: int

    @property
    def weights(self) -> int:
        """Elements of a tile's weights."""
        return self.inputs * self.outputs


def source(tiles: Tiles, order: str) -> str:
    """The statements of a loop, unrolled; successive tiles alternate between buffers."""
    half, inputs, weights = tiles.outputs // 2, tiles.inputs, tiles.weights
    sums = 4 * inputs
    partial = (sums + tiles.outputs, sums + 2 * tiles.outputs)
    constants = {
        1: 0, 2: inputs,  # where inputs lie; the second is also how many there are
        3: 0, 9: weights, 11: half * inputs, 12: weights + half * inputs,  # weights, second halves
        4: weights, 6: tiles.outputs, 10: half,  # sizes
        5: sums, 7: partial[0], 8: partial[1], 13: partial[0] + half, 14: partial[1] + half,
    }  # fmt: skip
    moves = [f"smove ${register}, #{value}" for register, value in constants.items()]
    return "\n".join([*moves, *_statements(tiles.count, order)])


def _statements(count: int, order: str) -> Iterator[str]:
    if order == "naive":
        for tile in range(count):
            yield from _loads(tile)
            yield from _compute(tile)
        return
    yield from _loads(0)
    for tile in range(count):
        loads = _loads(tile + 1) if tile + 1 < count else ["", ""]
        if order == "prefetched":
            yield from [*loads, *_compute(tile)]
        else:
            first, second = _halves(tile)
            yield from [loads[0], first, loads[1], second, _addition(tile)]


def _loads(tile: int) -> list[str]:
    inputs, weights = ("$1", "$2")[tile % 2], ("$3", "$9")[tile % 2]
    return [f"vload {inputs}, $2, #0", f"mload {weights}, $4, #65536"]


def _compute(tile: int) -> list[str]:
    inputs, weights = ("$1", "$2")[tile % 2], ("$3", "$9")[tile % 2]
    return [f"mmv {_partial(tile)}, $6, {weights}, {inputs}, $2", _addition(tile)]


def _halves(tile: int) -> tuple[str, str]:
    inputs, weights = ("$1", "$2")[tile % 2], ("$3", "$9")[tile % 2]
    second, behind = ("$11", "$12")[tile % 2], ("$13", "$14")[tile % 2]
    return (
        f"mmv {_partial(tile)}, $10, {weights}, {inputs}, $2",
        f"mmv {behind}, $10, {second}, {inputs}, $2",
    )


def _addition(tile: int) -> str:
    return f"vav $5, $6, $5, {_partial(tile)}"


def _partial(tile: int) -> str:
    return ("$7", "$8")[tile % 2]


def timed_loop(
    tiles: Tiles, order: str, machine: str, settings: Mapping[str, float] | None = None
) -> WindowRun:
    """A loop timed on a machine with some numbers changed."""
    return timed(source(tiles, order), load_machine(machine, settings or {}))


def timed(text: str, machine: Machine) -> WindowRun:
    """Basic statements timed on a machine."""
    table = load_table(TABLE)
    image = link([assemble(text, table)], table)
    instructions = [placed.instruction for placed in image.instructions]
    return window_executor(instructions, table, machine, values=False).run()


def cycles(run: WindowRun) -> int:
    """Cycles from the first operation on, without the moves that prepare registers."""
    return run.cycles - run.events[0].issue


def overlaps(run: WindowRun) -> str:
    """The pairs of units that are active at the same time, as text."""
    units = {
        " and ".join(sorted((run.events[i].unit, run.events[j].unit))) for i, j in run.overlaps()
    }
    return ", ".join(sorted(units)).lower() or "none"


TIMES = {
    "engines.io.latency_cycles": 0,
    "engines.io.get.bytes_per_cycle": 11,
    "engines.io.get_matrix.bytes_per_cycle": 64,
    "units.matrix_start": 5,
    "units.vector_start": 1,
}
_FEW = Tiles(count=3, inputs=16, outputs=16)
_MANY = Tiles(24, inputs=128, outputs=128)
_NOT_TIMED = ("memory.", "units.fraction_bits")


def figure8(lab: Lab) -> Findings:
    """Cycles of both loops on the paper's machine and on the ISA paper's."""
    rows = []
    for machine in (PAPER_MACHINE, ISA_MACHINE):
        for order in ("naive", "prefetched"):
            found = timed_loop(_FEW, order, machine, TIMES)
            rows.append(
                compare(
                    f"{order} on {machine}", None, float(cycles(found)), "simulated",
                    unit="cycles", note=f"together: {overlaps(found)}",
                )
            )  # fmt: skip
    naive, prefetched = (row.ours or 0.0 for row in rows[:2])
    return Findings(
        rows=tuple(rows),
        summary={"naive over prefetched": round(naive / prefetched, 3)},
        notes=(
            "the text: in the naive loop VADD runs beside VLOAD alone; in the prefetched one VMM"
            " runs beside loads, too",
            f"on {ISA_MACHINE} the memory queue of 32 entries reaches the loads of the next tile",
        ),
    )


def sensitivity(lab: Lab) -> Findings:
    """The prefetched loop with each timing parameter halved and doubled."""
    machine = load_machine(PAPER_MACHINE)
    base = cycles(timed_loop(_MANY, "prefetched", PAPER_MACHINE))
    rows: list[Row] = [compare("as described", None, float(base), "simulated", unit="cycles")]
    for key, value, source in describe(machine):
        if not source.startswith("parameter: ") or key.startswith(_NOT_TIMED):
            continue
        assert not isinstance(value, str)
        for factor in (0.5, 2.0):
            changed = value * factor if isinstance(value, float) else int(value * factor)
            found = cycles(timed_loop(_MANY, "prefetched", PAPER_MACHINE, {key: changed}))
            note = f"{100 * (found / base - 1):+.1f} %"
            name = f"{key} = {changed:g}"
            rows.append(compare(name, None, float(found), "simulated", unit="cycles", note=note))
    return Findings(
        rows=tuple(rows),
        notes=(f"{_MANY.count} tiles of 128 inputs and 128 outputs on {PAPER_MACHINE}",),
    )


# Fig. 9: a segment of feature maps as one load, against one load per pixel.

_IMAGES = ((7, 512), (14, 512), (28, 256), (56, 128))
_PARTS = 4
_QUICK = 2


def run(lab: Lab) -> Findings:
    """Cycles to load a quarter of the maps of some images."""
    rows: list[Row] = []
    for side, maps in lab.some(list(_IMAGES), _QUICK):
        part, pixels = maps // _PARTS, side * side
        one, several = _cycles_of_loads(1, pixels * part), _cycles_of_loads(pixels, part)
        name = f"{part} of {maps} maps of {side}x{side}"
        rows += [
            compare(f"{name}, 1 load", None, float(one), "simulated", unit="cycles"),
            compare(
                f"{name}, {pixels} loads", None, float(several), "simulated", unit="cycles",
                note=f"{several / one:.1f} times as long",
            ),
        ]  # fmt: skip
    return Findings(
        rows=tuple(rows),
        notes=("the paper shows the order and no numbers; the latency of a load is a parameter",),
    )


def _cycles_of_loads(loads: int, size: int) -> int:
    """Cycles of `loads` consecutive loads of `size` elements each, on the paper's machine."""
    lines = [f"smove $1, #{size}", "smove $2, #0"]
    lines += [f"vload $2, $1, #{size * k}" for k in range(loads)]
    # sized for the largest segment
    machine = load_machine(PAPER_MACHINE, {"memory.vector.capacity_bytes": 1 << 20})
    return timed("\n".join(lines), machine).cycles
