"""Simulation: programs run on the described machine, and every idle cycle has a cause."""
