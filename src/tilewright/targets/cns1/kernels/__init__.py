"""Kernels of a Torrent: loops in the obvious order, software-pipelined by the shared scheduler."""
