"""The files of a program: code of the host and the cores, transfers, calls, the build."""
