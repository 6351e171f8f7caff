"""Graph rewrites, one module each; simplifications define `REWRITE`."""
