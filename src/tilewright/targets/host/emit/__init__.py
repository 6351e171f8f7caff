"""The C of one kernel: products with their operands, copies, threads, headers."""
