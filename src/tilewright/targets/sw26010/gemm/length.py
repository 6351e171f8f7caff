"""Number of instructions of the SW26010 GEMM primitive, without writing them.

In: a `GemmPlan`. Out: the length of its program (`kernel`): scheduling moves instructions and adds
none, so that it follows from the unrolling, the parts of an iteration in each role, and how many
instructions steps of the pointers take.
"""

from __future__ import annotations

from functools import cache

from tilewright.targets.sw26010.gemm.blocks import block_step_bytes
from tilewright.targets.sw26010.gemm.chain import (
    WORD,
    chain_distances,
    chain_pointers,
    chain_rows,
    walked_bytes,
)
from tilewright.targets.sw26010.gemm.kernel import (
    A_ADDRESS,
    COLUMN,
    KEPT,
    ROW,
    address_entries,
    product_pointers,
    product_rows,
    step_tables,
)
from tilewright.targets.sw26010.gemm.pack import pack_code
from tilewright.targets.sw26010.gemm.parts import BLOCK, Role
from tilewright.targets.sw26010.gemm.shape import LARGEST_DISPLACEMENT, SCALAR_BLOCK, GemmPlan
from tilewright.targets.sw26010.gemm.steps import (
    ahead,
    block_pairs,
    bookkeeping,
    ending,
    last_iteration,
    roles_of_chain,
    roles_of_cores,
    step_pairs,
    unrolling,
)

_VECTORS = BLOCK * BLOCK
"""Loads or stores of a block of C."""


@cache
def kernel_length(plan: GemmPlan) -> int:
    """Number of instructions of a plan's program."""
    mesh = plan.shape.mesh
    chain = plan.shape.links > 1
    cores = roles_of_cores(mesh)
    first, last = ({roles[at] for roles in cores} for at in (0, -1))
    packing = len(pack_code(plan, A_ADDRESS)) if plan.packs_vector else 0
    return (
        packing
        + _around(plan)
        + (_chain_steps(plan) if chain else _steps(plan))
        + sum(_start(plan, role) for role in first)
        + sum(_drain(plan, role) for role in last)
        + _blocks(plan)
    )


def executed_length(plan: GemmPlan) -> int:
    """Number of instructions, from the first on, that some core executes: changes of blocks stand
    last, and rows of one block have none.
    """
    return kernel_length(plan) - (_blocks(plan) if plan.scalar_blocks == 1 else 0)


def _blocks(plan: GemmPlan) -> int:
    return sum(_block(plan, *pair) for pair in block_pairs(plan.shape.mesh))


def _around(plan: GemmPlan) -> int:
    """Of the tables of jump targets, and of the loop over rows of blocks."""
    if plan.shape.links > 1:
        pointers, rows = chain_pointers(plan, ROW, COLUMN), chain_rows(plan)
        distances = len(chain_distances(plan))
    else:
        pointers, rows, distances = product_pointers(plan), product_rows(plan), 0
    tables = 2 + 2 * len(address_entries(plan.shape.mesh)) + len(step_tables(plan))
    setup = len(KEPT) + 1 + tables + len(pointers) + distances
    return setup + sum(map(len, rows)) + 2 + len(KEPT) + 1


def _advance(step_bytes: int) -> int:
    return -(-abs(step_bytes) // LARGEST_DISPLACEMENT)


def _parts(plan: GemmPlan, role: Role) -> tuple[int, int, int]:
    """Of an iteration: those before the jump, behind it, and beside the iteration before."""
    late = len(last_iteration(plan, role))
    return len(ending(plan, role, 0)) - late, late, len(ahead(plan, role, 0))


def _loop(plan: GemmPlan, role: Role) -> int:
    """All iterations of a step but the last, with the jump behind them."""
    how, parts = unrolling(plan), _parts(plan, role)
    length = (how.body * bool(how.trips) + how.rest) * sum(parts) + parts[0] + 1
    if how.trips:
        steps = plan.vector_step * role.sends_vector, plan.scalar_step * role.sends_scalar
        length += 2 + sum(_advance(how.body * step) for step in steps)
    return length


def _between(plan: GemmPlan, now: Role, then: Role) -> int:
    """The last iteration of a step, and the first operands of the next."""
    return _parts(plan, now)[1] + _parts(plan, then)[2]


def _steps(plan: GemmPlan) -> int:
    pairs, extra = step_pairs(plan.shape.mesh), len(bookkeeping(plan))
    found = sum(_between(plan, *pair) + extra + _loop(plan, pair[1]) for pair in pairs)
    alone = {then for _, then in block_pairs(plan.shape.mesh)} - {then for _, then in pairs}
    return found + sum(_loop(plan, role) for role in alone)


def _opening(plan: GemmPlan, behind: int = 0) -> int:
    return 2 + _advance(WORD - behind) + bool(unrolling(plan).trips)


def _chain_steps(plan: GemmPlan) -> int:
    found = 0
    for role in roles_of_chain(plan.shape.mesh):
        sent = role.sends_vector + role.sends_scalar
        link = _between(plan, role, role) + sent + 1 + bool(sent) + bool(unrolling(plan).trips)
        found += link + _loop(plan, role) + sent + 1
    for now, then in step_pairs(plan.shape.mesh):
        found += _between(plan, now, then) + _opening(plan, walked_bytes(plan, now)) + 1
    return found


def _start(plan: GemmPlan, then: Role) -> int:
    opening = 1 + _opening(plan) if plan.shape.links > 1 else len(bookkeeping(plan))
    return _VECTORS + opening + _parts(plan, then)[2] + 1


def _drain(plan: GemmPlan, now: Role) -> int:
    length = _parts(plan, now)[1] + _VECTORS + 1
    return length + 1 + _advance(_passed(plan, now)) if plan.shape.links > 1 else length


def _block(plan: GemmPlan, now: Role, then: Role) -> int:
    length = _between(plan, now, then) + 2 * _VECTORS + 1
    if plan.shape.links == 1:
        steps = [*block_step_bytes(plan), 8 * plan.shape.mesh]
        return length + sum(map(_advance, steps)) + 4 + len(bookkeeping(plan))
    steps = [SCALAR_BLOCK * stride for stride in (plan.scalar_stride, plan.result_stride)]
    return length + sum(map(_advance, [*steps, _passed(plan, now)])) + 11 + _opening(plan)


def _passed(plan: GemmPlan, now: Role) -> int:
    return WORD * plan.shape.mesh + walked_bytes(plan, now)
