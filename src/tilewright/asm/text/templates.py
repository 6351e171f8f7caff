"""Templates of instructions that are written as statements, as data and as regular expressions.

In: a table with `InstructionSpec.syntax`, in which `{role}` denotes an operand. Out: a `Template`
for each, with its operands in the instruction's own order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.isa import InstructionTable
from tilewright.isa.table import OperandSpec, RegisterFile

_EXPRESSION = r"[^$\[\],;=]+?"
_BRACKETS = r"\[[^\[\]]*\]"
_PART = re.compile(r"\{(\w+)\}|(\s+)|(\w+|[^\w\s{])")


@dataclass(frozen=True)
class Template:
    """Syntax of an instruction; `slots` holds name and regular expression of each operand."""

    mnemonic: str
    text: str
    slots: tuple[tuple[str, str], ...]

    @property
    def pattern(self) -> str:
        """A regular expression for the statement, with a group `oNAME` for each slot."""
        slots, parts = dict(self.slots), []
        for slot, space, literal in _PART.findall(self.text):
            if slot:
                parts.append(f"(?P<o{slot}>{slots[slot]})")
            elif not space:
                parts.append(re.escape(literal))
        return r"[ \t]*".join(parts)


def table_templates(table: InstructionTable) -> tuple[Template, ...]:
    """All templates of a table, first of its instructions, then of its aliases."""
    found = []
    for spec in table.instructions:
        operands = table.operands_of(spec)
        if spec.syntax:
            slots = tuple((o.role, _slot(table, o)) for o in operands)
            found.append(Template(spec.mnemonic, spec.syntax, slots))
    for alias in table.aliases:
        if alias.syntax:
            operands = table.operands_of(table.by_mnemonic[alias.instruction])
            places = dict(zip(alias.operands, operands, strict=True))
            slots = tuple((str(i), _slot(table, places[i])) for i in range(alias.arguments))
            found.append(Template(alias.mnemonic, alias.syntax, slots))
    return tuple(found)


def _slot(table: InstructionTable, operand: OperandSpec) -> str:
    """Pattern for the text of an operand."""
    match operand.kind:
        case "memory":
            return _BRACKETS
        case "immediate" | "target":
            return _EXPRESSION
        case "register":
            return _register(_file(table, operand))
        case "register_or_immediate":
            return f"{_register(_file(table, operand))}|{_EXPRESSION}"


def _file(table: InstructionTable, operand: OperandSpec) -> RegisterFile:
    return next(f for f in table.register_files if operand.file in ("", f.name))


def _register(file: RegisterFile) -> str:
    names = "|".join(["[0-9]+", *map(re.escape, file.aliases)])
    return rf"{re.escape(file.prefix)}(?:{names})(?![A-Za-z0-9_])"
