"""The tile loops that the paper compares, as basic statements, and their time on a machine.

A tile is a load of inputs, a load of weights, a product and an addition (Code #1 and Code #2 of
Fig. 7). `naive` loads a tile and then computes it, `prefetched` loads the next one first, and
`halved` computes a tile in two halves so that each load runs beside one, which is what the paper's
hand-optimised code does (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.asm import assemble, link
from tilewright.isa import load_table
from tilewright.machine import load_machine
from tilewright.simulate.window.launch import window_executor
from tilewright.simulate.window.run import WindowRun

TABLE = "cambricon"
PAPER_MACHINE, ISA_MACHINE = "dla-al", "cambricon-acc"
ORDERS = ("naive", "prefetched", "halved")


@dataclass(frozen=True)
class Tiles:
    """`count` tiles; `inputs` and `outputs` are the elements of a segment of each."""

    count: int
    inputs: int
    outputs: int

    @property
    def weights(self) -> int:
        """Elements of the weights of a tile."""
        return self.inputs * self.outputs


def source(tiles: Tiles, order: str) -> str:
    """The statements of a loop, unrolled; every other tile has buffers of its own."""
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
    """A loop timed on a machine with some of its numbers set."""
    table = load_table(TABLE)
    image = link([assemble(source(tiles, order), table)], table)
    instructions = [placed.instruction for placed in image.instructions]
    return window_executor(
        instructions, table, load_machine(machine, settings or {}), values=False
    ).run()


def cycles(run: WindowRun) -> int:
    """From the first operation on: without the moves that prepare registers."""
    return run.cycles - run.events[0].issue


def overlaps(run: WindowRun) -> str:
    """Which units work at the same time for some cycles, as text."""
    units = {
        " and ".join(sorted((run.events[i].unit, run.events[j].unit))) for i, j in run.overlaps()
    }
    return ", ".join(sorted(units)).lower() or "none"
