"""Parsing of one line of assembly text: a scanner for plain lines, a Lark grammar (LALR, contextual
lexer) for all.

In: a line after macro expansion. Out: a `ParsedLine`. Lines are parsed one by one and cached, so
that an error affects one line and a repeated line costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from msgspec import structs

from tilewright.asm.diagnostics import Fault, SourceError, Span
from tilewright.asm.limits import DEFAULT_LIMITS
from tilewright.asm.text.expression import (
    EMPTY_LINE,
    BinaryOperation,
    Expression,
    Half,
    Here,
    Integer,
    LocalReference,
    Name,
    ParsedImmediate,
    ParsedLabel,
    ParsedLine,
    ParsedMemory,
    ParsedOperand,
    ParsedReal,
    ParsedRegister,
    ParsedString,
    ParsedType,
    UnaryOperation,
    depth_of,
)
from tilewright.asm.text.templates import Template, table_templates
from tilewright.isa import Dialect, InstructionTable

# Reading plain lines without the grammar: a label, an instruction, operands of the common kinds.
#
# In: a line. Out: the result of the grammar, or None for a line that is not plain, valid or not.
# Plain operands are registers, decimal and hexadecimal numbers, names, and memory operands with a
# number.

Match = re.Match[str]

_BLANK = r"[ \t\r]*+"
_NAME = r"\.?[A-Za-z_][A-Za-z0-9_.]*+"
_WORD = r"[A-Za-z_][A-Za-z0-9_.]*+"
_PLAIN_LABEL = rf"(?!\.(?:loc|file)(?![A-Za-z0-9_.])){_NAME}"
_NUMBER = r"(?:0[xX][0-9A-Fa-f]{1,16}|[1-9][0-9]{0,17}|0)(?![A-Za-z0-9_.])"
_MOST_OPERANDS = 6


class _Groups(NamedTuple):
    """The groups of one operand in the pattern of a line."""

    register: int
    base: int
    offset_sign: int
    offset: int
    mark: int
    sign: int
    number: int
    name: int


def line_scanner(syntax: Syntax) -> Callable[[str], ParsedLine | None]:
    """The scanner of a syntax, which matches a line once, without backtracking."""
    pattern = re.compile(_line_pattern(syntax))
    index = pattern.groupindex
    groups = [
        _Groups(*(index[f"{kind}{place}"] for kind in _Groups._fields))
        for place in range(_MOST_OPERANDS)
    ]

    def scan(text: str) -> ParsedLine | None:
        found = pattern.match(text)
        if found is None:
            return None
        label, word = found["label"], found["word"]
        labels = (ParsedLabel(label, _span_in(found, "label")),) if label else ()
        if not word:
            return ParsedLine(labels)
        operands: list[ParsedOperand] = []
        last = found.lastindex or 0
        for group in groups:
            if group.register > last:
                break
            first, behind = found.span(group.register)
            if first < 0:
                operands.append(_plain_operand(found, group))
            else:
                operands.append(ParsedRegister(text[first:behind], Span(first + 1, behind - first)))
        return ParsedLine(labels, word, _span_in(found, "word"), tuple(operands))

    return scan


def _line_pattern(syntax: Syntax) -> str:
    """A label, a word and operands, all optional; operands' groups are numbered by position."""
    operands = ""
    for place in reversed(range(_MOST_OPERANDS)):
        comma = "," if place else ""
        operands = rf"(?:{comma}{_BLANK}(?:{_operand_pattern(syntax, place)}){_BLANK}{operands})?"
    return (
        rf"{_BLANK}(?:(?P<label>{_PLAIN_LABEL}){_BLANK}:{_BLANK})?(?:(?P<word>{_WORD}){_BLANK}{operands})?"
        rf"(?:{syntax.comment_pattern})?\Z"
    )


def _operand_pattern(syntax: Syntax, place: int) -> str:
    immediate = rf"(?P<mark{place}>{re.escape(syntax.dialect.immediate)}){_BLANK}"
    number = (
        rf"{f'(?:{immediate})?' if syntax.dialect.immediate else f'(?P<mark{place}>(?!))?'}"
        rf"(?P<sign{place}>-)?{_BLANK}(?P<number{place}>{_NUMBER})"
    )
    memory = _memory_pattern(syntax, place)
    register = rf"(?P<register{place}>{syntax.register_pattern})"
    return rf"{register}|{memory}|{number}|(?P<name{place}>{_NAME})"


def _memory_pattern(syntax: Syntax, place: int) -> str:
    style = syntax.dialect.memory_style
    opening, closing = re.escape(style.opening), re.escape(style.closing)
    base = rf"{opening}{_BLANK}(?P<base{place}>{syntax.register_pattern}){_BLANK}"
    sign = rf"(?P<offset_sign{place}>{{}}){_BLANK}"
    offset = rf"(?P<offset{place}>{_NUMBER}){_BLANK}"
    minus = f"(?:{sign.format('-')})?"
    match style.separator:
        case "":
            return rf"(?:{minus}{offset})?{base}{closing}"
        case "+":
            return rf"{base}(?:{sign.format('[+-]')}{offset})?{closing}"
        case separator:
            mark = re.escape(style.mark)
            return rf"{base}(?:{separator}{_BLANK}{mark}{_BLANK}{minus}{offset})?{closing}"


def _plain_operand(found: Match, group: _Groups) -> ParsedOperand:
    """An operand other than a register, which is the most frequent kind."""
    if found[group.number]:
        value = _number(found, group.sign, group.number)
        mark = found[group.mark]
        return ParsedImmediate(value, _span_in(found, group.mark)) if mark else value
    if found[group.name]:
        return Name(found[group.name], _span_in(found, group.name))
    offset = _number(found, group.offset_sign, group.offset) if found[group.offset] else None
    return ParsedMemory(offset, ParsedRegister(found[group.base], _span_in(found, group.base)))


def _number(found: Match, sign: int, number: int) -> Expression:
    value = Integer(int(found[number], 0), _span_in(found, number))
    return UnaryOperation("-", value, _span_in(found, sign), 2) if found[sign] == "-" else value


def _span_in(found: Match, group: str | int) -> Span:
    first, behind = found.span(group)
    return Span(first + 1, behind - first)


# Reading of instructions that are written as statements: `$v5 += $v1 * $vs1`.
#
# In: a line. Out: the `ParsedLine` of the first instruction whose template matches, or None: such a
# line is a directive, a label, a mnemonic with operands, or wrong.

ReadOperand = Callable[[str], ParsedLine | Fault]

_STATEMENT_LABEL = r"[ \t]*(?:(?P<label>[A-Za-z_.][A-Za-z0-9_.]*)[ \t]*:)?[ \t]*"


def statement_reader(
    syntax: Syntax, read_operand: ReadOperand
) -> Callable[[str], ParsedLine | None]:
    """The reader of a syntax's statements; `read_operand` parses a line of one operand."""
    end = rf"[ \t\r]*(?:{syntax.comment_pattern})?\Z"
    statements = [
        (template, re.compile(rf"{_STATEMENT_LABEL}(?P<body>{template.pattern}){end}"))
        for template in syntax.templates
    ]

    def read(text: str) -> ParsedLine | None:
        for template, pattern in statements:
            match = pattern.match(text)
            if match is not None:
                return _line(template, match, read_operand)
        return None

    return read


def _line(template: Template, match: re.Match[str], read_operand: ReadOperand) -> ParsedLine:
    label = match["label"]
    labels = (ParsedLabel(label, _span_in(match, "label")),) if label else ()
    operands = tuple(
        _statement_operand(match, f"o{role}", read_operand) for role, _ in template.slots
    )
    return ParsedLine(labels, template.mnemonic, _span_in(match, "body"), operands)


def _statement_operand(
    match: re.Match[str], group: str, read_operand: ReadOperand
) -> ParsedOperand:
    """A register, or the parser's result for the operand, at the operand's columns."""
    written = match[group]
    if written.startswith("$"):
        return ParsedRegister(written, _span_in(match, group))
    padding = " " * (match.start(group) - 1)
    found = read_operand(f"x{padding}{written}")
    if isinstance(found, Fault):
        raise found
    if len(found.operands) != 1:
        raise Fault(
            SourceError.SYNTAX,
            "an operand is missing",
            _span_in(match, group),
            fix="write a number",
        )
    return found.operands[0]


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
        return _checked(BinaryOperation(str(operator), left, right, _span(operator), depth))

    def unary(self, operator: Token, operand: Expression) -> Expression:
        return _checked(
            UnaryOperation(str(operator), operand, _span(operator), 1 + depth_of(operand))
        )

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

    A scanner reads plain lines, most of a program; the grammar reads all others, and defines the
    result that the scanner must produce.
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
        """Parse a line other than a statement: a mnemonic or directive and its operands."""
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
        """The line as parsed by the grammar, or the fault."""
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
            expected = set(error.accepts if isinstance(error, UnexpectedToken) else ())
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


@dataclass(frozen=True)
class Syntax:
    """Syntax of lines: the dialect, each register file's prefix and aliases (`registers`), and the
    instructions that are written as statements (`templates`).
    """

    dialect: Dialect
    registers: tuple[tuple[str, tuple[str, ...]], ...]
    templates: tuple[Template, ...] = ()

    @cached_property
    def register_pattern(self) -> str:
        """A regular expression for text that denotes a register, existing or not.

        After a mark such as $, any word does; a bare word does only as a prefix with digits, or as
        an alias.
        """
        choices: dict[str, None] = {}
        for prefix, aliases in self.registers:
            if prefix[0] in "$%":
                choices[f"{re.escape(prefix[0])}[A-Za-z0-9_]+"] = None
            else:
                names = "|".join(f"{prefix}{re.escape(alias)}" for alias in aliases)
                words = f"{prefix}[0-9]+|{names}" if names else f"{prefix}[0-9]+"
                choices[f"(?:{words})(?![A-Za-z0-9_.])"] = None
        return "|".join(choices)

    @property
    def comment_pattern(self) -> str:
        """A regular expression for a comment."""
        return f"(?:{'|'.join(map(re.escape, self.dialect.comments))}).*"


def syntax_of(table: InstructionTable) -> Syntax:
    """The syntax of a table's lines."""
    files = tuple((file.prefix, tuple(file.aliases)) for file in table.register_files)
    return Syntax(table.dialect, files, table_templates(table))


def line_grammar(syntax: Syntax) -> str:
    """The Lark grammar of a line: `line.lark` with the dialect's spellings."""
    common = (resources.files("tilewright.asm.text") / "line.lark").read_text(encoding="utf-8")
    dialect, registers = syntax.dialect, syntax.register_pattern
    comments = syntax.comment_pattern.replace("/", "\\/")
    rules = [common, f"REGISTER.2: /{registers}/", f"COMMENT.9: /{comments}/", "%ignore COMMENT"]
    if dialect.immediate:
        rules += [
            f'IMMEDIATE.3: "{dialect.immediate}"',
            "immediate: IMMEDIATE expression",
            "%extend _operand: immediate",
        ]
    style = dialect.memory_style
    opening, closing = f'"{style.opening}"', f'"{style.closing}"'
    match style.separator:
        case "":
            rules.append(f"memory: [expression] {opening} register {closing}")
        case "+":
            rules.append(f"memory: {opening} register [signed] {closing}")
            rules.append(
                "?signed: (PLUS | MINUS) product | signed (PLUS | MINUS) product -> binary"
            )
        case separator:
            mark = "IMMEDIATE" * bool(style.mark)
            rules.append(f'memory: {opening} register ["{separator}" {mark} expression] {closing}')
    return "\n".join(rules) + "\n"
