"""The compiler: `pipeline` is one straight function; the other modules hold what it gives."""
