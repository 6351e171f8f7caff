"""The assembler: text to objects and images, and back, by one instruction table.

`assemble` (or `assemble_file`) returns an `Object`, `link` an image. `write_object` and
`read_object` store them in ELF files; `listing`, `disassemble` and `object_summary` show them.
"""

from tilewright.asm.assemble import assemble, assemble_file
from tilewright.asm.diagnostics import Diagnostic, SourceErrors
from tilewright.asm.disassemble import disassemble
from tilewright.asm.encode import decode, encode
from tilewright.asm.limits import Limits
from tilewright.asm.objects.elf import elf_bytes
from tilewright.asm.objects.files import (
    dependency_rule,
    expansion_trace,
    listing,
    object_summary,
    read_elf,
    read_object,
    stored_table_name,
    write_object,
)
from tilewright.asm.objects.link import LinkErrors, link
from tilewright.asm.objects.sections import (
    LineEntry,
    Object,
    ObjectSection,
    PlacedInstruction,
    Relocation,
    RelocationKind,
    Symbol,
)

__all__ = [
    "Diagnostic",
    "Limits",
    "LineEntry",
    "LinkErrors",
    "Object",
    "ObjectSection",
    "PlacedInstruction",
    "Relocation",
    "RelocationKind",
    "SourceErrors",
    "Symbol",
    "assemble",
    "assemble_file",
    "decode",
    "dependency_rule",
    "disassemble",
    "elf_bytes",
    "encode",
    "expansion_trace",
    "link",
    "listing",
    "object_summary",
    "read_elf",
    "read_object",
    "stored_table_name",
    "write_object",
]
