"""Tables and progress of the benchmark scripts."""
