"""Which structures of a space are legal on a machine.

In: a nest's space and a machine. Out: its structures, lowered by the machine's rules and staged by
the passes that suit its transfers.
"""

from __future__ import annotations

from tilewright.common.errors import CapacityError
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.passes.pipeline import stage, stage_packing
from tilewright.schedule.plan import Rules
from tilewright.schedule.structures import Stager, Structure, structures
from tilewright.seeds.space import Seed, Space


def rules_of(machine: Machine) -> Rules:
    """What the machine allows."""
    addressed = machine.memory.caches is not None
    return Rules(machine.primitives.gemm.partial_blocks, in_place=addressed)


def stager_of(machine: Machine) -> Stager:
    """The passes to the staged stage: where the core makes the copies, they pack."""
    return stage_packing if machine.dma.synchronous else stage


def require_types(op: Op, machine: Machine) -> None:
    """Raise CapacityError unless the machine computes with the type of the operator's sums."""
    known, wanted = machine.core.types, op.numerics.sums.name
    if wanted not in known:
        raise CapacityError(
            f"machine {machine.name!r} computes {' and '.join(known)}; "
            f"{op.describe()} has sums of {wanted}",
            fix=f"--dtype {known[0]}, or a machine that computes {wanted}",
        )


def structures_on(machine: Machine, seed: Seed, space: Space, dtype: str) -> tuple[Structure, ...]:
    """The structures of one nest that are legal on the machine."""
    return structures(seed, space, dtype, stager_of(machine), rules_of(machine))
