"""Targets: an explicit program and a machine in, sources and their build plan out (swATOP 4.7)."""
