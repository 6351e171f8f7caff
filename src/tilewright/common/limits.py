"""Limits that several stages share."""

MOST_THREADS = 1024
"""Threads that a program may be divided among."""
MOST_CORE_CYCLES = 50_000_000
"""Cycles after which a simulation of instructions is given up where nothing else is said."""
MOST_WINDOW_CYCLES = 1_000_000_000
"""The limit where instructions work for hundreds of cycles."""
PAGE = 100
"""Columns of a line of text."""
