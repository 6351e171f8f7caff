"""Parsing of one line of assembly text with a Lark grammar (LALR, contextual lexer).

In: a line, already free of macros. Out: a `ParsedLine`: labels, a word (mnemonic or directive) and
operands. The grammar is a file beside this one, to which the instruction table adds the marks of
its dialect and the spelling of its registers. Lines are parsed one by one and remembered, so that
an error costs one line and a repeated line costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from tilewright.asm.diagnostics import Fault, Span
from tilewright.asm.expression import (
    Binary,
    Expression,
    Here,
    Integer,
    LocalReference,
    Name,
    Part,
    Unary,
    depth_of,
)
from tilewright.asm.limits import DEFAULT_LIMITS
from tilewright.isa import Dialect, InstructionTable

_ESCAPES = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12, "0": 0, "\\": 92, '"': 34, "'": 39}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedRegister:
    """A register as written."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedMemory:
    """A memory operand; without displacement None."""

    displacement: Expression | None
    base: ParsedRegister


@dataclass(frozen=True, slots=True)
class ParsedImmediate:
    """A number with the dialect's mark of immediates."""

    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedString:
    """A string's bytes."""

    value: bytes
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedReal:
    """A number with a fraction or an exponent."""

    value: float
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedType:
    """`@nobits`, `@progbits`, `@function`, `@object`, without the mark."""

    name: str
    span: Span


ParsedOperand = (
    Integer | Name | LocalReference | Here | Unary | Binary | Part
    | ParsedRegister | ParsedMemory | ParsedImmediate | ParsedString | ParsedReal | ParsedType
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedLabel:
    """`name:`, or `1:` with the digits as name."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A line: labels, and a statement unless `word` is empty; an assignment has the word "="."""

    labels: tuple[ParsedLabel, ...] = ()
    word: str = ""
    span: Span = Span(1)  # noqa: RUF009 (a frozen value)
    operands: tuple[ParsedOperand, ...] = ()


EMPTY_LINE = ParsedLine()


def span_of(operand: ParsedOperand) -> Span:
    """Where an operand stands; for an expression its most telling part."""
    return operand.base.span if isinstance(operand, ParsedMemory) else operand.span


def _span(token: Token) -> Span:
    return Span(token.column or 1, len(token))


def _checked(node: Expression) -> Expression:
    if depth_of(node) > DEFAULT_LIMITS.expression_depth:
        raise Fault(
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
            raise Fault(f"unknown escape \\{body}", span, fix='use \\n \\t \\r \\0 \\xHH \\\\ \\"')
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
            raise Fault(f"'{token}' is no numeric label", _span(token), fix="use 0: to 9999:")
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
        return _checked(Part(token[:-1], operand, _span(token), 1 + depth_of(operand)))

    def integer(self, token: Token) -> Integer:
        return Integer(_integer(token), _span(token))

    def character(self, token: Token) -> Integer:
        return Integer(int.from_bytes(unescape(token[1:-1], _span(token))), _span(token))

    def name(self, token: Token) -> Name:
        return Name(str(token), _span(token))

    def local_reference(self, token: Token) -> LocalReference:
        if len(token) > 5:
            raise Fault(f"no numeric label '{token[:-1]}'", _span(token), fix="use 0: to 9999:")
        return LocalReference(int(token[:-1]), token[-1] == "f", _span(token))

    def here(self, token: Token) -> Here:
        return Here(_span(token))


def _integer(token: Token) -> int:
    digits = str(token)
    if len(digits) > 66:
        raise Fault("the number does not fit 64 bits", _span(token))
    if digits[0] == "0" and digits.isdecimal() and len(digits) > 1:
        raise Fault(
            f"'{digits}' begins with 0: octal or decimal?",
            _span(token),
            fix=f"write 0o{digits.lstrip('0') or '0'} or {int(digits)}",
        )
    value = int(digits, 0)
    if value >= 1 << 64:
        raise Fault("the number does not fit 64 bits", _span(token))
    return value


class LineParser:
    """The parser of one dialect's lines."""

    def __init__(self, grammar: str) -> None:
        self._lark = Lark(
            grammar,
            parser="lalr",
            lexer="contextual",
            transformer=_LineBuilder(),
            maybe_placeholders=True,
        )
        self._cached = lru_cache(maxsize=1 << 14)(self._parsed)

    def parse(self, text: str) -> ParsedLine:
        """The parsed line. Raises Fault."""
        result = self._cached(text)
        if isinstance(result, Fault):
            raise Fault(result.message, result.span, fix=result.fix)
        return result

    def _parsed(self, text: str) -> ParsedLine | Fault:
        try:
            line: Any = self._lark.parse(text)
        except Fault as fault:
            return fault
        except UnexpectedInput as error:
            return _syntax_fault(error, text)
        return line if isinstance(line, ParsedLine) else EMPTY_LINE


def line_parser(table: InstructionTable) -> LineParser:
    """The parser of the lines of a table's dialect."""
    files = tuple((file.prefix, tuple(file.aliases)) for file in table.register_files)
    return _line_parser(table.dialect, files)


@lru_cache(maxsize=16)
def _line_parser(dialect: Dialect, files: tuple[tuple[str, tuple[str, ...]], ...]) -> LineParser:
    text = (resources.files("tilewright.asm") / "line.lark").read_text(encoding="utf-8")
    return LineParser(text + "\n" + dialect_grammar(dialect, register_pattern(files)))


def register_pattern(files: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """A regular expression for what is meant as a register, by each file's prefix and aliases.

    After a mark such as $ any word is meant as one; a bare word only with digits behind a prefix,
    or as an alias.
    """
    choices: dict[str, None] = {}
    for prefix, aliases in files:
        if prefix[0].isalpha() or prefix[0] == "_":
            names = (re.escape(f"{prefix}{alias}") for alias in sorted(aliases, reverse=True))
            choices[f"(?:{'|'.join((f'{prefix}[0-9]+', *names))})(?![A-Za-z0-9_.])"] = None
        else:
            choices[f"{re.escape(prefix[0])}[A-Za-z0-9_]+"] = None
    return "|".join(choices)


def dialect_grammar(dialect: Dialect, registers: str) -> str:
    """The rules and terminals in which dialects differ, for the grammar in `line.lark`."""
    comments = "|".join(re.escape(mark).replace("/", "\\/") for mark in dialect.comments)
    rules = [f"REGISTER.2: /{registers}/", f"COMMENT.9: /(?:{comments}).*/", "%ignore COMMENT"]
    if dialect.immediate:
        rules += [
            f'IMMEDIATE.3: "{dialect.immediate}"',
            "immediate: IMMEDIATE expression",
            "%extend _operand: immediate",
        ]
    style = dialect.memory_style
    opening, closing, mark = (
        f'"{style.opening}"',
        f'"{style.closing}"',
        "IMMEDIATE" * bool(style.mark),
    )
    match style.separator:
        case "":
            rules.append(f"memory: [expression] {opening} register {closing}")
        case "+":
            rules.append(f"memory: {opening} register [signed] {closing}")
            rules.append(
                f"?signed: (PLUS | MINUS) {mark} product | signed (PLUS | MINUS) product -> binary"
            )
        case separator:
            rules.append(f'memory: {opening} register ["{separator}" {mark} expression] {closing}')
    return "\n".join(rules) + "\n"


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
    return Fault(found, span, fix=_expected(expected))


def _character_fault(error: UnexpectedCharacters) -> Fault:
    char, span = error.char, Span(error.column)
    if char in "\"'":
        kind = "string" if char == '"' else "character"
        return Fault(f"the {kind} has no closing {char}", span, fix=f"write {char} at its end")
    if not char.isprintable():
        return Fault(f"unexpected character {ord(char):#x}", span, fix="remove it")
    return Fault(f"unexpected character '{char}'", span, fix=_expected(set(error.allowed or ())))


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
