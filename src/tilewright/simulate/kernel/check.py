"""Misuse of a scratchpad slot: the rules, and the error of each.

In: a slot, the statement that touches it and the outstanding transfers. Out: nothing, or
SimulationError with the buffer, the slot, the statement and the values of the loop variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.common.errors import SimulationError
from tilewright.simulate.kernel.program import Move, PreparedProgram, Work
from tilewright.simulate.kernel.state import Pending, Slot

Env = Mapping[str, int]


def check_slot(prepared: PreparedProgram, slot: Slot, text: str, env: Env) -> None:
    """Raise unless the buffer has this slot."""
    name, number = slot
    copies = prepared.buffers[name].copies
    if not 0 <= number < copies:
        raise SimulationError(
            f"slot {number} of {name} does not exist: it has {copies}", where=_where(text, env)
        )


def check_size(prepared: PreparedProgram, slot: Slot, elements: int, text: str, env: Env) -> None:
    """Raise unless a tile fits its slot."""
    room = prepared.buffers[slot[0]].elements
    if elements > room:
        raise SimulationError(
            f"a tile of {elements} elements does not fit {_shown(slot)} of {room}",
            where=_where(text, env),
        )


def check_move(
    prepared: PreparedProgram, move: Move, slot: Slot, pending: Mapping[Slot, Pending], env: Env
) -> None:
    """Raise where a transfer starts on a slot that another one still needs.

    Several puts may read one slot together.
    """
    if slot not in pending:
        return
    other = prepared.moves[pending[slot].move].stmt.direction
    if move.stmt.direction == "get":
        _refuse(prepared, slot, pending, "a get writes", _where(move.text, env))
    if other == "get":
        _refuse(prepared, slot, pending, "a put reads", _where(move.text, env))


def check_work(
    prepared: PreparedProgram,
    work: Work,
    slots: list[Slot],
    pending: Mapping[Slot, Pending],
    env: Env,
) -> None:
    """Raise where a call reads what has not arrived, or writes what has not left."""
    for i, slot in enumerate(slots):
        if slot not in pending:
            continue
        direction = prepared.moves[pending[slot].move].stmt.direction
        name, where = work.call.primitive.name, _where(work.text, env)
        if i == 0:
            _refuse(prepared, slot, pending, f"{name} writes", where)
        if direction == "get":
            _refuse(prepared, slot, pending, f"{name} reads", where)


def check_end(prepared: PreparedProgram, pending: Mapping[Slot, Pending]) -> None:
    """Raise where the program ends before a transfer is waited for."""
    for slot, transfer in sorted(pending.items()):
        move = prepared.moves[transfer.move]
        raise SimulationError(
            f"{_transfer(move, slot)} is never waited for",
            where=move.text,
            fix=f"wait for {_shown(slot)} before the end",
        )


def _refuse(
    prepared: PreparedProgram, slot: Slot, pending: Mapping[Slot, Pending], action: str, where: str
) -> None:
    move = prepared.moves[pending[slot].move]
    raise SimulationError(
        f"{action} {_shown(slot)} while {_transfer(move, slot)} is outstanding",
        where=where,
        fix=f"wait for {_shown(slot)} first",
    )


def _transfer(move: Move, slot: Slot) -> str:
    stmt = move.stmt
    way = "into" if stmt.direction == "get" else "from"
    return f"a {stmt.direction} of {stmt.tensor} {way} {_shown(slot)}"


def _shown(slot: Slot) -> str:
    return f"{slot[0]}[{slot[1]}]"


def _where(text: str, env: Env) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in env.items())
    return f"{text} at {values}" if values else text
