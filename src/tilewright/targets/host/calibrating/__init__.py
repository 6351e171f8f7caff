"""Measuring this computer: probes, what they say, its description."""
