"""A source for each code of an error: the smallest that has it, and only it."""

from __future__ import annotations

from tilewright.asm.diagnostics import ErrorCode, SourceError
from tilewright.isa import InstructionTable, load_table
from tilewright.targets.cambricon.dla.error_codes import DlaError

_OF_CAMBRICON = (SourceError.MARK, SourceError.READ_ONLY, *DlaError)

SOURCES: dict[ErrorCode, str | bytes] = {
    SourceError.SYNTAX: "addl $1 $2, $3",
    SourceError.UNCLOSED: '.data\n.ascii "text',
    SourceError.CONSTANT: ".data\n.long 012",
    SourceError.ENCODING: b"nop # caf\xe9",
    SourceError.INSTRUCTION: "vmda $1, $2, $3, $4",
    SourceError.DIRECTIVE: ".aling 4",
    SourceError.REGISTER: "addl $1, $99, $3",
    SourceError.UNDEFINED: "br next\nnxt: nop",
    SourceError.DEFINED_TWICE: "loop: nop\nloop: nop",
    SourceError.RESERVED: ".set .text, 3",
    SourceError.SELF_REFERENCE: ".set a, b\n.set b, a\n.data\n.long a",
    SourceError.COUNT: "addl $1, $2",
    SourceError.KIND: "addl 4($1), $2, $3",
    SourceError.RANGE: ".data\n.byte 300",
    SourceError.MARK: "sadd $1, $2, 4",
    SourceError.ADDRESS: ".data\nx: .space x",
    SourceError.READ_ONLY: ".code\nvstore $1, $2, #w\n.static_ro\n@synapse w, 1, 1, 1, 4",
    SourceError.ARITHMETIC: ".data\n.long 1 / 0",
    SourceError.ARGUMENTS: ".data\n.space",
    SourceError.SECTION: ".data\nnop",
    SourceError.REFUSED: '.error "four rows at least"',
    SourceError.UNBALANCED: ".rept 4\nnop",
    SourceError.MACRO: ".macro m a, a\n.endm",
    SourceError.CALL: ".macro m a\n.byte \\a\n.endm\n.data\nm 1, 2",
    SourceError.INCLUDE: '.include "/etc/other.s"',
    SourceError.LIMIT: ".macro m\nm\n.endm\nm",
    DlaError.UNKNOWN: ".code\n@fc_pf y, x, w",
    DlaError.UNDECLARED: ".code\n@relu_fp y, x\n.static_rw\n@neuron y, 1, 1, 1, 4",
    DlaError.ARGUMENTS: ".code\n@relu_fp y\n.static_rw\n@neuron y, 1, 1, 1, 4",
    DlaError.READ_ONLY: (
        ".code\n@relu_fp y, x\n.static_ro\n@neuron y, 1, 1, 1, 4\n@neuron x, 1, 1, 1, 4"
    ),
    DlaError.DECLARATION: ".static_rw\n@neuron x, 1, 4",
    DlaError.SEGMENT: ".static_rw\n@neuron x, 1, 1, 1, 4, 1, 1, 1, 8",
    DlaError.EXTENTS: (
        ".code\n@fc_fp y, x, w\n.static_rw\n@neuron x, 1, 1, 1, 8\n@neuron y, 1, 1, 1, 4\n"
        ".static_ro\n@synapse w, 4, 1, 1, 6"
    ),
    DlaError.SEGMENTS: (
        ".code\n@relu_fp y, x\n.static_rw\n@neuron x, 1, 1, 1, 8, 1, 1, 1, 4\n@neuron y, 1, 1, 1, 8"
    ),
    DlaError.CAPACITY: (
        ".code\n@relu_fp y, x\n.static_rw\n@neuron x, 1, 1, 1, 65536\n@neuron y, 1, 1, 1, 65536"
    ),
    DlaError.MACRO_KIND: "C-Macro fetch a\n  vload \\a, $1, #0\nmend",
    DlaError.RECURSION: "Block again a\n  @again \\a\nmend\n.code\n@again $1",
    DlaError.HOST: ".host\n@launch\n@launch",
    DlaError.FUSION: ".code\n@fuse\n@endfuse",
}


def table_of(code: ErrorCode) -> InstructionTable:
    """The table for which the source of a code is written."""
    return load_table("cambricon" if code in _OF_CAMBRICON else "sw26010_cpe")
