"""Limits that several stages share."""

MOST_THREADS = 1024
"""Most threads that a program may be divided among."""
MOST_CORE_CYCLES = 50_000_000
"""Default limit on the cycles of a simulation of instructions."""
MOST_WINDOW_CYCLES = 1_000_000_000
"""The default limit for cores whose instructions work for hundreds of cycles."""
PAGE = 100
"""Columns of a line of text output."""
