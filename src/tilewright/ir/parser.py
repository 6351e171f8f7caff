"""The loop IR from its text form: restricted Python syntax in, a program out.

The text is read with the standard `ast` module and never executed
(docs/decisions/0001-ir-text-is-python-syntax.md). `printer` describes the form; text that is
indented as a whole is accepted, so that programs can stand inside functions. Whether the program
means anything is for `verify` to say.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import get_args

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const
from tilewright.common.limits import MOST_THREADS
from tilewright.common.syntax import module_tree
from tilewright.ir.names import STATEMENT_WORDS, check_name
from tilewright.ir.nodes import (
    SCRATCHPAD,
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Program,
    Stmt,
    Tensor,
    TensorKind,
    Transfer,
    Wait,
)
from tilewright.ir.primitives import make_primitive
from tilewright.ir.syntax import (
    line_of,
    parse_attribute,
    parse_expression,
    parse_keywords,
    parse_operand,
    parse_region,
    parse_slot,
    refused,
)

_KINDS: tuple[TensorKind, ...] = get_args(TensorKind)
_TENSOR_FORM = "tensor(dtype, kind, dimension=extent, ...)"
_Statement = Callable[[ast.Call], Stmt]


def parse(text: str) -> Program:
    """The program whose text this is.

    Raises ProgramError with the line and what was expected there; nothing else, whatever the text.

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
        reason = str(error)[:80] or "it is nested too deep"
        raise ProgramError(f"not the text of a program: {reason}") from error


def _program(tree: ast.Module) -> Program:
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
    tensors: list[Tensor] = []
    buffers: list[Buffer] = []
    statements = list(head.body)
    while statements and isinstance(statements[0], ast.AnnAssign):
        declared = _declaration(statements.pop(0))
        if isinstance(declared, Tensor):
            tensors.append(declared)
        else:
            buffers.append(declared)
    name = check_name("program", head.name, where=line_of(head))
    return Program(name, parameters, tuple(tensors), tuple(buffers), _body(statements))


def _parameters(head: ast.FunctionDef) -> tuple[str, ...]:
    match head:
        case ast.FunctionDef(
            args=ast.arguments(
                posonlyargs=[], args=given, vararg=None, kwonlyargs=[], kwarg=None, defaults=[]
            ),
            decorator_list=[],
            returns=None,
        ) if not any(a.annotation for a in given) and not getattr(head, "type_params", None):
            return tuple(check_name("parameter", a.arg, where=line_of(a)) for a in given)
        case _:
            message = "a program takes plain parameters: no decorators, types or defaults"
            raise ProgramError(
                message, where=line_of(head), fix="write 'def name(parameter, ...):'"
            )


def _declaration(node: ast.stmt) -> Tensor | Buffer:
    match node:
        case ast.AnnAssign(
            target=ast.Name(name),
            annotation=ast.Call(ast.Name("tensor" | "buffer" as what)) as call,
            value=None,
            simple=1,
        ):
            check_name(what, name, where=line_of(node))
            return _tensor(name, call) if what == "tensor" else _buffer(name, call)
        case _:
            raise refused("'name: tensor(...)' or 'name: buffer(...)'", node)


def _tensor(name: str, call: ast.Call) -> Tensor:
    match call.args:
        case [ast.Constant(str(dtype)), ast.Constant(str(kind)), *marks]:
            storage, shared = _marks(marks, call)
        case _:
            raise refused(_TENSOR_FORM, call)
    known = next((k for k in _KINDS if k == kind), None)
    if known is None:
        raise refused("the kind " + " or ".join(f'"{k}"' for k in _KINDS), call.args[1])
    shape = parse_keywords(call, "dimension")
    extents = tuple(parse_expression(e) for e in shape.values())
    return Tensor(name, dtype, known, tuple(shape), extents, storage, shared)


def _marks(marks: list[ast.expr], call: ast.Call) -> tuple[str, bool]:
    """(tensor whose storage is used, whether all groups read it together)."""
    storage = ""
    match marks:
        case [ast.Call(ast.Name("storage"), [ast.Name(storage)], []), *rest]:
            check_name("tensor", storage, where=line_of(call))
        case _:
            rest = marks
    match rest:
        case []:
            return storage, False
        case [ast.Name("shared")]:
            return storage, True
        case _:
            raise refused(_TENSOR_FORM, call)


_BUFFER_OPTIONS = {"copies", "offset_bytes", "space"}


def _buffer(name: str, call: ast.Call) -> Buffer:
    form = "buffer(dtype, elements, copies=..., offset_bytes=..., space=...)"
    options = parse_keywords(call, "option")
    match call.args:
        case [ast.Constant(str(dtype)), elements] if options.keys() <= _BUFFER_OPTIONS:
            copies = parse_expression(options["copies"]) if "copies" in options else Const(1)
            offset = _offset(options["offset_bytes"]) if "offset_bytes" in options else None
            space = _space(options["space"]) if "space" in options else SCRATCHPAD
            return Buffer(name, dtype, parse_expression(elements), copies, offset, space)
        case _:
            raise refused(form, call)


def _space(node: ast.expr) -> str:
    match node:
        case ast.Constant(str(name)):
            return check_name("memory", name, where=line_of(node))
        case _:
            raise refused("the name of a memory in quotes", node)


def _offset(node: ast.expr) -> int:
    match parse_expression(node):
        case Const(value):
            return value
        case _:
            raise refused("an integer", node)


def _body(statements: list[ast.stmt]) -> tuple[Stmt, ...]:
    return tuple(_statement(s) for s in statements if not isinstance(s, ast.Pass))


def _statement(node: ast.stmt) -> Stmt:
    match node:
        case ast.For(ast.Name(var), ast.Call(ast.Name("range"), [extent]) as call, orelse=[]):
            check_name("loop variable", var, where=line_of(node))
            return For(var, parse_expression(extent), _body(node.body), _threads(call))
        case ast.For():
            raise refused("'for name in range(extent):' without else", node)
        case ast.If(test, then, orelse):
            return If(parse_expression(test), _body(then), _body(orelse))
        case ast.Expr(ast.Call(ast.Name(name)) as call):
            return _STATEMENTS[name](call) if name in _STATEMENTS else _call(name, call)
        case ast.AnnAssign():
            raise refused("declarations before the first statement", node)
        case _:
            raise refused("a loop, a condition or a call", node)


def _threads(call: ast.Call) -> int:
    """Among how many threads a loop is divided."""
    match call.keywords:
        case []:
            return 1
        case [ast.keyword("threads", ast.Constant(int(count)))] if 1 < count <= MOST_THREADS:
            return count
        case _:
            raise refused(f"range(extent, threads=2 .. {MOST_THREADS})", call)


def _get(call: ast.Call) -> Stmt:
    match call:
        case ast.Call(args=[ast.Subscript() as source, ast.Subscript() as target], keywords=[]):
            buffer, slot = parse_slot(target)
            tensor, ranges = parse_region(source)
            return Transfer("get", tensor, ranges, buffer, slot)
        case _:
            raise refused("get(tensor[range, ...], buffer[slot])", call)


def _put(call: ast.Call) -> Stmt:
    match call:
        case ast.Call(args=[ast.Subscript() as source, ast.Subscript() as target], keywords=[]):
            buffer, slot = parse_slot(source)
            tensor, ranges = parse_region(target)
            return Transfer("put", tensor, ranges, buffer, slot)
        case _:
            raise refused("put(buffer[slot], tensor[range, ...])", call)


def _wait(call: ast.Call) -> Stmt:
    match call:
        case ast.Call(args=[ast.Subscript() as target], keywords=[]):
            return Wait(*parse_slot(target))
        case _:
            raise refused("wait(buffer[slot])", call)


def _barrier(call: ast.Call) -> Stmt:
    if call.args or call.keywords:
        raise refused("barrier()", call)
    return Barrier()


_STATEMENTS: dict[str, _Statement] = dict(
    zip(STATEMENT_WORDS, (_get, _put, _wait, _barrier), strict=True)
)


def _call(name: str, call: ast.Call) -> Call:
    check_name("primitive", name, where=line_of(call))
    operands = tuple(parse_operand(o) for o in call.args)
    attributes = parse_keywords(call, "attribute")
    given = {name: parse_attribute(value) for name, value in attributes.items()}
    try:
        return Call(make_primitive(name, given), operands)
    except ProgramError as error:
        raise ProgramError(error.message, where=line_of(call), fix=error.fix) from error
