"""IR to IR: infer transfers, boundaries, overlap with compute, place buffers (swATOP 4.5, 4.7)."""
