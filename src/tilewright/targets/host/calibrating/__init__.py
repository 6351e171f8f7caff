"""Measuring this computer: probes, measurements, machine descriptions."""
