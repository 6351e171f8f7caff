"""Ways to compute a convolution of images."""
