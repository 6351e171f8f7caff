"""Programs of the loop IR as DLA-AL."""
