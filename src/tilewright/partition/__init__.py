"""Dividing work: an operator over core groups, or a whole network over many cores.

`split` gives the equal pieces of one operator for groups with a memory each, `split_sums` those
with partial results. For networks, `layers` are what cores compute between exchanges, `strategies`
ways to divide one, `parts` who does what, `moves` who sends what to whom, `volumes` how much that
is.
"""

from tilewright.partition.partition import TERMS, Partition, Piece, split, split_sums

__all__ = ["TERMS", "Partition", "Piece", "split", "split_sums"]
