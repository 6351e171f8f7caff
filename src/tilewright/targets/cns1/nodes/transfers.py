"""Transfers alone on the network: cycles of the closed form's terms, by programs (sections 2.2,
4.1.1 and 4.2.2 of ICSI TR-93-046).

In: a machine. Out: cycles from sending the first message to receiving the last one.

Also exchanges and global sums of vectors as text of the Torrent: sends, and message handlers.

In: a machine and the exchanges of a sum, one per round. Out: the lines that begin a sum and the
handler of each round. A node sends its vector to the partner of the round, adds the partner's, and
sends the sum to the next partner (ICSI TR-93-046, section 4.2.2). Vectors are summed one after the
other: `$v11` holds the current one, and the next ones follow. A handler saves the scalars that it
uses; in addition to its own instructions it takes the cycles that `messages.sum_cycles` charges for
administration. Registers: `$vs18` has the node's column, `$vs19` its row, `$vs20` the number of
vectors left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import MachineError
from tilewright.machine import Machine
from tilewright.machine.parts import Fabric
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.nodes.run import IDLE, NodeStart, fabric_of, run_nodes
from tilewright.targets.cns1.sections import Messages
from tilewright.targets.cns1.timing.messages import GlobalSum

VECTOR = 32
_RETURN = ("goto $31", "nop")
_PENDING, _SCRATCH = "$22", "$5"


def text_of(lines: Sequence[str]) -> str:
    """Lines as a source."""
    return "\n".join(lines) + "\n"


def ring_cycles(machine: Machine, hops: int, *, words: int = VECTOR, cast: bool = False) -> int:
    """Cycles of a message along the ring, or of a multicast on the way, to the farthest node."""
    fabric, first = fabric_of(machine), [f"$28 = {words}", "vlr = $28", f"$5 = {hops}"]
    send = f"{'bcast' if cast else 'send'}($0, $5, $v1, 0)"
    nodes = [IDLE] * (fabric.rows * fabric.columns)
    nodes[0] = NodeStart(text_of([*first, send, *_RETURN]))
    for node in range(1, hops + 1) if cast else (hops,):
        nodes[node] = NodeStart(text_of(["$v2 = receive(0)", "$v3 = $v2 + $v2", *_RETURN]))
    found = run_nodes(machine, nodes, fabric)
    return found.cores[hops].cycles - len(_RETURN) - 1 - len(first)


def sum_round_cycles(machine: Machine, sharing: GlobalSum, round_: int, fabric: Fabric) -> int:
    """One round of a global sum on all nodes, which send at the same time."""
    lines = [
        *direction(sharing, round_, "$5"),
        sent(sharing, round_, "$5", "$v1", 0),
        *("$v2 = receive(0)", "$v3 = $v2 + $v2", *_RETURN),
    ]
    count = fabric.rows * fabric.columns
    nodes = [NodeStart(text_of(lines), registers=place_registers(fabric, n)) for n in range(count)]
    own = len(direction(sharing, round_, "$5")) + len(_RETURN) + 1
    return run_nodes(machine, nodes, fabric).cycles - own


def place_registers(fabric: Fabric, node: int) -> dict[str, int]:
    """The registers that hold a node's place."""
    row, column = divmod(node, fabric.columns)
    return {"$vs18": column, "$vs19": row}


def sum_of_all(
    machine: Machine,
    sharing: GlobalSum,
    fabric: Fabric,
    values: NDArray[np.int64],
    *,
    in_step: bool = False,
) -> tuple[MeshRun, NDArray[np.int64], int]:
    """A global sum on all nodes of values [node, vector, 32], round by round with `in_step`: the
    run, the sums, and the cycles since its beginning.
    """
    one = SumMessages(sharing, values.shape[1], 0, _PENDING, in_step)
    head = list(installed((one,), _SCRATCH))
    lines = [*head, *exchange_begun(machine, one, _SCRATCH), f"await ({_PENDING} == $0)", *_RETURN]
    lines += handlers(machine, one)
    nodes = [
        NodeStart(
            text_of(lines),
            registers={
                **place_registers(fabric, n),
                **{f"$v{SUMMED + v}": own.view(np.float64) for v, own in enumerate(values[n])},
            },
        )
        for n in range(len(values))
    ]
    run = run_nodes(machine, nodes, fabric)
    number = run.cores[0].program.table.register_numbers
    places = [number[one.result(v)] for v in range(one.vectors)]
    found = np.stack([core.integer_registers[places] for core in run.cores])
    return run, found, run.cycles - len(head) - 1 - len(_RETURN)


def constant_sum_cycles(
    machine: Machine, sharing: GlobalSum, fabric: Fabric, *, vectors: int = 1, in_step: bool = False
) -> int:
    """Cycles of the global sum of some vectors over all nodes."""
    ones = np.ones((fabric.rows * fabric.columns, vectors, VECTOR), np.int64)
    return sum_of_all(machine, sharing, fabric, ones, in_step=in_step)[2]


SUMMED = 11
"""First vector register of a sum."""
INCOMING, TURNED = "$v15", "$v16"
PLACES = {"ring": "$vs18", "column": "$vs19"}
KEPT = ("$vs16", "$vs17")
LEFT = "$vs20"
WORD_BITS = 32
_ALL, _MEETING = -1, 2
"""All places of a line; cycles from the arrival of a line's last node until all go on."""
_FIRST_OWN, _LAST_OWN = 7, 12
"""Instructions before the first send, and from the last vector's arrival to the sum's end."""


@dataclass(frozen=True)
class SumMessages:
    """A global sum of `vectors` vectors, whose messages have kinds from `first_kind` on. The
    register `pending` becomes zero when it is done. With `in_step`, no node begins a round before
    all nodes of its line have ended the one before; the formula assumes this by adding up rounds.
    """

    sharing: GlobalSum
    vectors: int
    first_kind: int
    pending: str
    in_step: bool = False

    @property
    def kinds(self) -> range:
        """One kind for each round."""
        return range(self.first_kind, self.first_kind + self.sharing.rounds)

    def result(self, vector: int) -> str:
        """The register of a vector's sum: each vector but the last is moved behind the others."""
        turned = 1 if self.sharing.rounds else 0
        return f"$v{SUMMED + (vector + turned) % self.vectors}"

    def label(self, round_: int) -> str:
        """The handler of a round."""
        return f"sum_{self.kinds[round_]}"


def direction(sharing: GlobalSum, round_: int, into: str) -> list[str]:
    """The hops to the partner of a round: `distance` up if the place's bit is 0, otherwise down."""
    distance, bit = sharing.distances[round_], sharing.distances[round_].bit_length() - 1
    return [
        f"{into} = {PLACES[sharing.axis(round_)]}",
        f"{into} = {into} << {WORD_BITS - 1 - bit}",
        f"{into} = {into} >> {WORD_BITS - 1}",
        f"{into} = {into} << {bit + 1}",
        f"{into} = {into} + {distance}",
    ]


def sent(sharing: GlobalSum, round_: int, hops: str, vector: str, kind: int) -> str:
    """The instruction that sends a vector to the partner of a round."""
    where = f"$0, {hops}" if sharing.axis(round_) == "ring" else f"{hops}, $0"
    return f"send({where}, {vector}, {kind})"


def installed(sums: tuple[SumMessages, ...], scratch: str) -> Iterator[str]:
    """Install the handlers."""
    for one in sums:
        for round_, kind in enumerate(one.kinds):
            yield from (f"{scratch} = {kind}", f"handler {scratch} = {one.label(round_)}")


def exchange_begun(machine: Machine, one: SumMessages, scratch: str) -> list[str]:
    """Send the first vector, and only then accept the partner's. Raises MachineError if the
    administration takes longer than `messages.sum_cycles` allows.
    """
    if not one.sharing.rounds:
        return [f"{one.pending} = 0"]
    spare = _spare(machine, _FIRST_OWN + _LAST_OWN)
    own = [f"{one.pending} = {one.vectors}", f"{LEFT} = {one.pending}"]
    send = sent(one.sharing, 0, scratch, f"$v{SUMMED}", one.kinds[0])
    accept = f"accept {_mask(one, 0)}"
    return [*own, *direction(one.sharing, 0, scratch), *["nop"] * spare, send, accept]


def handlers(machine: Machine, one: SumMessages) -> Iterator[str]:
    """The handlers of all rounds."""
    for round_ in range(one.sharing.rounds):
        yield from _handler(machine, one, round_)


def _handler(machine: Machine, one: SumMessages, round_: int) -> Iterator[str]:
    last = round_ == one.sharing.rounds - 1
    sharing, following = one.sharing, 0 if last else round_ + 1
    lines = [
        *(f"{kept} = {scalar}" for kept, scalar in zip(KEPT, ("$5", "$6"), strict=True)),
        f"{INCOMING} = receive({one.kinds[round_]})",
        f"$v{SUMMED} = $v{SUMMED} + {INCOMING}",
    ]
    if last:
        lines += [f"$5 = {LEFT}", "$5 = $5 - 1", f"{LEFT} = $5"]
        lines += [f"if ($5 == $0) sum_{one.kinds[-1]}_done", f"$5 = {KEPT[0]}"]
    lines += [f"accept {_mask(one, following)}", *direction(sharing, following, "$6")]
    own = len(lines) - 1
    if one.in_step:
        lines.append(f"meet {sharing.axis(round_)} {_ALL}")
        own += _MEETING
    lines += ["nop"] * _spare(machine, own)
    vector = f"$v{SUMMED + (1 if last and one.vectors > 1 else 0)}"
    lines.append(sent(sharing, following, "$6", vector, one.kinds[following]))
    if last:
        lines += _turned(one.vectors)
    yield f"{one.label(round_)}: {lines[0]}"
    yield from lines[1:]
    yield from (f"$5 = {KEPT[0]}", "resume", f"$6 = {KEPT[1]}")
    if last:
        yield from (f"sum_{one.kinds[-1]}_done: {one.pending} = 0", "accept 0", "resume", "nop")


def _turned(vectors: int) -> list[str]:
    """Move the current vector behind the others."""
    numbers = [f"$v{SUMMED + i}" for i in range(vectors)]
    moved = [f"{a} = {b}" for a, b in pairwise(numbers)]
    return [f"{TURNED} = {numbers[0]}", *moved, f"{numbers[-1]} = {TURNED}"] if moved else []


def _mask(one: SumMessages, round_: int) -> int:
    return 1 << one.kinds[round_]


def _spare(machine: Machine, own: int) -> int:
    """Cycles of administration beyond the handler's own instructions."""
    found = machine.section(Messages).sum_cycles - own
    if found < 0:
        raise MachineError(
            f"messages.sum_cycles: a round of a global sum takes {own} instructions beside its "
            f"messages, found {machine.section(Messages).sum_cycles}"
        )
    return found
