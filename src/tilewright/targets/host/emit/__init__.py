"""Generate the C of one kernel: products, copies, transforms, threads, headers."""
