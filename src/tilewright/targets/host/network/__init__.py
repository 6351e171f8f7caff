"""Whole networks as one C function: planned as stages on arrays in one arena, emitted, run."""
