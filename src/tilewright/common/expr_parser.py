"""Parsing of integer expressions: the text form is Python arithmetic and is never executed.

In: a text, or a syntax tree of Python's parser. Out: the expression, such that
`parse_expr(str(e)) == e`.
"""

from __future__ import annotations

import ast

from tilewright.common.errors import ProgramError
from tilewright.common.expr import FUNCTIONS, Const, Expr, Var, binary
from tilewright.common.syntax import expression_tree

_AST_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def parse_expr(text: str) -> Expr:
    """Parse the text form without executing it. Raises ProgramError for any other text."""
    try:
        return from_ast(expression_tree(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"{text[:60]!r} is not an integer expression") from error


def from_ast(node: ast.AST) -> Expr:
    """Translate a Python syntax tree of the expression language."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return Const(value)
        case ast.Name(id=name):
            return Var(name)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return Const(-value)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _AST_OPERATORS:
            return binary(_AST_OPERATORS[type(op)], from_ast(a), from_ast(b))
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _AST_OPERATORS:
            return binary(_AST_OPERATORS[type(op)], from_ast(a), from_ast(b))
        case ast.BoolOp(op=ast.And(), values=[a, *rest]):
            both = from_ast(a)
            for other in rest:
                both = binary("and", both, from_ast(other))
            return both
        case ast.Call(func=ast.Name(id=name), args=[a, b], keywords=[]) if name in FUNCTIONS:
            return binary(name, from_ast(a), from_ast(b))
        case _:
            raise ProgramError(f"{ast.unparse(node)[:60]!r} is not an integer expression")
