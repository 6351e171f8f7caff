"""Cost of a program on a machine: a transfer, a call, a program, a whole space at once."""
