"""The command line, the outermost layer."""
