"""Default names."""

DEFAULT_MACHINE = "sw26010"
"""Machine of commands that name none."""
