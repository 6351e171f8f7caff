"""Graph rewrites, one module each; an object `REWRITE` says that it is a simplification."""
