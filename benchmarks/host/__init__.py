"""Who multiplies and convolves fastest on this computer: contenders, and how they are timed."""
