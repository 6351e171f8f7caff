"""Whole networks as one C function: stages on arrays in one arena, and the text of both."""
