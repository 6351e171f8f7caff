"""Instruction sets as data: tables, parsed instructions, and the algorithms that order them.

A table defines what each instruction is (operands, encoding), what it does (an `Effect`) and what
it costs (units, latency, occupancy). The assembler, the schedulers and the simulator share it.
"""

from tilewright.isa.dialect import Dialect, SectionStyle
from tilewright.isa.effects import Branch, Bus, Effect, Traits
from tilewright.isa.instruction import (
    Instruction,
    Memory,
    Operand,
    Register,
    SymbolReference,
    make_instruction,
)
from tilewright.isa.load import load_table, read_table, table_names
from tilewright.isa.table import InstructionSpec, InstructionTable

__all__ = [
    "Branch",
    "Bus",
    "Dialect",
    "Effect",
    "Instruction",
    "InstructionSpec",
    "InstructionTable",
    "Memory",
    "Operand",
    "Register",
    "SectionStyle",
    "SymbolReference",
    "Traits",
    "load_table",
    "make_instruction",
    "read_table",
    "table_names",
]
