"""Generated code as a value, and what families that generate code share."""
