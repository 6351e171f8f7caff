"""Seeds that compute a 2D convolution."""
