"""Cache capacity that buffers occupy where caches stand in for a scratchpad.

In: a program, a machine and values for the program's parameters. Out: bytes, of the values' form.
Products read the operand that they load by vectors panel by panel: one panel is near the core, the
others may wait in the last cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilewright.common.expr import Expr, Value, evaluate, product
from tilewright.cost.buffers import buffer_bytes, is_whole_view, scratchpad_bytes
from tilewright.ir.nodes import SCRATCHPAD, For, Program, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import calls_of, walk
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.passes.lowering import lowering_of
from tilewright.targets.host.sections import Caches

_LASTING = 2 / 3
"""Share of the cache near a core that buffers may occupy if together they exceed it."""


def waiting_bytes(program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Bytes of buffers that may wait in the last cache: all panels of a loaded factor but one."""
    waiting: Value = 0
    if machine.find_section(Caches) is None:
        return waiting
    at_start = {
        **dict.fromkeys((s.var for s in walk(program.body) if isinstance(s, For)), 0),
        **env,
    }
    for view, columns in loaded_buffers(program):
        buffer = program.buffer(view.buffer)
        vectors = machine.section(GemmPrimitive).register_block_vectors
        width = machine.core.lanes(buffer.dtype) * vectors
        part = np.minimum(1.0, width / np.maximum(1, evaluate(columns, at_start)))
        waiting = waiting + (1 - part) * buffer_bytes(buffer, env)
    return waiting


def loaded_buffers(program: Program) -> Iterator[tuple[View, Expr]]:
    """(view, extent along the vectors) of each buffer that products read whole and by vectors."""
    found: dict[str, tuple[View, Expr]] = {}
    for call, multiply in calls_of(program.body, MatrixProduct):
        loaded = call.operands[multiply.loaded]
        if isinstance(loaded, View) and is_whole_view(loaded):
            pairs = zip(loaded.roles, loaded.shape, strict=True)
            width = product(e for role, e in pairs if role == multiply.along)
            found[loaded.buffer] = loaded, width
    yield from found.values()


def has_room(program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
    """True if the buffers fit: near the core, or with waiting panels in the last cache. These
    panels and C pass through the nearer cache and need a third of it (in a product of extent 1000
    with 168, 252 or 336 rows of A in a buffer, the larger ones take 0.5 to 1 % longer).
    """
    total, room = scratchpad_bytes(program, env), machine.spm_available_bytes
    near = total - waiting_bytes(program, machine, env)
    most = lowering_of(machine).buffer_bytes[SCRATCHPAD]
    return (total <= room) | ((total <= most) & (near <= room * _LASTING))
