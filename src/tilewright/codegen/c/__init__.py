"""What families that emit C share: names, expressions, loops, and the compiler."""
