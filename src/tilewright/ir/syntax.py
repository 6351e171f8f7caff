"""The small parts of the IR's text: expressions, regions, slots, operands, attributes.

In: nodes of a Python syntax tree. Out: the IR's values, or ProgramError with the line and what was
expected. `parser` reads statements and declarations with these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Binary, Const, Expr, Var, free_vars
from tilewright.common.expr_parser import from_ast
from tilewright.ir.names import check_name
from tilewright.ir.nodes import Operand, Range, Tile, View, at
from tilewright.ir.primitive import Attribute

_INTEGER_LIMIT = 2**63
_NOT_FINITE = ("inf", "-inf", "nan")


def parse_operand(node: ast.expr) -> Operand:
    """A tile `tensor[...](roles)` or a view `buffer[slot](..., shape=..., roles=...)`."""
    match node:
        case ast.Call(ast.Subscript() as region, [ast.Constant(str(roles))], []):
            tensor, ranges = parse_region(region)
            return Tile(tensor, ranges, roles)
        case ast.Call(ast.Subscript() as place, ranges):
            match parse_keywords(node, "option"):
                case {"shape": ast.Tuple(extents), "roles": ast.Constant(str(roles)), **rest} if (
                    not rest
                ):
                    return _view(place, ranges, extents, roles)
    form = 'tensor[range, ...]("roles") or buffer[slot](range, ..., shape=(...), roles="...")'
    raise refused(form, node)


def _view(
    place: ast.Subscript, ranges: list[ast.expr], extents: list[ast.expr], roles: str
) -> View:
    buffer, slot = parse_slot(place)
    shape = tuple(parse_expression(e) for e in extents)
    whole = tuple(at(0, e) for e in shape)
    return View(buffer, slot, shape, tuple(_range(r) for r in ranges) or whole, roles)


def parse_region(node: ast.Subscript) -> tuple[str, tuple[Range, ...]]:
    """A tensor's name and one range per dimension."""
    match node:
        case ast.Subscript(ast.Name(name), ast.Tuple(places)):
            pass
        case ast.Subscript(ast.Name(name), place):
            places = [place]
        case _:
            raise refused("tensor[range, ...]", node)
    check_name("tensor", name, where=line_of(node))
    return name, tuple(_range(p) for p in places)


def parse_slot(node: ast.Subscript) -> tuple[str, Expr]:
    """A buffer's name and slot."""
    match node:
        case ast.Subscript(ast.Name(name), slot):
            return check_name("buffer", name, where=line_of(node)), parse_expression(slot)
        case _:
            raise refused("buffer[slot]", node)


def _range(node: ast.expr) -> Range:
    match node:
        case ast.Call(ast.Name("at"), [start, extent], []):
            return Range(parse_expression(start), parse_expression(extent))
        case ast.Call(ast.Name("at"), [start, extent, step], []):
            return Range(parse_expression(start), parse_expression(extent), parse_expression(step))
        case ast.Call(ast.Name("at"), [_, _, _, _] as parts, []):
            return Range(*(parse_expression(part) for part in parts))
        case ast.Slice() | ast.Call(ast.Name("at")):
            raise refused("an index or at(start, extent, step)", node)
        case _:
            return Range(parse_expression(node), Const(1))


def parse_attribute(node: ast.expr) -> Attribute:
    """A literal; the floats that have none are written `float("inf")`."""
    value: Attribute
    match node:
        case ast.Constant(bool()):
            raise refused("a string, an integer or a float", node)
        case ast.Constant(str() | int() | float() as literal):
            value = literal
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as literal)):
            value = -literal
        case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []) if text in _NOT_FINITE:
            value = float(text)
        case _:
            raise refused("a string, an integer or a float", node)
    _check_size(value, node)
    return value


def parse_expression(node: ast.expr) -> Expr:
    """An integer expression whose symbols are names and whose constants fit 64 bits."""
    try:
        e = from_ast(node)
    except ProgramError as error:
        raise ProgramError(error.message, where=line_of(node), fix=error.fix) from error
    for name in free_vars(e):
        check_name("symbol", name, where=line_of(node))
    for value in _constants(e):
        _check_size(value, node)
    return e


def _constants(e: Expr) -> Iterator[int]:
    match e:
        case Const(value):
            yield value
        case Var():
            return
        case Binary(_, a, b):
            yield from _constants(a)
            yield from _constants(b)


def _check_size(value: Attribute, node: ast.AST) -> None:
    """Refuse an integer that no 64-bit machine word holds."""
    if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        raise ProgramError("an integer does not fit 64 bits", where=line_of(node))


def parse_keywords(call: ast.Call, what: str) -> dict[str, ast.expr]:
    """The keyword arguments of a call, each called a `what` in errors, none twice."""
    found: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise refused(f"{what}=value", keyword.value)
        name = check_name(what, keyword.arg, where=line_of(keyword))
        if name in found:
            raise ProgramError(f"{what} {name!r} is given twice", where=line_of(keyword))
        found[name] = keyword.value
    return found


def line_of(node: ast.AST) -> str:
    """The position of a node, for error messages."""
    return f"line {getattr(node, 'lineno', '?')}"


def refused(expected: str, found: ast.AST) -> ProgramError:
    """The error for `found` where something else was `expected`."""
    text = ast.unparse(found).partition("\n")[0]
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return ProgramError(f"expected {expected}, found {shown!r}", where=line_of(found))
