"""Whole networks: planned, run, simulated and compared on any machine."""
