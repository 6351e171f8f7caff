"""The codes of what can be wrong in an assembly source: stable names for people and programs.

A message may be worded better in a later version; its code stays. A family whose language adds
errors of its own has an enumeration of the same kind beside its front end.
"""

from __future__ import annotations

from enum import Enum


class ErrorCode(Enum):
    """A code: its `number` as it is printed, and its `title`, what all errors of it share."""

    def __init__(self, number: str, title: str) -> None:
        self.number = number
        self.title = title


class SourceError(ErrorCode):
    """The errors of every source, whatever its language."""

    SYNTAX = "A101", "the line does not follow the grammar"
    UNCLOSED = "A102", "a string or character constant has no closing quote"
    CONSTANT = "A103", "a constant cannot be read, or does not fit 64 bits"
    ENCODING = "A104", "the file is not UTF-8"
    INSTRUCTION = "A201", "the instruction table has no such instruction"
    DIRECTIVE = "A202", "there is no such directive"
    REGISTER = "A203", "the instruction table has no such register"
    UNDEFINED = "A204", "a symbol is not defined, or not yet where its value is needed"
    DEFINED_TWICE = "A205", "a name is defined a second time"
    RESERVED = "A206", "a name has a meaning already, or cannot be a name"
    SELF_REFERENCE = "A207", "a symbol is defined through itself"
    COUNT = "A301", "an instruction has too few operands or too many"
    KIND = "A302", "an operand is of the wrong kind"
    RANGE = "A303", "a value does not fit its field"
    MARK = "A304", "the mark of immediates is missing, or stands where it must not"
    ADDRESS = "A305", "an address stands where a number is needed, or the reverse"
    ARITHMETIC = "A306", "an expression has no value"
    READ_ONLY = "A307", "an instruction writes where its section is read-only"
    ARGUMENTS = "A401", "a directive has the wrong arguments"
    SECTION = "A402", "the section does not take this, or was opened differently"
    REFUSED = "A403", "the source itself refuses with .error"
    UNBALANCED = "A501", "a beginning has no end, or an end no beginning"
    MACRO = "A502", "the definition of a macro is wrong"
    CALL = "A503", "the arguments of a macro are not those that it takes"
    INCLUDE = "A504", "a file cannot be included"
    LIMIT = "A601", "the source exceeds a limit of the assembler"
