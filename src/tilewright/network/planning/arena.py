"""Placement of values in the arena: values that live at the same time never overlap.

In: for each value its bytes and the first and last stage that uses it. Out: offsets, and the
arena's size in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

ALIGNMENT_BYTES = 64


class Life(Struct, frozen=True):
    """A value's bytes, and the numbers of the first and last stage that use it."""

    size_bytes: int
    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """True if some stage needs both values."""
        return self.first <= other.last and other.first <= self.last


def place(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
    """(byte offset of each value, bytes of the arena): the largest first, each as low as it fits.

    >>> place({0: Life(100, 0, 1), 1: Life(40, 1, 2), 2: Life(100, 2, 3)})
    ({0: 0, 2: 0, 1: 128}, 168)
    """
    offsets: dict[int, int] = {}
    for value, life in sorted(lives.items(), key=lambda item: (-item[1].size_bytes, item[0])):
        busy = sorted(
            (offsets[other], offsets[other] + lives[other].size_bytes)
            for other in offsets
            if lives[other].meets(life)
        )
        at = 0
        for start, end in busy:
            if at + life.size_bytes <= start:
                break
            at = max(at, -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
        offsets[value] = at
    return offsets, max((offsets[v] + life.size_bytes for v, life in lives.items()), default=0)


def place_centred(lives: Mapping[int, Life]) -> tuple[dict[int, int], int]:
    """(byte offset of each value, bytes of the arena) for two threads that each hold half of a
    value.

    Values that share memory are centred on one address, the largest first: a thread then overwrites
    what its own caches hold rather than the other thread's.

    >>> place_centred({0: Life(256, 0, 1), 1: Life(128, 1, 2), 2: Life(128, 2, 3)})
    ({0: 0, 1: 256, 2: 64}, 384)
    """
    offsets, sharing, end = dict[int, int](), list[tuple[int, list[int]]](), 0
    for value, life in sorted(lives.items(), key=lambda item: (-item[1].size_bytes, item[0])):
        apart = (one for one in sharing if not any(lives[v].meets(life) for v in one[1]))
        start, members = next(apart, (end, []))
        if not members:
            sharing.append((start, members))
            end += -(-life.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        members.append(value)
        room = lives[members[0]].size_bytes - life.size_bytes
        offsets[value] = start + room // 2 // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    return offsets, end
