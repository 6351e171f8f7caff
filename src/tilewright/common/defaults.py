"""Default names."""

DEFAULT_MACHINE = "sw26010"
"""The machine of commands that name none."""
