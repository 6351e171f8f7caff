"""The verifier's position in a program: the names in scope, and its description in errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Expr, free_vars
from tilewright.ir import nodes as ir
from tilewright.ir.printer import print_head

Stage: TypeAlias = Literal["seed", "staged", "explicit"]


@dataclass(frozen=True)
class Place:
    """A statement of a program, the loops and conditions around it, and the declared names.

    With `in_place`, calls may work on tensors in main memory after the seed stage, too.
    """

    program: ir.Program
    stage: Stage
    tensors: dict[str, ir.Tensor]
    buffers: dict[str, ir.Buffer]
    loops: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    stmt: ir.Stmt | None = None
    in_place: bool = False

    def at(self, stmt: ir.Stmt) -> Place:
        """This place with `stmt` as its statement."""
        return replace(self, stmt=stmt)

    def inside(self, stmt: ir.For | ir.If, *, orelse: bool = False) -> Place:
        """The place inside a loop's body or a branch of a condition."""
        match stmt:
            case ir.For(var):
                return replace(self, loops=(*self.loops, var), path=(*self.path, f"for {var}"))
            case ir.If():
                step = f"{print_head(stmt)}: else" if orelse else print_head(stmt)
                return replace(self, path=(*self.path, step))

    def error(self, message: str, fix: str = "") -> ProgramError:
        """The error about the statement, with the path to it."""
        last = () if self.stmt is None else (print_head(self.stmt),)
        where = " > ".join((self.program.name, *self.path, *last))
        return ProgramError(message, where=where, fix=fix)

    def tensor(self, name: str) -> ir.Tensor:
        """The tensor called `name`; ProgramError lists the known ones."""
        if name not in self.tensors:
            raise self.error(
                f"there is no tensor {name!r}", _list_of_declared("tensors", self.tensors)
            )
        return self.tensors[name]

    def buffer(self, name: str) -> ir.Buffer:
        """The buffer called `name`; ProgramError lists the known ones."""
        if name not in self.buffers:
            raise self.error(
                f"there is no buffer {name!r}", _list_of_declared("buffers", self.buffers)
            )
        return self.buffers[name]

    def check_symbols(self, e: Expr) -> None:
        """Raise unless every symbol is a parameter, an enclosing loop's variable, a core's or the
        mesh's.
        """
        names = (*self.program.parameters, *self.loops, *ir.CORE_SYMBOLS, *ir.MESH_SYMBOLS)
        for name in sorted(free_vars(e)):
            if name not in names:
                raise self.error(f"symbol {name!r} is not defined here", f"known: {_list(names)}")

    def check_uniform(self, what: str, e: Expr) -> None:
        """Require a value that is equal on all cores, since they run in lockstep."""
        for name in ir.CORE_SYMBOLS:
            if name in free_vars(e):
                raise self.error(
                    f"the {what} {e} depends on {name!r}, but all cores take the same path",
                    "let only the ranges of regions differ between cores",
                )


def _list_of_declared(what: str, names: dict[str, ir.Tensor] | dict[str, ir.Buffer]) -> str:
    return f"the {what} are {_list(tuple(names))}" if names else f"no {what} are declared"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)
