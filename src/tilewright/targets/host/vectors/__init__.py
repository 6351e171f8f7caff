"""C text of vectors: instruction sets, micro-kernels, transforms, functions."""
