"""tilewright: tile schedules, code and cycles for many-core machines with software-managed memory.

>>> import tilewright as tw
>>> op = tw.ops.gemm(256, 192, 128)
>>> kernel = tw.compile(op, machine="sw26010_cg")
>>> kernel.cycles > kernel.result.lower_bound_cycles
True
"""

from tilewright import ops
from tilewright.common.errors import TilewrightError
from tilewright.compiler.kernel import CompiledNetwork, Kernel
from tilewright.compiler.pipeline import compile, load
from tilewright.graph.graph import Network
from tilewright.machine import Machine, list_machines, load_machine
from tilewright.seeds.space import seed
from tilewright.tune.records import Records

__all__ = [
    "CompiledNetwork",
    "Kernel",
    "Machine",
    "Network",
    "Records",
    "TilewrightError",
    "compile",
    "list_machines",
    "load",
    "load_machine",
    "ops",
    "seed",
]
