"""Cores with long operations on spans of memory, a window of which is in flight at a time."""
