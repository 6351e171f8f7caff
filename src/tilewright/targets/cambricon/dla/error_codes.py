"""Error codes of DLA-AL programs, in addition to those of every source."""

from __future__ import annotations

from tilewright.asm.diagnostics import ErrorCode


class DlaError(ErrorCode):
    """The errors of declarations, macros of one kind, blocks and fusion."""

    UNKNOWN = "D101", "there is no block, macro or declaration of that name"
    UNDECLARED = "D102", "data is not declared"
    ARGUMENTS = "D103", "a block or macro has the wrong number or kind of arguments"
    READ_ONLY = "D104", "a block writes data that is read-only"
    DECLARATION = "D201", "a declaration has the wrong name, numbers or section"
    SEGMENT = "D202", "the size of a segment is not between 1 and the extent"
    EXTENTS = "D301", "the extents of the operands of a block do not go together"
    SEGMENTS = "D302", "the segments of the operands of a block do not go together"
    CAPACITY = "D303", "the buffers of a block do not fit a scratchpad"
    MACRO_KIND = "D401", "a macro of one kind contains a statement of the other"
    RECURSION = "D402", "a macro calls itself"
    FUSION = "D501", "blocks cannot be fused as they stand"
    HOST = "D601", "the host program does something that it cannot"
