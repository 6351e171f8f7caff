"""Elementwise routines in assembly: maps, reductions, Winograd's transforms, other row lengths."""
