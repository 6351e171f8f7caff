"""What a program costs on a machine: a transfer, a call, a program, a whole space at once."""
