"""Simulation: programs run on the described machine, with every idle cycle explained."""
