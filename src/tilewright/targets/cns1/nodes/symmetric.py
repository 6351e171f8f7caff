"""The time of nodes that all run one text, from one of them and the messages of all.

In: the programs of all nodes. Out: the cycles of the run, and when the full node begins each layer.
One node, the full one, runs its whole program; the others only wait as long as it works between two
messages, and exchange their own. The waits are repeatedly measured on the full node until its
messages leave in the same cycles as those of a node that only waits; nothing is assumed about the
network. Values are not computed: on zeros, all nodes take the same cycles except for their
messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import SimulationError
from tilewright.common.limits import MOST_CORE_CYCLES
from tilewright.isa import InstructionTable
from tilewright.isa.table import LocalMemory
from tilewright.machine.parts import Fabric
from tilewright.simulate.instruction_level import raise_if_stopped
from tilewright.simulate.launch import InitialCore, SimulatedMesh, launch
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import Arrays
from tilewright.simulate.units.mesh import run_in_order
from tilewright.targets.cns1.node import assembled
from tilewright.targets.cns1.nodes.roles import Exchange
from tilewright.targets.cns1.nodes.run import cycles_of_labels

Int64 = NDArray[np.int64]
_ZERO, _REACH = 40, 32
"""The register that holds zero in a replay, and the number of registers on each side, which hold
-1, -2, ... and 1, 2, ...: hops and lengths are read from them.
"""
_PATTERN = "send($5, $6, $v1, 0)\n$v1 = receive(0)\nvlr = $5\nnop\n"
_SEND, _RECEIVE, _LENGTH, _WAIT = range(4)
_VECTOR, _FIRST_GUESS, _MOST_ROUNDS = 32, 32, 8
_LEAST_MAIN = 1 << 23
_WAITING = (layout.AWAIT, layout.INTERFACE)
_MOST_TRACED = 1 << 24


@dataclass(frozen=True)
class NodeTiming:
    """Cycles of a run of all nodes. For the full node: the stalls by cause, the number of
    instructions, the first cycle of each label of its text, and the cycles `spent` on each label
    from its first layer until its outputs.
    """

    cycles: int
    stalls: Mapping[str, int]
    instructions: int
    begins: Mapping[str, int]
    spent: Mapping[str, int]
    waits: Sequence[tuple[int, int]]
    """The first cycle and the number of cycles of each wait for a message or an interface."""

    def waited(self, first: int, last: int) -> int:
        """Cycles of these waits that begin from cycle `first` up to `last`, excluded."""
        return sum(cycles for start, cycles in self.waits if first <= start < last)


@dataclass(frozen=True)
class Replay:
    """Only the exchanges, with the cycles before each and after the last one, as a program of any
    node; `sends` are the rows of its messages.
    """

    program: AssembledProgram
    sends: Int64

    def of(self, hops: Int64, kinds: Int64) -> AssembledProgram:
        """The program of a node whose messages have these hops, [message, (across, along)]."""
        code = self.program.code.copy()
        across, along = (_ZERO + hops).T
        code["c"][self.sends], code["b"][self.sends], code["value"][self.sends] = (
            across, along, kinds,
        )  # fmt: skip
        return replace(self.program, code=code)


def replay_of(pattern: AssembledProgram, own: Sequence[Exchange], waits: Int64) -> Replay:
    """The replay of a node's exchanges."""
    kinds, words, sends = np.array([(o.kind, o.words, o.hops is not None) for o in own]).T
    rows = np.array([_WAIT, *np.where(sends, _SEND, _RECEIVE), _WAIT])
    code = pattern.code[rows]
    code["value"][1:-1] = kinds
    code["occupancy"][:-1] = waits
    (places,) = np.nonzero(sends)
    changed = places[words[places] != np.concatenate([[_VECTOR], words[places][:-1]])]
    lengths = pattern.code[[_LENGTH] * len(changed)]
    lengths["a"] = _ZERO + words[changed]
    code["occupancy"][changed] -= lengths["occupancy"]
    code = np.insert(code, changed + 1, lengths)
    every = np.insert(rows, changed + 1, _LENGTH)
    instructions = tuple(pattern.instructions[row] for row in every)
    program = replace(pattern, code=code, instructions=instructions)
    return Replay(program, np.nonzero(every == _SEND)[0])


def pattern_of(table: InstructionTable) -> AssembledProgram:
    """A program of a replay's instructions, all of one unit and with results that nothing waits
    for.
    """
    found = assembled(_PATTERN, table)
    code = found.code.copy()
    code["units"] = code["units"][_RECEIVE]
    code["a"], code["d"] = table.register_count, table.register_count + 1
    code["waits"] = table.register_count
    return replace(found, code=code, labels={})


@dataclass(frozen=True)
class Alike:
    """Nodes of one text. For the full node, `full`: its text, its exchanges, and the first words of
    its main memory. For the others by number: the hops and kinds of their messages if they are
    `alike`, or their own programs.
    """

    table: InstructionTable
    fabric: Fabric
    full: int
    text: str
    words: Sequence[int]
    exchanges: Sequence[Exchange]
    alike: Mapping[int, tuple[Int64, Int64]]
    others: Mapping[int, AssembledProgram]

    def timing(self) -> NodeTiming:
        """The run whose waits equal those of the full node.

        Raises SimulationError if they do not settle, and the errors of `simulate_mesh`.
        """
        program, pattern = assembled(self.text, self.table), pattern_of(self.table)
        waits = np.full(len(self.exchanges) + 1, _FIRST_GUESS)
        for _ in range(_MOST_ROUNDS):
            state, bases = self._run(program, pattern, waits)
            found = _TracedRun(state, self.full, program, bases[self.full])
            if np.array_equal(found.waits(), waits):
                return found.timing()
            waits = found.waits()
        raise SimulationError(
            f"the time of node {self.full} between its messages did not settle in {_MOST_ROUNDS} "
            "rounds",
            fix="simulate all nodes with values",
        )

    def _run(
        self, program: AssembledProgram, pattern: AssembledProgram, waits: Int64
    ) -> tuple[Arrays, list[int]]:
        """One run of all nodes, in which the others have the given waits."""
        replay = replay_of(pattern, self.exchanges, waits)
        replays = {number: replay.of(*own) for number, own in self.alike.items()}
        own = {**replays, **self.others, self.full: program}
        programs = [own[number] for number in range(len(own))]
        cores = [
            InitialCore(one, 0, {}, number == self.full) for number, one in enumerate(programs)
        ]
        mesh = SimulatedMesh(self.fabric.rows, self.fabric.columns, fabric=self.fabric)
        state, bases = launch(cores, mesh, None, MOST_CORE_CYCLES, _MOST_TRACED)
        values = np.arange(-_REACH, _REACH + 1)
        own_numbers = [*replays]
        first, last = _ZERO - _REACH, _ZERO + _REACH + 1
        state.cores["registers_integer"][own_numbers, first:last, 0] = values
        state.cores["cached"][own_numbers] = False  # waits include the misses of the full node
        main = state.cores[self.full]["memory"].view("<i4")
        start = self.table.memory_origins["main"] // main.itemsize
        main[start : start + len(self.words)] = self.words
        run_in_order(state)
        raise_if_stopped(state, programs, bases)
        return state, bases


@dataclass(frozen=True)
class _TracedRun:
    """The traced run of the full node."""

    state: Arrays
    core: int
    program: AssembledProgram
    base: int

    def waits(self) -> Int64:
        """Cycles before each exchange and after the last, without the waits for the exchange
        itself.
        """
        issued = self._issued()
        flags = self.program.code["flags"][issued["instruction"] - self.base]
        times = issued["cycle"][flags & (layout.SENDS | layout.AWAITS) != 0]
        ends = {start + cycles: cycles for start, cycles in self._waited()}
        waited = np.array([ends.get(time, 0) for time in times.tolist()])
        finish = int(self.state.cores["finish"][self.core]) - 1
        found: Int64 = np.append(times - waited, finish) - np.insert(times, 0, 0)
        return found

    def timing(self) -> NodeTiming:
        """The figures of the run."""
        issued, record = self._issued(), self.state.cores[self.core]
        numbers, first = np.unique(issued["instruction"] - self.base, return_index=True)
        cycles = dict(zip(numbers.tolist(), issued["cycle"][first].tolist(), strict=True))
        begins = {n: cycles[at] for n, at in self.program.labels.items() if at in cycles}
        stalls = {n: int(c) for n, c in zip(layout.CAUSES, record["stalls"], strict=True) if c}
        last = int(self.state.cores["finish"].max())
        spent = self._spent(begins)
        return NodeTiming(last, stalls, int(record["issued"]), begins, spent, self._waited())

    def _spent(self, begins: Mapping[str, int]) -> dict[str, int]:
        """Cycles on each label from the first layer until the outputs."""
        issued = self._issued()
        first = min(cycle for name, cycle in begins.items() if name.startswith("layer_"))
        inside = (issued["cycle"] >= first) & (issued["cycle"] <= begins["outputs"])
        own = issued[inside]
        numbers = own["instruction"] - self.base
        return cycles_of_labels(own["cycle"] - first - 1, numbers, self.program.labels)

    def _issued(self) -> NDArray[Any]:
        return self.state.trace[: self.state.machine[0]["trace_count"]]

    def _waited(self) -> list[tuple[int, int]]:
        spans = self.state.spans[: self.state.machine[0]["span_count"]]
        kept = spans[np.isin(spans["cause"], _WAITING)]
        return list(zip(kept["cycle"].tolist(), kept["cycles"].tolist(), strict=True))


def trimmed(table: InstructionTable, used_bytes: int) -> InstructionTable:
    """The table of nodes whose main memory ends after its used part, so that many fit a host. Sizes
    are powers of two, since the simulator is compiled for each.
    """
    size = max(_LEAST_MAIN, 1 << (used_bytes - 1).bit_length())
    kept = [m if m.name != "main" else LocalMemory("main", min(m.capacity_bytes, size))
            for m in table.memories]  # fmt: skip
    return msgspec.structs.replace(table, memories=tuple(kept))
