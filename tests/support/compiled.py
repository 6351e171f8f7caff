"""Kernels of operators, for tests of what is inside a `Compiled`."""

from __future__ import annotations

from typing import Unpack

from tilewright.compiler.entry import compile
from tilewright.compiler.kernel import Kernel
from tilewright.compiler.settings import Options
from tilewright.machine import Machine
from tilewright.ops import Op


def kernel_of(op: Op, machine: str | Machine, **options: Unpack[Options]) -> Kernel:
    """The kernel of an operator compiled alone."""
    kernel: Kernel = compile(op, machine, **options).plan.only
    return kernel
