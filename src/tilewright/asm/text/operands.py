"""Binding of a parsed line to the instruction table, which yields a checked `Instruction`.

Symbols with unknown addresses remain `SymbolReference` operands; the second pass resolves or
relocates them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import assert_never

from tilewright.asm.diagnostics import Fault, SourceError, Span
from tilewright.asm.front_end import nearest_word
from tilewright.asm.suggest import did_you_mean
from tilewright.asm.text.expression import (
    Expression,
    ExpressionValue,
    Integer,
    NameContext,
    ParsedImmediate,
    ParsedLine,
    ParsedMemory,
    ParsedOperand,
    ParsedReal,
    ParsedRegister,
    ParsedString,
    ParsedType,
    expression_value,
    span_of,
)
from tilewright.common.errors import AssemblyError
from tilewright.isa import (
    Instruction,
    InstructionSpec,
    InstructionTable,
    Memory,
    Operand,
    Register,
    SymbolReference,
    make_instruction,
)
from tilewright.isa.table import OperandSpec

_UNMARKED = frozenset((ParsedRegister, ParsedMemory))
_FIX_OF_RANGE = {
    "register_or_immediate": "put the number into a register",
    "memory": "add a part of it to the base register",
    "target": "branch to a nearer place that goes on from there",
}


def bind_instruction(
    parsed: ParsedLine,
    table: InstructionTable,
    context: NameContext,
    *,
    labels: tuple[str, ...] = (),
    line_number: int = 0,
) -> Instruction:
    """The instruction of a line. Raises Fault at the wrong operand."""
    if parsed.word not in table.known_mnemonics:
        raise unknown_instruction(parsed, table)
    registers = _registers(table)
    operands = [
        (isinstance(operand, ParsedRegister) and registers.get(operand.name))
        or bind_operand(operand, table, context)
        for operand in parsed.operands
    ]
    if table.dialect.immediate and not _UNMARKED.issuperset(map(type, parsed.operands)):
        _check_marks(parsed, table)
    try:
        return make_instruction(table, parsed.word, operands, labels=labels, line=line_number)
    except AssemblyError as error:
        raise _located(error, parsed, table, operands) from None


def unknown_instruction(parsed: ParsedLine, table: InstructionTable) -> Fault:
    """The fault of a line with a word that the table does not contain."""
    fix = nearest_word(table, parsed.word)
    if not fix and not parsed.operands:
        fix = f"write {parsed.word}: if it is a label"
    return Fault(
        SourceError.INSTRUCTION,
        f"unknown instruction '{parsed.word}' in {table.name}",
        parsed.span,
        fix=fix,
    )


def bind_operand(operand: ParsedOperand, table: InstructionTable, context: NameContext) -> Operand:
    """The value of one operand. Raises Fault."""
    match operand:
        case ParsedRegister():
            return _register(operand, table)
        case Integer(number, _) | ParsedImmediate(Integer(number, _), _):
            return number
        case ParsedMemory(displacement, base):
            offset = (
                0 if displacement is None else _address(expression_value(displacement, context))
            )
            return Memory(offset, _register(base, table))
        case ParsedImmediate(value, _):
            return _address(expression_value(value, context))
        case ParsedString(_, span):
            raise Fault(SourceError.KIND, "a string cannot be an operand of an instruction", span)
        case ParsedReal(_, span):
            raise Fault(SourceError.KIND, "a fraction cannot be an operand of an instruction", span)
        case ParsedType(name, span):
            raise Fault(SourceError.KIND, f"@{name} cannot be an operand of an instruction", span)
        case _:
            return _address(expression_value(operand, context))
    assert_never(operand)


def _address(value: ExpressionValue) -> int | SymbolReference:
    return SymbolReference(value.symbol, value.offset, value.part) if value.symbol else value.offset


@lru_cache(maxsize=32)
def _registers(table: InstructionTable) -> dict[str, Register]:
    return {name: Register(number) for name, number in table.register_numbers.items()}


def _register(operand: ParsedRegister, table: InstructionTable) -> Register:
    register = _registers(table).get(operand.name)
    if register is None:
        names = (f"{f.prefix}0 .. {f.prefix}{f.count - 1}" for f in table.register_files)
        fix = did_you_mean(operand.name, (n for n in table.register_numbers if n[-1].isalpha()))
        raise Fault(
            SourceError.REGISTER,
            f"no register '{operand.name}'",
            operand.span,
            fix=fix if operand.name[-1:].isalpha() and fix else f"registers are {', '.join(names)}",
        )
    return register


def _located(
    error: AssemblyError, parsed: ParsedLine, table: InstructionTable, operands: list[Operand]
) -> Fault:
    """The table's error, located at the operand whose role it names."""
    spec, other = spec_of(parsed, table), _other_form(parsed, table, operands)
    if spec is None:
        return Fault(SourceError.COUNT, error.message, parsed.span, fix=error.fix or other)
    for index, operand in enumerate(table.operands_of(spec)):
        if f": operand {operand.role} " in error.message:
            is_range = "outside" in error.message
            fixes = _FIX_OF_RANGE if is_range else _fix_of_kind(table)
            fix = error.fix or other or fixes.get(operand.kind, "")
            code = SourceError.RANGE if is_range else SourceError.KIND
            return Fault(code, error.message, operand_span(parsed, table, index), fix=fix)
    return Fault(SourceError.COUNT, error.message, parsed.span, fix=error.fix or other)


def _other_form(parsed: ParsedLine, table: InstructionTable, operands: list[Operand]) -> str:
    """The fix that suggests an instruction with a longer or shorter name that accepts the operands,
    or this one with two operands swapped.
    """
    if len(operands) == 2:
        with suppress(AssemblyError):
            exchanged = make_instruction(table, parsed.word, operands[::-1])
            return f"exchange the operands: {exchanged.text()}"
    word, kinds = parsed.word, tuple([type(part) for part in parsed.operands])
    for name in table.mnemonics:
        is_other = name != word and (name.startswith(word) or word.startswith(name))
        if is_other and _wrongly_marked(table, name, kinds) is None:
            with suppress(AssemblyError):
                make_instruction(table, name, operands)
                return f"did you mean '{name}'?"
    return ""


def _fix_of_kind(table: InstructionTable) -> dict[str, str]:
    memory = table.dialect.memory_text(0, "register")
    return {"memory": f"write for instance {memory}", "target": "write a label"}


def _check_marks(parsed: ParsedLine, table: InstructionTable) -> None:
    """Require the dialect's mark on immediates, and only on these. Raises Fault."""
    wrong = _wrongly_marked(table, parsed.word, tuple([type(part) for part in parsed.operands]))
    if wrong is None:
        return
    place, operand_spec = wrong
    mark, written = table.dialect.immediate, parsed.operands[place]
    if isinstance(written, ParsedImmediate):
        message, fix = f"a branch target has no {mark}", f"remove {mark}"
    else:
        message = f"{parsed.word}: operand {operand_spec.role} is an immediate without {mark}"
        fix = f"write {mark} before it"
    raise Fault(SourceError.MARK, message, span_of(written), fix=fix)


@lru_cache(maxsize=4096)
def _wrongly_marked(
    table: InstructionTable, word: str, kinds: tuple[type[ParsedOperand], ...]
) -> tuple[int, OperandSpec] | None:
    """The first operand of these kinds with a missing or superfluous mark, as written."""
    alias = table.alias_by_mnemonic.get((word, len(kinds)))
    spec = table.by_mnemonic.get(alias.instruction if alias else word)
    for index, operand_spec in enumerate(table.operands_of(spec) if spec else ()):
        place = alias.operands[index] if alias else index
        if not isinstance(place, int) or place >= len(kinds):
            continue
        if issubclass(kinds[place], ParsedImmediate):
            if operand_spec.kind == "target":
                return place, operand_spec
        elif issubclass(kinds[place], Expression) and "immediate" in operand_spec.kind:
            return place, operand_spec
    return None


def _operand_of_line(
    parsed: ParsedLine, table: InstructionTable, index: int
) -> ParsedOperand | None:
    """The line's operand for an operand of the instruction; None if an alias added it."""
    alias = table.alias_by_mnemonic.get((parsed.word, len(parsed.operands)))
    place = alias.operands[index] if alias else index
    return parsed.operands[place] if isinstance(place, int) else None


def spec_of(parsed: ParsedLine, table: InstructionTable) -> InstructionSpec | None:
    """The instruction that a line denotes, possibly by an alias."""
    alias = table.alias_by_mnemonic.get((parsed.word, len(parsed.operands)))
    return table.by_mnemonic.get(alias.instruction if alias else parsed.word)


def operand_span(parsed: ParsedLine, table: InstructionTable, index: int) -> Span:
    """The columns of an operand as written; an alias may have moved or added it."""
    written = _operand_of_line(parsed, table, index)
    return parsed.span if written is None else span_of(written)
