"""What is meant where nothing is said."""

DEFAULT_MACHINE = "sw26010"
"""What commands take where no machine is named."""
