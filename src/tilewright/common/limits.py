"""Limits that several stages share."""

MOST_THREADS = 1024
"""Threads that a program may be divided among."""
