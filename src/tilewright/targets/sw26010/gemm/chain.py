"""Chains of products in the SW26010 GEMM primitive: C += sum of A_i B_i in one call.

In: a `GemmPlan` of several links. Out: code that replaces `steps.all_steps`, the transitions of
`blocks`, and the pointers and the outermost loop of `kernel`. A core goes through all links of a
step in one role (loop order: blocks, steps, links, k), so that roles change as often as in a single
product. Between links, a core that sends an operand advances its pointer by a distance read from
the tables; one that receives only counts. One copy of the loop over k per role suffices and may be
longer than many copies could. During the steps of a block, the register of the result's address
holds distances, and the address is kept in the tables.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.isa import Instruction, Register, SymbolReference
from tilewright.targets.sw26010.gemm.blocks import (
    block_label,
    result_accesses,
    scheduled,
    straight_block,
)
from tilewright.targets.sw26010.gemm.parts import (
    BLOCK,
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
from tilewright.targets.sw26010.gemm.shape import (
    BLOCKS_LEFT,
    END_TARGETS,
    FOLLOWED_TABLE,
    LIMIT,
    RESULT_ADDRESS,
    SCALAR_BLOCK,
    SCALAR_REWIND,
    START,
    VECTOR_DISTANCES,
    VECTOR_REWIND,
    GemmPlan,
    scalar_distances,
)
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
    straight_iterations,
    template_of_plan,
    unrolled_loop,
    unrolling,
)

WORD = 8
LINKS_LEFT = TEMPORARY
_DISTANCE = {VECTOR_POINTER: COUNTER, SCALAR_POINTER: RESULT_POINTER}
"""The registers for the distance to the next link, which are free at the end of a loop."""


def walked_bytes(plan: GemmPlan, role: Role) -> int:
    """Distance of the table pointer past the next step's word after the links of a step: senders
    advance it along their distances.
    """
    return WORD * (plan.shape.links - 1) * (role.sends_vector or role.sends_scalar)


def opened_step(plan: GemmPlan, behind: int = 0) -> list[Instruction]:
    """Code at the start of a step: loads the target at its end and the counts; the table pointer is
    `behind` bytes too far.
    """
    links = plan.shape.links
    code = [
        instruction("ldl", Register(TARGET), (-behind, TABLE_POINTER)),
        *advance(TABLE_POINTER, WORD - behind),
        instruction("ldi", Register(LINKS_LEFT), (links - 1, ZERO)),
    ]
    return code + _trips(plan)


def chain_steps(plan: GemmPlan) -> list[Instruction]:
    """For each role the change to the next link followed by the loop, then the changes of roles,
    which jump to the loop of the next role.
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
    """The pointers that a role moves, each with the part that reads through it."""
    kinds = {VECTOR_POINTER: "load_vector", SCALAR_POINTER: "load_scalar"}
    sends = {VECTOR_POINTER: role.sends_vector, SCALAR_POINTER: role.sends_scalar}
    return {pointer: kind for pointer, kind in kinds.items() if sends[pointer]}


def _link(plan: GemmPlan, role: Role) -> list[Instruction]:
    """The last iteration of a link, overlapped with loading the first operands of the next."""
    last, following = last_iteration(plan, role), ahead(plan, role, 0)
    interval = template_of_plan(plan).interval_cycles
    idle = free_slots(plan, last + following, interval)
    items, moved = emitted(plan, last + following), 0
    for pointer, kind in _sent(role).items():
        before, behind = (
            [slot for slot, part, _ in parts if part.kind == kind] for parts in (last, following)
        )
        # After the last access of this link, before the first of the next one.
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
    """All iterations of a link except the last, the loads of the distances to the next link, and
    the jump to it; after the last link, the jump to the next step.
    """
    how, label = unrolling(plan), loop_label(role)
    code = unrolled_loop(plan, role, how.body, label) if how.trips else []
    code += straight_iterations(plan, role, how.rest - 1)
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
    code.append(instruction("bne", Register(LINKS_LEFT), SymbolReference(_link_label(role))))
    code.append(instruction("ret", Register(TARGET)))
    return _labelled(code, label)


def _distances(plan: GemmPlan, role: Role) -> list[Instruction]:
    """Loads of the distances to the next link; the last link loads values that it does not use."""
    places = {
        VECTOR_POINTER: VECTOR_DISTANCES,
        SCALAR_POINTER: scalar_distances(plan.shape.links, plan.shape.mesh),
    }
    return [
        instruction("ldl", Register(_DISTANCE[pointer]), (places[pointer] - WORD, TABLE_POINTER))
        for pointer in _sent(role)
    ]


def _step(plan: GemmPlan, now: Role, then: Role) -> list[Instruction]:
    """The last iteration of a step, overlapped with loading the first operands of the next."""
    placed = last_iteration(plan, now) + ahead(plan, then, 0)
    extra = opened_step(plan, walked_bytes(plan, now))
    items: Slots = emitted(plan, placed)
    items += zip(free_slots(plan, placed, len(extra)), extra, strict=True)
    code = [*by_slot(items), instruction("br", SymbolReference(loop_label(then)))]
    return _labelled(code, step_label(now, then))


def _labelled(code: list[Instruction], label: str) -> list[Instruction]:
    labels = tuple(dict.fromkeys((label, *code[0].labels)))
    return [replace(code[0], labels=labels), *code[1:]]


_PAIRS, _VECTOR_PLACE, _SCALAR_PLACE, _COUNT = 7, 8, 9, 10
_HERE, _NEXT = (11, 12), (13, 14)
_PAIR_BYTES = 2 * WORD


def chain_start(plan: GemmPlan, then: Role) -> list[Instruction]:
    """The start of the first C block of a row of blocks."""
    code = result_accesses(plan, plan.variant.precision.vector_load)
    code += [_word("stl", RESULT_POINTER, RESULT_ADDRESS), *opened_step(plan)]
    code += by_slot(emitted(plan, ahead(plan, then, 0)))
    return straight_block(code, f"start_{then.name}", loop_label(then))


def chain_drain(plan: GemmPlan, now: Role) -> list[Instruction]:
    """The end of the last C block of a row of blocks."""
    passed = passed_bytes(plan, now)
    code = [_word("ldl", RESULT_POINTER, RESULT_ADDRESS - passed)]
    code += by_slot(emitted(plan, last_iteration(plan, now)))
    code += result_accesses(plan, plan.variant.precision.vector_store)
    code += advance(TABLE_POINTER, -passed)
    return straight_block(code, f"drain_{now.name}", "next_row")


def chain_block(plan: GemmPlan, now: Role, then: Role) -> list[Instruction]:
    """The end of a C block and the start of the next in its row. The limit tells if the next is the
    last one, which decides the last target in the table.
    """
    passed, flag = passed_bytes(plan, now), Register(TEMPORARY)
    code = [_word("ldl", RESULT_POINTER, RESULT_ADDRESS - passed)]
    code += by_slot(emitted(plan, last_iteration(plan, now)))
    code += result_accesses(plan, plan.variant.precision.vector_store)
    code += _rewound(passed) + advance(SCALAR_POINTER, SCALAR_BLOCK * plan.scalar_stride)
    code += advance(RESULT_POINTER, SCALAR_BLOCK * plan.result_stride)
    code.append(_word("stl", RESULT_POINTER, RESULT_ADDRESS - passed))
    code += result_accesses(plan, plan.variant.precision.vector_load)
    code += [
        _word("ldl", TEMPORARY, LIMIT - passed),
        instruction("cmpeq", Register(RESULT_POINTER), flag, flag),
        *advance(TABLE_POINTER, -passed),
        instruction("s8addl", flag, Register(TABLE_POINTER), flag),
        instruction("ldl", flag, (END_TARGETS, TEMPORARY)),
        _word("stl", TEMPORARY, _last_target(plan)),
    ]
    code += opened_step(plan) + by_slot(emitted(plan, ahead(plan, then, 0)))
    return straight_block(code, block_label(now, then), loop_label(then))


def chain_pointers(plan: GemmPlan, row: int, column: int) -> list[Instruction]:
    """Set the operands of the first link, and where this core's distances start: its place in the
    mesh, in registers `row` and `column`, determines in which steps it sends.
    """
    by_m = plan.variant.vectorised == "m"
    vector_step, scalar_step = (column, row) if by_m else (row, column)
    vector, scalar = _offsets(plan)
    table, count = Register(TABLE_POINTER), Register(_COUNT)
    return [
        instruction("ldl", Register(VECTOR_POINTER), (vector, _GIVEN_PAIRS)),
        instruction("ldl", Register(SCALAR_POINTER), (scalar, _GIVEN_PAIRS)),
        instruction("ldi", Register(_PAIRS), (0, _GIVEN_PAIRS)),
        instruction("s8addl", Register(vector_step), table, Register(_VECTOR_PLACE)),
        instruction("s8addl", Register(scalar_step), table, Register(_SCALAR_PLACE)),
        instruction("ldi", count, (plan.vector_blocks, ZERO)),
        _word("stl", _COUNT, BLOCKS_LEFT),
        instruction("ldi", count, (plan.shape.links - 1, ZERO)),
        instruction("ldi", Register(RESULT_POINTER), (0, _GIVEN_RESULT)),
    ]


_GIVEN_PAIRS, _GIVEN_RESULT = 16, 18


def chain_distances(plan: GemmPlan) -> list[Instruction]:
    """Store the distances from the end of each link's loop to the next link's operands, and from
    the last link's to the first's.
    """
    links, mesh, places = plan.shape.links, plan.shape.mesh, (_VECTOR_PLACE, _SCALAR_PLACE)
    lists = (VECTOR_DISTANCES, scalar_distances(links, mesh))
    code = []
    for here, following, offset in zip(_HERE, _NEXT, _offsets(plan), strict=True):
        code.append(instruction("ldl", Register(here), (offset, _PAIRS)))
        code.append(instruction("ldl", Register(following), (offset + _PAIR_BYTES, _PAIRS)))
    for operand in range(2):
        here, following = _HERE[operand], _NEXT[operand]
        code += _difference(plan, operand, following, here)
        code.append(instruction("stl", Register(following), (lists[operand], places[operand])))
    code += advance(_PAIRS, _PAIR_BYTES) + advance(places[0], WORD) + advance(places[1], WORD)
    code.append(instruction("subl", Register(_COUNT), 1, Register(_COUNT)))
    body = scheduled(code)
    loop = [replace(body[0], labels=("pairs",)), *body[1:]]
    loop.append(instruction("bne", Register(_COUNT), SymbolReference("pairs")))
    rest = []
    pointers, rewinds = (VECTOR_POINTER, SCALAR_POINTER), (VECTOR_REWIND, SCALAR_REWIND)
    for operand, offset in enumerate(_offsets(plan)):
        first, last = _NEXT[operand], _HERE[operand]
        rest.append(instruction("ldl", Register(last), (offset, _PAIRS)))
        rest.append(instruction("ldi", Register(first), (0, pointers[operand])))
        rest += _difference(plan, operand, first, last)
        rest.append(_word("stl", first, rewinds[operand]))
    return loop + scheduled(rest)


def chain_rows(plan: GemmPlan) -> tuple[list[Instruction], list[Instruction]]:
    """Code before and after a row of blocks: its limit and the target at its end, then the pointers
    of the next row.
    """
    scratch, across = 3, plan.scalar_blocks - 1
    result, scalar = SCALAR_BLOCK * plan.result_stride, SCALAR_BLOCK * plan.scalar_stride
    opening = [instruction("ldi", Register(scratch), (0, RESULT_POINTER))]
    opening += advance(scratch, across * result)
    opening += [
        _word("stl", scratch, LIMIT),
        _word("ldl", TARGET, START),
        _word("ldl", scratch, END_TARGETS + WORD * (across == 0)),
        _word("stl", scratch, _last_target(plan)),
    ]
    closing = _rewound(0)
    closing += [
        _word("ldl", scratch, BLOCKS_LEFT),
        instruction("subl", Register(scratch), 1, Register(scratch)),
        _word("stl", scratch, BLOCKS_LEFT),
    ]
    closing += advance(VECTOR_POINTER, BLOCK * plan.vector_bytes)
    closing += advance(SCALAR_POINTER, -across * scalar)
    closing += advance(RESULT_POINTER, BLOCK * plan.vector_bytes - across * result)
    return opening, closing


def _word(mnemonic: str, register: int, place: int) -> Instruction:
    """A word of the tables."""
    return instruction(mnemonic, Register(register), (place, TABLE_POINTER))


def _last_target(plan: GemmPlan) -> int:
    return FOLLOWED_TABLE + WORD * (plan.shape.mesh - 1)


def passed_bytes(plan: GemmPlan, now: Role) -> int:
    """Distance of the table pointer past the table's start at the end of a block."""
    return WORD * plan.shape.mesh + walked_bytes(plan, now)


def _rewound(passed: int) -> list[Instruction]:
    """Rewind the operand pointers from after the last link to the first."""
    code = []
    for pointer, place, held in (
        (VECTOR_POINTER, VECTOR_REWIND, COUNTER),
        (SCALAR_POINTER, SCALAR_REWIND, TARGET),
    ):
        code.append(_word("ldl", held, place - passed))
        code.append(instruction("addl", Register(pointer), Register(held), Register(pointer)))
    return code


def _offsets(plan: GemmPlan) -> tuple[int, int]:
    """Offsets of the vector and the scalar operand in a pair of A and B."""
    return (0, WORD) if plan.variant.vectorised == "m" else (WORD, 0)


def _difference(plan: GemmPlan, operand: int, to: int, start: int) -> list[Instruction]:
    """Subtract `start` and the loop's advance of the pointer from `to`."""
    how = unrolling(plan)
    step = (plan.vector_step, plan.scalar_step)[operand]
    code = [instruction("subl", Register(to), Register(start), Register(to))]
    return code + advance(to, -how.trips * how.body * step)
