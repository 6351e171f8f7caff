"""The nodes of the loop IR: six statements over integer expressions.

Stages of one program (each verified by `ir.verify`):

* seed: calls work on `Tile`s, regions of tensors in main memory; no transfers;
* staged: calls work on `View`s of scratchpad buffers, each transfer is followed by its wait;
* explicit: as staged, with transfers and waits placed where they overlap with compute.

All regions belong to ONE core and may depend on `rid` and `cid`. Reads outside a tensor yield
zeros, writes outside are dropped; the boundary pass makes both explicit.

All names end up in generated source and in file names, so the printer, the parser and the verifier
accept only names that pass `check_name`.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, IntLike, Var, expr, product
from tilewright.ir.primitive import Primitive

STATEMENT_WORDS = ("get", "put", "wait", "barrier")


def is_name(name: str) -> bool:
    """True if `name` is an ASCII identifier and no Python keyword.

    >>> is_name("x_tile"), is_name("x tile"), is_name("for")
    (True, False, False)
    """
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def check_name(what: str, name: str, *, where: str = "") -> str:
    """Return `name`. Raises ProgramError, which calls it a `what`, if it is not allowed."""
    if is_name(name):
        return name
    raise ProgramError(
        f"{what} {name[:40]!r} is not an identifier",
        where=where,
        fix="use ASCII letters, digits and underscores, no leading digit and no Python keyword",
    )


TensorKind = Literal["input", "constant", "output", "updated", "scratch"]
"""A constant is an input that is equal in all calls, such as weights; an updated tensor is an input
whose memory holds a result afterwards.
"""
Direction = Literal["get", "put"]

_ZERO, _ONE = Const(0), Const(1)

SCRATCHPAD = "spm"
"""The default memory of buffers."""

CORE_SYMBOLS = ("rid", "cid")
MESH_SYMBOLS = ("mesh_rows", "mesh_columns")
LAST_CORE: Mapping[str, Expr] = {
    core: Var(extent) - 1 for core, extent in zip(CORE_SYMBOLS, MESH_SYMBOLS, strict=True)
}
"""Values of the core symbols on the last core of the mesh, which touches the ends of tensors."""


def memory_words(space: str) -> str:
    """The name of a core's memory in messages.

    >>> memory_words("spm"), memory_words("synapse")
    ('scratchpad', "memory 'synapse'")
    """
    return "scratchpad" if space == SCRATCHPAD else f"memory {space!r}"


@dataclass(frozen=True)
class Range:
    """`extent` indices from `start`, `step` apart, along one dimension.

    Indices from `stop` on count as outside the tensor; the boundary pass makes that explicit.
    """

    start: Expr
    extent: Expr
    step: Expr = _ONE
    stop: Expr | None = None


def at(start: IntLike, extent: IntLike, step: IntLike = 1, stop: IntLike | None = None) -> Range:
    """Build a range from integers or expressions."""
    return Range(expr(start), expr(extent), expr(step), None if stop is None else expr(stop))


@dataclass(frozen=True)
class Tensor:
    """A row-major array in main memory; `dims` names its dimensions in storage order.

    `storage` names the tensor whose memory this one shares, with the same elements under another
    shape. `shared` marks a tensor of which all core groups read the same elements at the same time.
    `zeros` counts the indices at both ends of each dimension that hold zeros in every run.
    """

    name: str
    dtype: str
    kind: TensorKind
    dims: tuple[str, ...]
    shape: tuple[Expr, ...]
    storage: str = ""
    shared: bool = False
    zeros: tuple[tuple[str, int, int], ...] = ()

    @property
    def is_given(self) -> bool:
        """True if the program receives the tensor's values."""
        return self.kind in ("input", "constant")

    @property
    def is_result(self) -> bool:
        """True if it holds a result of the program."""
        return self.kind in ("output", "updated")

    @property
    def memory(self) -> str:
        """Name of the tensor that owns the memory."""
        return self.storage or self.name

    def zeros_of(self, dimension: str) -> tuple[int, int]:
        """Number of indices that hold zeros at the beginning and at the end of a dimension."""
        return next(((a, b) for name, a, b in self.zeros if name == dimension), (0, 0))


@dataclass(frozen=True)
class Buffer:
    """A buffer in every core: `copies` slots of `elements` each.

    `space` names one of the core's memories; `offset_bytes` is the address in it, set by the
    allocation pass.
    """

    name: str
    dtype: str
    elements: Expr
    copies: Expr = _ONE
    offset_bytes: int | None = None
    space: str = SCRATCHPAD


@dataclass(frozen=True)
class Tile:
    """The region of a tensor that one core contributes to a call (seed stage).

    `roles` has one letter per dimension: the matrix dimension (m, n, k) or axis of the primitive
    that it represents, `.` for none.
    """

    tensor: str
    ranges: tuple[Range, ...]
    roles: str


@dataclass(frozen=True)
class View:
    """A region of the packed row-major tile of `shape` that lies at the start of a buffer slot."""

    buffer: str
    slot: Expr
    shape: tuple[Expr, ...]
    ranges: tuple[Range, ...]
    roles: str


Operand: TypeAlias = Tile | View


def role_extent(operand: Operand, role: str) -> Expr:
    """Number of indices of a role in an operand."""
    pairs = zip(operand.roles, operand.ranges, strict=True)
    return product(r.extent for letter, r in pairs if letter == role)


@dataclass(frozen=True)
class For:
    """Run `body` for `var` = 0 .. extent - 1.

    With several `threads`, iterations are independent, and each thread runs consecutive ones.
    """

    var: str
    extent: Expr
    body: tuple[Stmt, ...]
    threads: int = 1


@dataclass(frozen=True)
class If:
    """Run `then` if `condition` is not zero, else `orelse`."""

    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """Start moving a tensor region to (get) or from (put) a buffer slot; it takes effect at the
    wait.

    The slot holds the region packed row-major in the tensor's storage order, from its element
    `first` on.
    """

    direction: Direction
    tensor: str
    ranges: tuple[Range, ...]
    buffer: str
    slot: Expr
    first: Expr = _ZERO


@dataclass(frozen=True)
class Wait:
    """Block until every transfer started on the buffer slot is done."""

    buffer: str
    slot: Expr


@dataclass(frozen=True)
class Barrier:
    """Block until all cores have arrived."""


@dataclass(frozen=True)
class Call:
    """Call a primitive (`ir.primitives`) on all cores; the first operand is written."""

    primitive: Primitive
    operands: tuple[Operand, ...]

    @property
    def other_axes(self) -> str:
        """The axes of the first operand that are not the primitive's own, in order."""
        own = {*self.primitive.axes, "."}
        return "".join(dict.fromkeys(c for c in self.operands[0].roles if c not in own))


Stmt: TypeAlias = For | If | Transfer | Wait | Barrier | Call


@dataclass(frozen=True)
class Program:
    """A parametric program; `parameters` are bound to integers to price, run or emit it."""

    name: str
    parameters: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Stmt, ...]

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name; ProgramError lists the known ones."""
        return _declared_as("tensor", name, self.tensors, self.name)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name; ProgramError lists the known ones."""
        return _declared_as("buffer", name, self.buffers, self.name)

    def element_type(self, operand: Operand) -> str:
        """The element type of an operand's tensor or buffer."""
        match operand:
            case Tile(tensor):
                return self.tensor(tensor).dtype
            case View(buffer):
                return self.buffer(buffer).dtype


_Declared = TypeVar("_Declared", Tensor, Buffer)


def _declared_as(what: str, name: str, declared: tuple[_Declared, ...], program: str) -> _Declared:
    for candidate in declared:
        if candidate.name == name:
            return candidate
    known = ", ".join(d.name for d in declared) or "none"
    raise ProgramError(
        f"program {program!r} has no {what} {name[:40]!r}", fix=f"its {what}s are {known}"
    )
