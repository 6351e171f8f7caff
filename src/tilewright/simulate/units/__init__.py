"""Hardware units of the instruction-level simulator, as compiled functions over arrays."""
