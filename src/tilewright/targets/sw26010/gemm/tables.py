"""Memory tables of the SW26010 GEMM primitive, for values that do not fit its registers: offsets.

The first two tables hold the jump targets at the end of each step of a block: for a block that
another one follows in the same row of blocks, and for the last one of a row. Words and the targets
by role follow, from which a core fills the first two.

A chain has one table of the ends of steps and, in the place of the second, what ends a block: the
target that is written to the table's last word for the block to come. Behind all others stand the
distances from the operand of a link to that of the next one: the core reads them in the step in
which it sends that operand, by the pointer that walks the table, so that they start as many words
further as that step is.
"""

from __future__ import annotations

LARGEST_MESH = 16
"""Steps for which the tables have room: the mesh is square, and each column sends once."""

_WORD = 8
ROW_TABLE_SHIFT = 7
FOLLOWED_TABLE, LAST_TABLE = 0, _WORD * LARGEST_MESH
LIMIT, BLOCKS_LEFT, START, SAVED, PACKED_ADDRESS = 256, 264, 272, 280, 304
STEP_TARGETS = 312
BLOCK_TARGETS = STEP_TARGETS + 16 * _WORD
DRAIN_TARGETS = BLOCK_TARGETS + 16 * _WORD
START_TARGETS = DRAIN_TARGETS + 4 * _WORD
TABLE_BYTES = 640

LARGEST_LINKS = 49
"""The taps of a 7 x 7 kernel: their pairs and distances take half of what is left to the stack."""
END_TARGETS = LAST_TABLE
VECTOR_REWIND, SCALAR_REWIND = LAST_TABLE + 2 * _WORD, LAST_TABLE + 3 * _WORD
RESULT_ADDRESS = PACKED_ADDRESS
VECTOR_DISTANCES = TABLE_BYTES


def scalar_distances(links: int, mesh: int) -> int:
    """Offset of the scalar operand's distances."""
    return VECTOR_DISTANCES + _WORD * (links + mesh)


def table_bytes(links: int, mesh: int) -> int:
    """Bytes of all tables, in whole vectors."""
    if links == 1:
        return TABLE_BYTES
    return -(-(scalar_distances(links, mesh) + _WORD * (links + mesh)) // 32) * 32
