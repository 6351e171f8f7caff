"""Generated code as a value, and the parts that code generators of all families share."""
