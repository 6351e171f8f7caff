"""tilewright: tile schedules, code and cycles for many-core machines with software-managed memory.

>>> import tilewright as tw
>>> op = tw.ops.gemm(256, 192, 128)
>>> (layer,) = tw.compile(op, machine="sw26010_cg").figures().layers
>>> layer.simulated_cycles > layer.lower_bound_cycles
True
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # that of `typing`, whose import would hold up the first words to a user
if TYPE_CHECKING:
    from typing import Any

    from tilewright import ops
    from tilewright.common.errors import TilewrightError
    from tilewright.compiler.compiled import Compiled
    from tilewright.compiler.entry import compile, load
    from tilewright.graph.frontends.notation import define
    from tilewright.graph.graph import Network
    from tilewright.graph.training import training_step
    from tilewright.machine import Machine, list_machines, load_machine
    from tilewright.seeds.space import seed
    from tilewright.tune.records import Records

_HOMES = {
    "Compiled": "compiler.compiled",
    "Machine": "machine",
    "Network": "graph.graph",
    "Records": "tune.records",
    "TilewrightError": "common.errors",
    "compile": "compiler.entry",
    "define": "graph.frontends.notation",
    "list_machines": "machine",
    "load": "compiler.entry",
    "load_machine": "machine",
    "seed": "seeds.space",
    "training_step": "graph.training",
}
"""Where each public name lives: it is imported when it is first used, so that listing machines does
not wait for the compiled cost model.
"""

__all__ = [
    "Compiled",
    "Machine",
    "Network",
    "Records",
    "TilewrightError",
    "compile",
    "define",
    "list_machines",
    "load",
    "load_machine",
    "ops",
    "seed",
    "training_step",
]


def __getattr__(name: str) -> Any:
    if name == "ops":
        return import_module("tilewright.ops")
    if name not in _HOMES:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"tilewright.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
