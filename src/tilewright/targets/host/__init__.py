"""The CPU of this computer as a machine: C with vector instructions, compiled and run natively."""

from tilewright.targets.host.target import TARGET

__all__ = ["TARGET"]
