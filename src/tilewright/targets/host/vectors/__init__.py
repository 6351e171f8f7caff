"""C text on vectors: instruction sets, micro-kernels, transforms, window sums, functions."""
