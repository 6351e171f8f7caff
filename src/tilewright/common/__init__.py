"""Vocabulary shared by all stages: errors, element types, integer expressions."""
