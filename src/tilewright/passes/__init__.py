"""IR to IR: infer transfers, handle boundaries, overlap, place buffers (swATOP 4.5, 4.7)."""
