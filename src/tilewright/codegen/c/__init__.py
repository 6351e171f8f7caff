"""Code shared by families that emit C: names, expressions, loops, and the compiler."""
