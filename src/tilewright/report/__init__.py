"""Views of estimates, runs and traces; they format values and compute none."""
