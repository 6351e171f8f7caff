"""Front ends: model files in, checked networks out; one module per file format."""
