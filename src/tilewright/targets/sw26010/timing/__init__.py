"""Cycles of routines: derived by simulating their own text, shipped for the known cores."""
