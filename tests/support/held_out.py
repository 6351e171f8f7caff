"""Nests that no form of the elementwise routines was fitted to."""

from __future__ import annotations

_LOOPS = (
    (1,),
    (7,),
    (2, 5),
    (3, 2, 2),
    (2, 1, 3, 2),
    (1, 2, 1, 2),
    (2, 2, 1, 1, 3),
    (2, 1, 2, 1, 1),
)
NOT_SAMPLED = (
    *((*loops, items) for loops in _LOOPS for items in (1, 2, 3, 4, 5, 9)),
    *((3, 8, 16), (4, 6, 28), (1, 50), (1, 7, 11), (2, 3, 33)),
)
"""Iterations, outermost first, of which the last are items: rows of one item and of many, in one
loop and in up to five.
"""
