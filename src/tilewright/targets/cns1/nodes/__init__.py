"""All nodes of a CNS-1: what each runs, with messages between them, on one clock."""
