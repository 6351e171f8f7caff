"""The kernel level: programs on cores, engines and memories, and the cause of every wait."""
