"""Words that every stage shares: errors, data types, integer expressions."""
