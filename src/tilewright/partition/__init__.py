"""Dividing work: an operator over core groups, or a whole network over many cores.

`split` cuts one operator into equal pieces for groups with a memory each; `split_sums` cuts its
sums, so that pieces yield partial results. For networks, `layers` holds what cores compute between
exchanges, `strategies` the ways to divide a layer, `parts` each core's work, `moves` the regions
that cores send each other, `volumes` the number of values moved.
"""

from tilewright.partition.partition import TERMS, Partition, Piece, split, split_sums

__all__ = ["TERMS", "Partition", "Piece", "split", "split_sums"]
