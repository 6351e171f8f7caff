"""Dividing an operator over the core groups of a machine: which group computes which piece."""

from tilewright.partition.partition import Partition, Piece, split

__all__ = ["Partition", "Piece", "split"]
