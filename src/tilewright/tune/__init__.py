"""Search schedule spaces: rank by the model, confirm by a measure, keep records (swATOP 4.6)."""
