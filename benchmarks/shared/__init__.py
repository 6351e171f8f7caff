"""What several benchmark scripts share: the papers' parameter lists, tables, progress."""
