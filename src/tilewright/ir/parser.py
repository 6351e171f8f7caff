"""The loop IR from its text form: restricted Python syntax in, a program out.

The text is parsed with the standard `ast` module and never executed
(docs/decisions/0001-ir-text-is-python-syntax.md). `printer` describes the form. Text may be
indented as a whole, so that programs can be embedded in functions. `verify` checks the rules of a
program's stage.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias, get_args

from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, free_vars
from tilewright.common.expr_parser import from_ast
from tilewright.common.limits import MOST_THREADS
from tilewright.common.syntax import module_tree
from tilewright.ir import nodes as ir
from tilewright.ir.primitive import Attribute
from tilewright.ir.primitives import make_primitive

# Expressions, regions, slots, operands and attributes; statements and declarations are below.

_INTEGER_LIMIT = 2**63
_NOT_FINITE = ("inf", "-inf", "nan")


def parse_operand(node: ast.expr) -> ir.Operand:
    """A tile `tensor[...](roles)` or a view `buffer[slot](..., shape=..., roles=...)`."""
    match node:
        case ast.Call(ast.Subscript() as region, [ast.Constant(str(roles))], []):
            tensor, ranges = parse_region(region)
            return ir.Tile(tensor, ranges, roles)
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
) -> ir.View:
    buffer, slot = parse_slot(place)
    shape = tuple(parse_expression(e) for e in extents)
    whole = tuple(ir.at(0, e) for e in shape)
    return ir.View(buffer, slot, shape, tuple(_range(r) for r in ranges) or whole, roles)


def parse_region(node: ast.Subscript) -> tuple[str, tuple[ir.Range, ...]]:
    """A tensor's name and one range per dimension."""
    match node:
        case ast.Subscript(ast.Name(name), ast.Tuple(places)):
            pass
        case ast.Subscript(ast.Name(name), place):
            places = [place]
        case _:
            raise refused("tensor[range, ...]", node)
    ir.check_name("tensor", name, where=_line_of(node))
    return name, tuple(_range(p) for p in places)


def parse_slot(node: ast.Subscript) -> tuple[str, Expr]:
    """A buffer's name and slot."""
    match node:
        case ast.Subscript(ast.Name(name), slot):
            return ir.check_name("buffer", name, where=_line_of(node)), parse_expression(slot)
        case _:
            raise refused("buffer[slot]", node)


def _range(node: ast.expr) -> ir.Range:
    match node:
        case ast.Call(ast.Name("at"), [start, extent], []):
            return ir.Range(parse_expression(start), parse_expression(extent))
        case ast.Call(ast.Name("at"), [start, extent, step], []):
            return ir.Range(
                parse_expression(start), parse_expression(extent), parse_expression(step)
            )
        case ast.Call(ast.Name("at"), [_, _, _, _] as parts, []):
            return ir.Range(*(parse_expression(part) for part in parts))
        case ast.Slice() | ast.Call(ast.Name("at")):
            raise refused("an index or at(start, extent, step)", node)
        case _:
            return ir.Range(parse_expression(node), Const(1))


def parse_attribute(node: ast.expr) -> Attribute:
    """A literal; floats without a literal are written like `float("inf")`."""
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
        raise ProgramError(error.message, where=_line_of(node), fix=error.fix) from error
    for name in free_vars(e):
        ir.check_name("symbol", name, where=_line_of(node))
    for value in _constants(e):
        _check_size(value, node)
    return e


def _constants(e: Expr) -> Iterator[int]:
    match e:
        case Const(value):
            yield value
        case Var():
            return
        case BinaryExpr(_, a, b):
            yield from _constants(a)
            yield from _constants(b)


def _check_size(value: Attribute, node: ast.AST) -> None:
    """Refuse an integer that no 64-bit machine word holds."""
    if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        raise ProgramError("an integer does not fit 64 bits", where=_line_of(node))


def parse_keywords(call: ast.Call, what: str) -> dict[str, ast.expr]:
    """The keyword arguments of a call, none twice; errors call each a `what`."""
    found: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise refused(f"{what}=value", keyword.value)
        name = ir.check_name(what, keyword.arg, where=_line_of(keyword))
        if name in found:
            raise ProgramError(f"{what} {name!r} is given twice", where=_line_of(keyword))
        found[name] = keyword.value
    return found


def _line_of(node: ast.AST) -> str:
    """The position of a node, for error messages."""
    return f"line {getattr(node, 'lineno', '?')}"


def refused(expected: str, found: ast.AST) -> ProgramError:
    """The error for `found` where something else was `expected`."""
    text = ast.unparse(found).partition("\n")[0]
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return ProgramError(f"expected {expected}, found {shown!r}", where=_line_of(found))


_KINDS: tuple[ir.TensorKind, ...] = get_args(ir.TensorKind)
_TENSOR_FORM = "tensor(dtype, kind, dimension=extent, ...)"
_Statement = Callable[[ast.Call], ir.Stmt]


def parse(text: str) -> ir.Program:
    """The program of a text form.

    Raises only ProgramError, with the line and the expected form, whatever the text.

    >>> program = parse("def p(n):\\n    x: tensor('f64', 'input', rows=n)\\n    barrier()")
    >>> program.parameters, program.tensor("x").dims, program.body
    (('n',), ('rows',), (Barrier(),))
    """
    try:
        return _program(module_tree(text))
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else ""
        raise ProgramError(f"not the text of a program: {error.msg}", where=where) from error
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "it is nested too deep"
        raise ProgramError(f"not the text of a program: {reason}") from error


def _program(tree: ast.Module) -> ir.Program:
    match tree.body:
        case []:
            raise ProgramError("expected a program, found no text", fix="start with 'def name():'")
        case [ast.FunctionDef() as head]:
            pass
        case [ast.FunctionDef(), second, *_]:
            raise refused("the end of the text after one program", second)
        case [first, *_]:
            raise refused("'def name(parameter, ...):'", first)
    parameters = _parameters(head)
    tensors: list[ir.Tensor] = []
    buffers: list[ir.Buffer] = []
    statements = list(head.body)
    while statements and isinstance(statements[0], ast.AnnAssign):
        declared = _declaration(statements.pop(0))
        if isinstance(declared, ir.Tensor):
            tensors.append(declared)
        else:
            buffers.append(declared)
    name = ir.check_name("program", head.name, where=_line_of(head))
    return ir.Program(name, parameters, tuple(tensors), tuple(buffers), _body(statements))


def _parameters(head: ast.FunctionDef) -> tuple[str, ...]:
    match head:
        case ast.FunctionDef(
            args=ast.arguments(
                posonlyargs=[], args=given, vararg=None, kwonlyargs=[], kwarg=None, defaults=[]
            ),
            decorator_list=[],
            returns=None,
        ) if not any(a.annotation for a in given) and not getattr(head, "type_params", None):
            return tuple(ir.check_name("parameter", a.arg, where=_line_of(a)) for a in given)
        case _:
            message = "a program takes plain parameters: no decorators, types or defaults"
            raise ProgramError(
                message, where=_line_of(head), fix="write 'def name(parameter, ...):'"
            )


def _declaration(node: ast.stmt) -> ir.Tensor | ir.Buffer:
    match node:
        case ast.AnnAssign(
            target=ast.Name(name),
            annotation=ast.Call(ast.Name("tensor" | "buffer" as what)) as call,
            value=None,
            simple=1,
        ):
            ir.check_name(what, name, where=_line_of(node))
            return _tensor(name, call) if what == "tensor" else _buffer(name, call)
        case _:
            raise refused("'name: tensor(...)' or 'name: buffer(...)'", node)


def _tensor(name: str, call: ast.Call) -> ir.Tensor:
    match call.args:
        case [ast.Constant(str(dtype)), ast.Constant(str(kind)), *marks]:
            storage, shared, zeros = _marks(marks, call)
        case _:
            raise refused(_TENSOR_FORM, call)
    known = next((k for k in _KINDS if k == kind), None)
    if known is None:
        raise refused("the kind " + " or ".join(f'"{k}"' for k in _KINDS), call.args[1])
    shape = parse_keywords(call, "dimension")
    extents = tuple(parse_expression(e) for e in shape.values())
    return ir.Tensor(name, dtype, known, tuple(shape), extents, storage, shared, zeros)


_Zeros: TypeAlias = tuple[tuple[str, int, int], ...]


def _marks(marks: list[ast.expr], call: ast.Call) -> tuple[str, bool, _Zeros]:
    """The tensor whose storage is shared, True if all groups read it together, and its zeros."""
    storage, shared = "", False
    zeros: _Zeros = ()
    match marks:
        case [ast.Call(ast.Name("storage"), [ast.Name(storage)], []), *marks]:
            ir.check_name("tensor", storage, where=_line_of(call))
    match marks:
        case [ast.Name("shared"), *marks]:
            shared = True
    match marks:
        case [ast.Call(ast.Name("zeros"), [], ends), *marks]:
            zeros = tuple(_zeros(end, call) for end in ends)
    if marks:
        raise refused(_TENSOR_FORM, call)
    return storage, shared, zeros


def _zeros(end: ast.keyword, call: ast.Call) -> tuple[str, int, int]:
    match end:
        case ast.keyword(str(name), ast.Tuple([ast.Constant(int(first)), ast.Constant(int(last))])):
            return ir.check_name("dimension", name, where=_line_of(call)), first, last
        case _:
            raise refused(_TENSOR_FORM, call)


_BUFFER_OPTIONS = {"copies", "offset_bytes", "space"}


def _buffer(name: str, call: ast.Call) -> ir.Buffer:
    form = "buffer(dtype, elements, copies=..., offset_bytes=..., space=...)"
    options = parse_keywords(call, "option")
    match call.args:
        case [ast.Constant(str(dtype)), elements] if options.keys() <= _BUFFER_OPTIONS:
            copies = parse_expression(options["copies"]) if "copies" in options else Const(1)
            offset = _offset(options["offset_bytes"]) if "offset_bytes" in options else None
            space = _space(options["space"]) if "space" in options else ir.SCRATCHPAD
            return ir.Buffer(name, dtype, parse_expression(elements), copies, offset, space)
        case _:
            raise refused(form, call)


def _space(node: ast.expr) -> str:
    match node:
        case ast.Constant(str(name)):
            return ir.check_name("memory", name, where=_line_of(node))
        case _:
            raise refused("the name of a memory in quotes", node)


def _offset(node: ast.expr) -> int:
    match parse_expression(node):
        case Const(value):
            return value
        case _:
            raise refused("an integer", node)


def _body(statements: list[ast.stmt]) -> tuple[ir.Stmt, ...]:
    return tuple(_statement(s) for s in statements if not isinstance(s, ast.Pass))


def _statement(node: ast.stmt) -> ir.Stmt:
    match node:
        case ast.For(ast.Name(var), ast.Call(ast.Name("range"), [extent]) as call, orelse=[]):
            ir.check_name("loop variable", var, where=_line_of(node))
            return ir.For(var, parse_expression(extent), _body(node.body), _threads(call))
        case ast.For():
            raise refused("'for name in range(extent):' without else", node)
        case ast.If(test, then, orelse):
            return ir.If(parse_expression(test), _body(then), _body(orelse))
        case ast.Expr(ast.Call(ast.Name(name)) as call):
            return _STATEMENTS[name](call) if name in _STATEMENTS else _call(name, call)
        case ast.AnnAssign():
            raise refused("declarations before the first statement", node)
        case _:
            raise refused("a loop, a condition or a call", node)


def _threads(call: ast.Call) -> int:
    """The number of threads that a loop is divided among."""
    match call.keywords:
        case []:
            return 1
        case [ast.keyword("threads", ast.Constant(int(count)))] if 1 < count <= MOST_THREADS:
            return count
        case _:
            raise refused(f"range(extent, threads=2 .. {MOST_THREADS})", call)


_TRANSFERS: dict[ir.Direction, str] = {
    "get": "get(tensor[range, ...], buffer[slot])",
    "put": "put(buffer[slot], tensor[range, ...])",
}


def _transfer(way: ir.Direction, call: ast.Call) -> ir.Stmt:
    match call.args:
        case [ast.Subscript() as source, ast.Subscript() as target]:
            region, place = (source, target) if way == "get" else (target, source)
        case _:
            raise refused(_TRANSFERS[way], call)
    buffer, slot = parse_slot(place)
    tensor, ranges = parse_region(region)
    match call.keywords:
        case []:
            return ir.Transfer(way, tensor, ranges, buffer, slot)
        case [ast.keyword("first", value)]:
            return ir.Transfer(way, tensor, ranges, buffer, slot, parse_expression(value))
        case _:
            raise refused(f"{way} with no keyword but first, an element of the slot", call)


def _wait(call: ast.Call) -> ir.Stmt:
    match call:
        case ast.Call(args=[ast.Subscript() as target], keywords=[]):
            return ir.Wait(*parse_slot(target))
        case _:
            raise refused("wait(buffer[slot])", call)


def _barrier(call: ast.Call) -> ir.Stmt:
    if call.args or call.keywords:
        raise refused("barrier()", call)
    return ir.Barrier()


_STATEMENTS: dict[str, _Statement] = dict(
    zip(
        ir.STATEMENT_WORDS,
        (partial(_transfer, "get"), partial(_transfer, "put"), _wait, _barrier),
        strict=True,
    )
)


def _call(name: str, call: ast.Call) -> ir.Call:
    ir.check_name("primitive", name, where=_line_of(call))
    operands = tuple(parse_operand(o) for o in call.args)
    attributes = parse_keywords(call, "attribute")
    given = {name: parse_attribute(value) for name, value in attributes.items()}
    try:
        return ir.Call(make_primitive(name, given), operands)
    except ProgramError as error:
        raise ProgramError(error.message, where=_line_of(call), fix=error.fix) from error
