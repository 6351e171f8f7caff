"""The steps of a chain of products in the SW26010 GEMM primitive: C += sum of A_i B_i in one call.

In: a `GemmPlan` of several links. Out: code that takes the place of `steps.all_steps`. A core
goes through all links of a step in one role (loop order: blocks, steps, links, k), so that roles
change as often as in a single product. From link to link a core that sends an operand moves the
pointer of it by a distance that it reads; one that receives only counts. One copy of the loop over
k for each role is enough, and has room for more iterations than many copies would have.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.isa import Instruction, Label, Register
from tilewright.targets.sw26010.gemm.parts import (
    COUNTER,
    RESULT_POINTER,
    SCALAR_POINTER,
    TABLE_POINTER,
    TARGET,
    TEMPORARY,
    VECTOR_POINTER,
    ZERO,
    Role,
    instruction,
)
from tilewright.targets.sw26010.gemm.shape import GemmPlan
from tilewright.targets.sw26010.gemm.steps import (
    Slots,
    advance,
    ahead,
    by_slot,
    emitted,
    ending,
    free_slots,
    iteration,
    last_iteration,
    loop_label,
    roles_of_chain,
    step_label,
    step_pairs,
    straight,
    template_of_plan,
    unrolled_loop,
    unrolling,
)
from tilewright.targets.sw26010.gemm.tables import VECTOR_DISTANCES, scalar_distances

WORD = 8
LINKS_LEFT = TEMPORARY
_DISTANCE = {VECTOR_POINTER: COUNTER, SCALAR_POINTER: RESULT_POINTER}
"""Where the distance to the next link is held: registers that are free at the end of a loop."""


def walked_bytes(plan: GemmPlan, role: Role) -> int:
    """How far the table pointer is behind the next step's word when the links of a step are done:
    senders walk along their distances.
    """
    return WORD * (plan.shape.links - 1) * (role.sends_vector or role.sends_scalar)


def opened_step(plan: GemmPlan, behind: int = 0) -> list[Instruction]:
    """What a step starts with: the target at its end and the counts; the table pointer is `behind`
    bytes too far.
    """
    links = plan.shape.links
    code = [
        instruction("ldl", Register(TARGET), (-behind, TABLE_POINTER)),
        *advance(TABLE_POINTER, WORD - behind),
        instruction("ldi", Register(LINKS_LEFT), (links - 1, ZERO)),
    ]
    return code + _trips(plan)


def chain_steps(plan: GemmPlan) -> list[Instruction]:
    """For each role the change to the next link and behind it the loop, then the changes of roles,
    which jump to the loop of the next one.
    """
    code: list[Instruction] = []
    for role in roles_of_chain(plan.shape.mesh):
        code += [*_link(plan, role), *_loop(plan, role)]
    for now, then in step_pairs(plan.shape.mesh):
        code += _step(plan, now, then)
    return code


def _link_label(role: Role) -> str:
    return f"link_{role.name}"


def _trips(plan: GemmPlan) -> list[Instruction]:
    trips = unrolling(plan).trips
    return [instruction("ldi", Register(COUNTER), (trips, ZERO))] if trips else []


def _sent(role: Role) -> dict[int, str]:
    """The pointers that a role moves, each with the part that reads by it."""
    kinds = {VECTOR_POINTER: "load_vector", SCALAR_POINTER: "load_scalar"}
    sends = {VECTOR_POINTER: role.sends_vector, SCALAR_POINTER: role.sends_scalar}
    return {pointer: kind for pointer, kind in kinds.items() if sends[pointer]}


def _link(plan: GemmPlan, role: Role) -> list[Instruction]:
    """The last iteration of a link beside the first operands of the next one."""
    last, following = last_iteration(plan, role), ahead(plan, role, 0)
    interval = template_of_plan(plan).interval_cycles
    idle = free_slots(plan, last + following, interval)
    items, moved = emitted(plan, last + following), 0
    for pointer, kind in _sent(role).items():
        before, behind = (
            [slot for slot, part, _ in parts if part.kind == kind] for parts in (last, following)
        )
        # Behind the last access of this link, before the first of the next one.
        window = range(max(before, default=0) + 1, min(behind))
        slot = next((slot for slot in idle if slot in window), window[-1])
        idle = [other for other in idle if other != slot]
        step = (Register(pointer), Register(_DISTANCE[pointer]), Register(pointer))
        items.append((slot, instruction("addl", *step)))
        moved = max(moved, slot)
    left = Register(LINKS_LEFT)
    extra = [instruction("subl", left, 1, left)]
    extra += advance(TABLE_POINTER, WORD) if moved else []
    items += zip([*idle, *[interval - 1] * len(extra)], extra, strict=False)
    # The trip count takes the register of a distance, so it comes behind the use of it.
    later = [slot for slot in idle[len(extra) :] if slot > moved]
    items += [((*later, interval - 1)[0], line) for line in _trips(plan)]
    return _labelled(by_slot(items), _link_label(role))


def _loop(plan: GemmPlan, role: Role) -> list[Instruction]:
    """All but the last of a link's iterations, the distances to the next link, and the jump to it;
    behind the last link the one to the next step.
    """
    how, label = unrolling(plan), loop_label(role)
    code = unrolled_loop(plan, role, how.body, label) if how.trips else []
    code += straight(plan, role, how.rest - 1)
    distances = _distances(plan, role)
    opening = emitted(plan, [p for p in ending(plan, role, how.rest) if p[0] == 0])
    if how.rest:
        placed = iteration(plan, role, how.rest - 1)
        slots = free_slots(plan, placed, len(distances))
        items = emitted(plan, placed) + list(zip(slots, distances, strict=True))
        code += by_slot(items)
    else:
        opening = [*((0, line) for line in distances), *opening]
    code += by_slot(opening)
    code.append(instruction("bne", Register(LINKS_LEFT), Label(_link_label(role))))
    code.append(instruction("ret", Register(TARGET)))
    return _labelled(code, label)


def _distances(plan: GemmPlan, role: Role) -> list[Instruction]:
    """Loads of the distances from this link to the next one; the last link reads what it does not
    use.
    """
    places = {
        VECTOR_POINTER: VECTOR_DISTANCES,
        SCALAR_POINTER: scalar_distances(plan.shape.links, plan.shape.mesh),
    }
    return [
        instruction("ldl", Register(_DISTANCE[pointer]), (places[pointer] - WORD, TABLE_POINTER))
        for pointer in _sent(role)
    ]


def _step(plan: GemmPlan, now: Role, then: Role) -> list[Instruction]:
    """The last iteration of a step beside the first operands of the next."""
    placed = last_iteration(plan, now) + ahead(plan, then, 0)
    extra = opened_step(plan, walked_bytes(plan, now))
    items: Slots = emitted(plan, placed)
    items += zip(free_slots(plan, placed, len(extra)), extra, strict=True)
    code = [*by_slot(items), instruction("br", Label(loop_label(then)))]
    return _labelled(code, step_label(now, then))


def _labelled(code: list[Instruction], label: str) -> list[Instruction]:
    labels = tuple(dict.fromkeys((label, *code[0].labels)))
    return [replace(code[0], labels=labels), *code[1:]]
