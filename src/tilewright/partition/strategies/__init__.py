"""One module per kind of operator: the ways to divide it."""
