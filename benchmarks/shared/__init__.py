"""What several benchmark scripts share: tables, progress."""
