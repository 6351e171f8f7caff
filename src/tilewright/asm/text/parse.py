"""Parsing of one line of assembly text: a scanner for plain lines, a Lark grammar (LALR, contextual
lexer) for all.

In: a line, already free of macros. Out: a `ParsedLine`. Lines are parsed one by one and remembered,
so that an error costs one line and a repeated line costs nothing.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from msgspec import structs

from tilewright.asm.diagnostics import Fault, Span
from tilewright.asm.error_codes import SourceError
from tilewright.asm.limits import DEFAULT_LIMITS
from tilewright.asm.text.expression import (
    Binary,
    Expression,
    Half,
    Here,
    Integer,
    LocalReference,
    Name,
    Unary,
    depth_of,
)
from tilewright.asm.text.grammar import Syntax, line_grammar, syntax_of
from tilewright.asm.text.parsed import (
    EMPTY_LINE,
    ParsedImmediate,
    ParsedLabel,
    ParsedLine,
    ParsedMemory,
    ParsedOperand,
    ParsedReal,
    ParsedRegister,
    ParsedString,
    ParsedType,
)
from tilewright.asm.text.scan import line_scanner
from tilewright.asm.text.statements import statement_reader
from tilewright.isa import InstructionTable

_ESCAPES = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12, "0": 0, "\\": 92, '"': 34, "'": 39}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


def _span(token: Token) -> Span:
    return Span(token.column or 1, len(token))


def _checked(node: Expression) -> Expression:
    if depth_of(node) > DEFAULT_LIMITS.expression_depth:
        raise Fault(
            SourceError.LIMIT,
            f"the expression is more than {DEFAULT_LIMITS.expression_depth} operators deep",
            node.span,
            fix="give parts of it a name with .set",
        )
    return node


def unescape(text: str, span: Span) -> bytes:
    """The bytes of a string or character constant without its quotes."""

    def replace(match: re.Match[str]) -> str:
        body = match[1]
        if body[0] == "x" and len(body) > 1:
            return chr(int(body[1:], 16))
        if body[0] in "01234567":
            return chr(int(body, 8) & 255)
        if body not in _ESCAPES:
            raise Fault(
                SourceError.CONSTANT,
                f"unknown escape \\{body}",
                span,
                fix='use \\n \\t \\r \\0 \\xHH \\\\ \\"',
            )
        return chr(_ESCAPES[body])

    pieces, last = [], 0
    for match in _ESCAPE.finditer(text):
        pieces += [text[last : match.start()].encode(), replace(match).encode("latin-1")]
        last = match.end()
    return b"".join([*pieces, text[last:].encode()])


@v_args(inline=True)
class _LineBuilder(Transformer[Token, ParsedLine]):
    """Turns the grammar's rules into the values above while the line is parsed."""

    def start(self, *parts: ParsedLabel | ParsedLine) -> ParsedLine:
        labels = tuple(part for part in parts if isinstance(part, ParsedLabel))
        last = parts[-1] if parts else None
        if isinstance(last, ParsedLine):
            return ParsedLine(labels, last.word, last.span, last.operands)
        return ParsedLine(labels)

    def named_label(self, token: Token) -> ParsedLabel:
        return ParsedLabel(str(token), _span(token))

    def numeric_label(self, token: Token) -> ParsedLabel:
        if not token.isdecimal() or len(token) > 4:
            raise Fault(
                SourceError.CONSTANT,
                f"'{token}' is no numeric label",
                _span(token),
                fix="use 0: to 9999:",
            )
        return ParsedLabel(str(int(token)), _span(token))

    def assignment(self, token: Token, value: Expression) -> ParsedLine:
        return ParsedLine((), "=", _span(token), (Name(str(token), _span(token)), value))

    def statement(self, token: Token, *operands: ParsedOperand) -> ParsedLine:
        return ParsedLine((), str(token), _span(token), operands)

    def register(self, token: Token) -> ParsedRegister:
        return ParsedRegister(str(token), _span(token))

    def memory(self, *parts: Expression | ParsedRegister | Token | None) -> ParsedMemory:
        base = next(part for part in parts if isinstance(part, ParsedRegister))
        displacement = next((part for part in parts if isinstance(part, Expression)), None)
        return ParsedMemory(displacement, base)

    def signed(self, sign: Token, operand: Expression) -> Expression:
        return self.unary(sign, operand) if sign == "-" else operand

    def immediate(self, mark: Token, value: Expression) -> ParsedImmediate:
        return ParsedImmediate(value, _span(mark))

    def string(self, token: Token) -> ParsedString:
        return ParsedString(unescape(token[1:-1], _span(token)), _span(token))

    def section_type(self, token: Token) -> ParsedType:
        return ParsedType(token[1:], _span(token))

    def real(self, token: Token) -> ParsedReal:
        return ParsedReal(float(token), _span(token))

    def signed_real(self, sign: Token, token: Token) -> ParsedReal:
        value = float(token)
        return ParsedReal(-value if sign == "-" else value, _span(token))

    def binary(self, left: Expression, operator: Token, right: Expression) -> Expression:
        depth = 1 + max(depth_of(left), depth_of(right))
        return _checked(Binary(str(operator), left, right, _span(operator), depth))

    def unary(self, operator: Token, operand: Expression) -> Expression:
        return _checked(Unary(str(operator), operand, _span(operator), 1 + depth_of(operand)))

    def part(self, token: Token, operand: Expression) -> Expression:
        return _checked(Half(token[:-1], operand, _span(token), 1 + depth_of(operand)))

    def integer(self, token: Token) -> Integer:
        return Integer(_integer(token), _span(token))

    def character(self, token: Token) -> Integer:
        return Integer(int.from_bytes(unescape(token[1:-1], _span(token))), _span(token))

    def name(self, token: Token) -> Name:
        return Name(str(token), _span(token))

    def local_reference(self, token: Token) -> LocalReference:
        if len(token) > 5:
            raise Fault(
                SourceError.CONSTANT,
                f"no numeric label '{token[:-1]}'",
                _span(token),
                fix="use 0: to 9999:",
            )
        return LocalReference(int(token[:-1]), token[-1] == "f", _span(token))

    def here(self, token: Token) -> Here:
        return Here(_span(token))


def _integer(token: Token) -> int:
    digits = str(token)
    if len(digits) > 66:
        raise Fault(SourceError.CONSTANT, "the number does not fit 64 bits", _span(token))
    if digits[0] == "0" and digits.isdecimal() and len(digits) > 1:
        raise Fault(
            SourceError.CONSTANT,
            f"'{digits}' begins with 0: octal or decimal?",
            _span(token),
            fix=f"write 0o{digits.lstrip('0') or '0'} or {int(digits)}",
        )
    value = int(digits, 0)
    if value >= 1 << 64:
        raise Fault(SourceError.CONSTANT, "the number does not fit 64 bits", _span(token))
    return value


class LineParser:
    """The parser of the lines of one syntax.

    Plain lines, most of a program, are read by a scanner; the grammar reads all others and is what
    the scanner has to agree with.
    """

    def __init__(self, syntax: Syntax) -> None:
        self._syntax = syntax
        self.scan = line_scanner(syntax)
        self._statement = statement_reader(syntax, self._operands)
        self._cached = lru_cache(maxsize=1 << 14)(self._parsed)

    def parse(self, text: str) -> ParsedLine:
        """The parsed line. Raises Fault."""
        result = self._cached(text)
        if isinstance(result, Fault):
            raise result.again()
        return result

    def _parsed(self, text: str) -> ParsedLine | Fault:
        try:
            parsed = self._statement(text) or self._operands(text)
        except Fault as fault:
            return fault
        if self._syntax.dialect.ignores_case and isinstance(parsed, ParsedLine):
            word = parsed.word.lower()
            return parsed if word == parsed.word else structs.replace(parsed, word=word)
        return parsed

    def _operands(self, text: str) -> ParsedLine | Fault:
        """A line that is no statement: a mnemonic or directive and its operands."""
        return self.scan(text) or self.by_grammar(text)

    @cached_property
    def _lark(self) -> Lark:
        return Lark(
            line_grammar(self._syntax),
            parser="lalr",
            lexer="contextual",
            transformer=_LineBuilder(),
            maybe_placeholders=True,
        )

    def by_grammar(self, text: str) -> ParsedLine | Fault:
        """The line as the grammar reads it, or why it cannot."""
        try:
            line: Any = self._lark.parse(text)
        except Fault as fault:
            return fault
        except UnexpectedInput as error:
            return _syntax_fault(error, text)
        return line if isinstance(line, ParsedLine) else EMPTY_LINE


def line_parser(table: InstructionTable) -> LineParser:
    """The parser of the lines of a table."""
    return _line_parser(syntax_of(table))


_line_parser = lru_cache(maxsize=16)(LineParser)


_OPERANDS = {"REGISTER", "INTEGER", "NAME", "STRING", "REAL", "CHARACTER", "HERE", "PART"}
_WORDS = {"COMMA": "','", "COLON": "':'", "LPAR": "'('", "RPAR": "')'", "EQUAL": "'='"}


def _syntax_fault(error: UnexpectedInput, text: str) -> Fault:
    match error:
        case UnexpectedToken(token=token) if token.type != "$END":
            found, span = f"unexpected '{token}'", _span(token)
            expected = set(error.accepts or error.expected)
        case UnexpectedCharacters():
            return _character_fault(error)
        case UnexpectedToken() | UnexpectedEOF():
            found, span = "the line ends too early", Span(max(len(text.rstrip()), 1))
            expected = set(error.accepts or () if isinstance(error, UnexpectedToken) else ())
        case _:
            found, span, expected = "not understood", Span(1), set()
    return Fault(SourceError.SYNTAX, found, span, fix=_expected(expected))


def _character_fault(error: UnexpectedCharacters) -> Fault:
    char, span = error.char, Span(error.column)
    if char in "\"'":
        kind = "string" if char == '"' else "character"
        return Fault(
            SourceError.UNCLOSED,
            f"the {kind} has no closing {char}",
            span,
            fix=f"write {char} at its end",
        )
    if not char.isprintable():
        return Fault(
            SourceError.SYNTAX, f"unexpected character {ord(char):#x}", span, fix="remove it"
        )
    return Fault(
        SourceError.SYNTAX,
        f"unexpected character '{char}'",
        span,
        fix=_expected(set(error.allowed or ())),
    )


def _expected(terminals: set[str]) -> str:
    words = [word for terminal, word in _WORDS.items() if terminal in terminals]
    if "PRODUCT" in terminals:
        words.append("an operator")
    if "REGISTER" in terminals and "INTEGER" not in terminals:
        words.append("a register")
    elif len(terminals & _OPERANDS) >= 3:
        words.append("an operand" if "REGISTER" in terminals else "a number or symbol")
    elif "NAME" in terminals:
        words.append("a name")
    if "$END" in terminals:
        words.append("the end of the line")
    return f"expected {' or '.join(words)}" if words else ""
