"""The CPU of this computer as a machine: C with vector instructions, compiled and run natively."""

from tilewright.machine.family import Family

TARGET = Family("host", __name__)
