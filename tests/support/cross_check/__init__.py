"""Second simulator of a kernel's time, from its emitted text and the machine file alone.

In: an artifact's files and a machine. Out: cycles, to be compared with the estimate and with the
kernel simulation. Nothing here is shared with `cost` or `simulate.kernel`, nor reached from here.
"""
