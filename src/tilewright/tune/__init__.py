"""Search schedule spaces: rank by the model, confirm by measurement, keep records (swATOP 4.6)."""
