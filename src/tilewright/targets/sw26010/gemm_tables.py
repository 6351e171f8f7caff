"""Where the SW26010 GEMM primitive keeps what its registers cannot hold: offsets in its tables.

The first two tables hold the jump targets at the end of each step of a block: for a block that
another one follows in the same row of blocks, and for the last one of a row. Words and the targets
by role follow, from which a core fills the first two.
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
