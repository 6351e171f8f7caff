"""The text form of the loop IR: a program in, restricted Python syntax out.

`parser.parse` turns it back into an equal program. `x[i, at(0, 8)]` is a region of a tensor (a bare
index is a range of extent 1), `x[i, at(0, 8)](".n")` is that region with one role per dimension,
and `b[slot](at(0, 4), at(0, 8), shape=(4, 16), roles="mn")` is a view of a buffer slot; its ranges
are omitted where they cover the whole shape.

>>> from tilewright.ir.parser import parse
>>> print(print_program(parse("def p(n):\\n  for i in range(n*1):\\n   barrier( )")), end="")
def p(n):
    for i in range(n):
        barrier()
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, free_vars
from tilewright.ir import nodes as ir
from tilewright.ir.primitive import Attribute

_WIDTH = 100
_INDENT = "    "


@dataclass(frozen=True)
class _Group:
    """A piece of text on one line, or, if that is too long, broken between its items."""

    head: str
    items: tuple[_Piece, ...]
    tail: str = ")"

    def __str__(self) -> str:
        return f"{self.head}{', '.join(str(i) for i in self.items)}{self.tail}"


_Piece: TypeAlias = "str | _Group"


def print_program(program: ir.Program) -> str:
    """The text of a whole program, ending with a newline; lines over 100 columns are broken.

    Raises ProgramError for a name that is not an identifier and for a tensor with more or fewer
    dimension names than extents; everything else prints, so that illegal programs can be shown.
    """
    parameters = tuple(ir.check_name("parameter", p) for p in program.parameters)
    head = f"def {ir.check_name('program', program.name)}("
    lines = list(_broken(_Group(head, parameters, "):"), 0))
    for tensor in program.tensors:
        lines.extend(_broken(_tensor(tensor), 1))
    for buffer in program.buffers:
        lines.extend(_broken(_buffer(buffer), 1))
    lines.extend(_body(program.body, 1, empty=not (program.tensors or program.buffers)))
    return "\n".join(lines) + "\n"


def print_statement(stmt: ir.Stmt) -> str:
    """The text of one statement and the statements inside it, without a final newline.

    >>> from tilewright.common.expr import Const, Var
    >>> print_statement(ir.Wait("x_tile", Var("i") % 2))
    'wait(x_tile[i % 2])'
    """
    return "\n".join(_statement(stmt, 0))


def print_head(stmt: ir.Stmt) -> str:
    """One line that names a statement without its body, for error messages.

    >>> from tilewright.common.expr import Var
    >>> print_head(ir.For("ro", Var("out_rows"), ()))
    'for ro in range(out_rows)'
    """
    match stmt:
        case ir.For(var, extent, _, threads):
            divided = f", threads={threads}" if threads > 1 else ""
            return f"for {ir.check_name('loop variable', var)} in range({_expr(extent)}{divided})"
        case ir.If(condition):
            return f"if {_expr(condition)}"
        case _:
            return str(_simple(stmt))


def print_operand(operand: ir.Operand) -> str:
    """The text of one operand of a call.

    >>> from tilewright.common.expr import Const, Var
    >>> print_operand(ir.Tile("x", (ir.at(Var("i"), 1), ir.at(0, 8)), ".n"))
    'x[i, at(0, 8)](".n")'
    """
    return str(_operand(operand))


def print_range(r: ir.Range) -> str:
    """The text of a range: an index, or `at(start, extent)` with `step` and `stop` if present."""
    return str(_range(r))


def _statement(stmt: ir.Stmt, depth: int, *, word: str = "if") -> Iterator[str]:
    indent = _INDENT * depth
    match stmt:
        case ir.For(_, _, body):
            yield f"{indent}{print_head(stmt)}:"
            yield from _body(body, depth + 1)
        case ir.If(condition, then, orelse):
            yield f"{indent}{word} {_expr(condition)}:"
            yield from _body(then, depth + 1)
            if len(orelse) == 1 and isinstance(orelse[0], ir.If):
                yield from _statement(orelse[0], depth, word="elif")
            elif orelse:
                yield f"{indent}else:"
                yield from _body(orelse, depth + 1)
        case _:
            yield from _broken(_simple(stmt), depth)


def _body(body: tuple[ir.Stmt, ...], depth: int, *, empty: bool = True) -> Iterator[str]:
    if empty and not body:
        yield f"{_INDENT * depth}pass"
    for stmt in body:
        yield from _statement(stmt, depth)


def _simple(stmt: ir.Transfer | ir.Wait | ir.Barrier | ir.Call) -> _Group:
    match stmt:
        case ir.Transfer(direction):
            moved = _region(stmt.tensor, stmt.ranges), _slot(stmt.buffer, stmt.slot)
            first = () if stmt.first == Const(0) else (f"first={_expr(stmt.first)}",)
            return _Group(
                f"{direction}(", (*(moved if direction == "get" else moved[::-1]), *first)
            )
        case ir.Wait(buffer, slot):
            return _Group("wait(", (_slot(buffer, slot),))
        case ir.Barrier():
            return _Group("barrier(", ())
        case ir.Call(primitive, operands):
            named = (f"{name}={_attribute(name, value)}" for name, value in primitive.attributes())
            return _Group(f"{primitive.name}(", (*(_operand(o) for o in operands), *named))
        case _:
            assert_never(stmt)


def _operand(operand: ir.Operand) -> _Group:
    match operand:
        case ir.Tile(tensor, ranges, roles):
            return _region(tensor, ranges, f"]({_quoted(roles)})")
        case ir.View(buffer, slot, shape, ranges, roles):
            whole = ranges == tuple(ir.at(0, extent) for extent in shape)
            extents = tuple(_expr(e) for e in shape)
            packed = _Group("shape=(", extents, ",)" if len(extents) == 1 else ")")
            shown = () if whole else tuple(_range(r) for r in ranges)
            return _Group(f"{_slot(buffer, slot)}(", (*shown, packed, f"roles={_quoted(roles)}"))
        case _:
            assert_never(operand)


def _range(r: ir.Range) -> _Piece:
    start, extent = _expr(r.start), _expr(r.extent)
    if r.stop is not None:
        return _Group("at(", (start, extent, _expr(r.step), _expr(r.stop)))
    if r.step != Const(1):
        return _Group("at(", (start, extent, _expr(r.step)))
    return start if r.extent == Const(1) else _Group("at(", (start, extent))


def _region(tensor: str, ranges: tuple[ir.Range, ...], tail: str = "]") -> _Group:
    inside = tuple(_range(r) for r in ranges) or ("()",)
    return _Group(f"{ir.check_name('tensor', tensor)}[", inside, tail)


def _slot(buffer: str, slot: Expr) -> str:
    return f"{ir.check_name('buffer', buffer)}[{_expr(slot)}]"


def _tensor(tensor: ir.Tensor) -> _Group:
    if len(tensor.dims) != len(tensor.shape):
        raise ProgramError(
            f"tensor {tensor.name!r} has {len(tensor.dims)} dimension names "
            f"and {len(tensor.shape)} extents",
            fix="give each dimension one name and one extent",
        )
    named = zip(tensor.dims, tensor.shape, strict=True)
    extents = [f"{ir.check_name('dimension', d)}={_expr(e)}" for d, e in named]
    storage = [f"storage({ir.check_name('tensor', tensor.storage)})"] if tensor.storage else []
    shared = ["shared"] if tensor.shared else []
    ends = ", ".join(f"{ir.check_name('dimension', d)}=({a}, {b})" for d, a, b in tensor.zeros)
    marks = [*storage, *shared, *([f"zeros({ends})"] if ends else [])]
    head = f"{ir.check_name('tensor', tensor.name)}: tensor("
    return _Group(head, (_quoted(tensor.dtype), _quoted(tensor.kind), *marks, *extents))


def _buffer(buffer: ir.Buffer) -> _Group:
    items = [_quoted(buffer.dtype), _expr(buffer.elements)]
    if buffer.copies != Const(1):
        items.append(f"copies={_expr(buffer.copies)}")
    if buffer.offset_bytes is not None:
        items.append(f"offset_bytes={buffer.offset_bytes}")
    if buffer.space != ir.SCRATCHPAD:
        items.append(f"space={_quoted(buffer.space)}")
    return _Group(f"{ir.check_name('buffer', buffer.name)}: buffer(", tuple(items))


def _broken(piece: _Piece, depth: int, comma: str = "") -> Iterator[str]:
    """The piece on one line, or with one item a line if that line would be too long."""
    indent = _INDENT * depth
    line = f"{indent}{piece}{comma}"
    if isinstance(piece, str) or len(line) <= _WIDTH or not piece.items:
        yield line
        return
    yield f"{indent}{piece.head}"
    for item in piece.items:
        yield from _broken(item, depth + 1, ",")
    yield f"{indent}{piece.tail.removeprefix(',')}{comma}"


def _expr(e: Expr) -> str:
    for name in free_vars(e):
        ir.check_name("symbol", name)
    return str(e)


def _quoted(text: str) -> str:
    escaped = text.encode("unicode_escape").decode("ascii")
    return '"' + escaped.replace('"', '\\"') + '"'


def _attribute(name: str, value: Attribute) -> str:
    match value:
        case str():
            return _quoted(value)
        case int():
            return str(int(value))
        case float():
            return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'
        case _:
            raise ProgramError(f"attribute {name!r} is neither a string, an integer nor a float")
