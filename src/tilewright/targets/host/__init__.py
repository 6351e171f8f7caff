"""The CPU of this computer as a machine: C with vector instructions, compiled and run natively."""

from tilewright.machine.family import Family

FAMILY = Family("host", __name__)
