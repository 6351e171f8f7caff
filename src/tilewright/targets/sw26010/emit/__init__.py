"""The files of a program: what the host and the cores run, transfers, calls, the build."""
