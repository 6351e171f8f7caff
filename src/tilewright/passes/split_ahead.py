"""Split off work that is done once, ahead of all runs: a tensor computed from a constant alone.

In: an explicit program. Out: the statements before its first barrier, if they only compute one
scratch tensor from one constant in place, and the remaining program, which reads that tensor as a
constant. Winograd's transformed kernels are an example.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.ir.nodes import Barrier, Call, For, Program, Stmt, Tensor, Tile, Transfer
from tilewright.ir.visit import rewrite, walk


@dataclass(frozen=True)
class Ahead:
    """Statements that compute the tensor `made` from the constant `given`."""

    body: tuple[Stmt, ...]
    given: Tensor
    made: Tensor


def split_ahead(program: Program) -> tuple[Ahead | None, Program]:
    """The part that runs ahead, or None, and the remaining program."""
    places = [i for i, stmt in enumerate(program.body) if isinstance(stmt, Barrier)]
    if not places:
        return None, program
    body, rest = program.body[: places[0]], program.body[places[0] + 1 :]
    written, read = _tensors(body, program)
    if written is None or len(written) != 1 or len(read) != 1:
        return None, program
    (made,), (given,) = written, read
    later, _ = _tensors(rest, program)
    again = later is None or made in later or given in _operand_tensors(rest)
    if again or program.tensor(made).kind != "scratch" or program.tensor(given).kind != "constant":
        return None, program
    made_once = replace(program.tensor(made), kind="constant")
    kept = tuple(made_once if t.name == made else t for t in program.tensors if t.name != given)
    ahead = Ahead(rewrite(body, _undivided), program.tensor(given), program.tensor(made))
    return ahead, replace(program, tensors=kept, body=rest)


def _undivided(stmt: Stmt) -> tuple[Stmt, ...] | None:
    """Undo the division of a loop: work ahead runs once, on one thread."""
    return (replace(stmt, threads=1),) if isinstance(stmt, For) else None


def _tensors(body: tuple[Stmt, ...], program: Program) -> tuple[set[str] | None, set[str]]:
    """The owners of the memory that calls write in place, and of the memory that they read. The
    first is None if anything goes through buffers.
    """
    written: set[str] = set()
    read: set[str] = set()
    for stmt in walk(body):
        match stmt:
            case Transfer():
                return None, read
            case Call(_, operands):
                names = [program.tensor(o.tensor).memory for o in operands if isinstance(o, Tile)]
                if len(names) < len(operands):
                    return None, read
                written.add(names[0])
                read |= set(names[1:])
            case _:
                pass
    return written, read


def _operand_tensors(body: tuple[Stmt, ...]) -> set[str]:
    """The tensors whose tiles are operands of calls."""
    calls = (stmt for stmt in walk(body) if isinstance(stmt, Call))
    return {o.tensor for call in calls for o in call.operands if isinstance(o, Tile)}
