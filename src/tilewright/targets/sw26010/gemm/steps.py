"""The k iterations of a step of the SW26010 GEMM primitive, unrolled, and the change to the next.

In: a `GemmPlan` and roles. Out: code made from the single slot template. The operands of each
iteration are loaded beside the arithmetic of the one before. Every pair of successive roles thus
has a transition, the last iteration of the one beside the first loads of the other, followed by a
copy of the other's loop: a change of roles takes one jump, through a table. The loop is unrolled as
far as its copies fit the instruction cache; k need not be a multiple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from tilewright.common.expr import Value
from tilewright.isa import Instruction, Register, SymbolReference
from tilewright.targets.sw26010.gemm.parts import (
    COUNTER,
    SCALAR_POINTER,
    TABLE_POINTER,
    TARGET,
    VECTOR_POINTER,
    ZERO,
    BodyStep,
    Role,
    emit,
    inner_strides,
    instruction,
)
from tilewright.targets.sw26010.gemm.shape import (
    F32,
    F64,
    LARGEST_DISPLACEMENT,
    GemmPlan,
    Precision,
)
from tilewright.targets.sw26010.gemm.template import IssueTimes, gemm_template

LARGEST_BODY = 12
LARGEST_CHAIN_BODY = 28
LOOPS_BYTES = 10_600
"""Room for the copies of the loop, so that the primitive, with the code of its blocks and of its
caller, fits an instruction cache of 16 KB."""

MULTIPLY_ADDS = (F64.multiply_add, F32.multiply_add)
Slots = list[tuple[int, Instruction]]
Placed = tuple[int, BodyStep, int]
"""A slot beside the arithmetic of an iteration, a part, and the number of pointer steps from the
pointer to its operand.
"""

_CONTROL = ("step_vector", "step_scalar", "dispatch", "count", "branch")
_POINTERS = {"load_vector": VECTOR_POINTER, "load_scalar": SCALAR_POINTER}


@dataclass(frozen=True)
class Unrolling:
    """k - 1 iterations as `trips` of a body of `body` iterations, then `rest`; the last iteration
    of a step belongs to the transition.
    """

    body: int
    trips: int
    rest: int

    @property
    def iterations_in_code(self) -> int:
        """Iterations that a copy of the loop holds, its transition included."""
        return self.body + self.rest + 1

    @property
    def taken_branches(self) -> int:
        """Taken branches of the loop in one step."""
        return max(self.trips - 1, 0)


def unrolling(plan: GemmPlan) -> Unrolling:
    """The unrolling with the fewest taken branches, and among these the least code, that fits the
    instruction cache and a displacement.
    """
    reach = max(plan.vector_step, plan.scalar_step)
    base = 3 * max(plan.vector_bytes, plan.scalar_stride)
    largest = max(1, (LARGEST_DISPLACEMENT - base) // reach - 1)
    if plan.shape.links > 1:
        room = _chain_room(plan.variant.precision, plan.shape.mesh)
        return _unrolled(plan.shape.k - 1, min(largest, LARGEST_CHAIN_BODY), room, 1)
    copies = max(1, len(step_pairs(plan.shape.mesh)))
    room = LOOPS_BYTES // (copies * _iteration_bytes(plan.variant.precision))
    return _unrolled(plan.shape.k - 1, min(largest, LARGEST_BODY), max(room, 2), 0)


@cache
def _unrolled(iterations: int, largest: int, room: int, least_rest: int) -> Unrolling:
    if iterations < 2:
        return Unrolling(0, 0, iterations)
    choices = [Unrolling(0, 0, iterations)] if iterations <= largest else []
    for body in range(1, min(largest, iterations // 2) + 1):
        trips = (iterations - least_rest) // body
        choices.append(Unrolling(body, trips, iterations - trips * body))
    # A body of one iteration has no rest beyond the least: it always fits.
    fitting = [one for one in choices if one.body == 1 or one.iterations_in_code <= room]
    return min(fitting, key=lambda one: (one.taken_branches, one.iterations_in_code))


def chain_branches(precision: Precision, mesh: int, k: Value) -> Value:
    """The taken branches of the loop in one link of a chain; more if strides are so long that the
    loop is shorter than it could be.
    """
    room, iterations = _chain_room(precision, mesh), np.maximum(np.subtract(k, 1), 0)
    fewest = np.maximum(iterations - 2, 0)
    for body in range(2, min(LARGEST_CHAIN_BODY, room - 2) + 1):
        trips = (iterations - 1) // body
        fits = (iterations >= 2 * body) & (body + iterations - trips * body < room)
        fewest = np.where(fits, np.minimum(fewest, trips - 1), fewest)
    return np.where(iterations < min(LARGEST_CHAIN_BODY + 1, room), 0, fewest)


def _chain_room(precision: Precision, mesh: int) -> int:
    """Iterations that fit a chain's copy of the loop, one copy for each role: roles change so
    rarely that jumping to the copy costs nothing.
    """
    return max(3, LOOPS_BYTES // (len(roles_of_chain(mesh)) * _iteration_bytes(precision)))


@cache
def roles_of_chain(mesh: int) -> tuple[Role, ...]:
    """The roles that occur on some core, in a fixed order."""
    return tuple(
        sorted({role for roles in roles_of_cores(mesh) for role in roles}, key=role_number)
    )


def _iteration_bytes(precision: Precision) -> int:
    return 4 * (16 + (8 if precision.fused else 16))


@cache
def roles_of_cores(mesh: int) -> frozenset[tuple[Role, ...]]:
    """The distinct sequences of roles of the cores of a square mesh: one role for each step."""
    return frozenset(
        tuple(Role(column == step, row == step) for step in range(mesh))
        for row in range(mesh)
        for column in range(mesh)
    )


@cache
def step_pairs(mesh: int) -> tuple[tuple[Role, Role], ...]:
    """The roles of successive steps that occur on some core, in a fixed order."""
    found = {pair for roles in roles_of_cores(mesh) for pair in pairwise(roles)}
    return tuple(sorted(found, key=_pair_order))


@cache
def block_pairs(mesh: int) -> tuple[tuple[Role, Role], ...]:
    """The roles of a block's last step and of the next block's first one, in a fixed order."""
    return tuple(sorted({(roles[-1], roles[0]) for roles in roles_of_cores(mesh)}, key=_pair_order))


def _pair_order(pair: tuple[Role, Role]) -> tuple[int, int]:
    return role_number(pair[1]), role_number(pair[0])


def role_number(role: Role) -> int:
    """1 for a core that sends the vector operand, plus 2 for the scalar one."""
    return role.sends_vector + 2 * role.sends_scalar


def loop_label(role: Role) -> str:
    """Label of the first copy of the loop over k in a role."""
    return f"loop_{role.name}"


def step_label(now: Role, then: Role) -> str:
    """Label of the transition between two steps."""
    return f"step_{now.name}_{then.name}"


def advance(register: int, step_bytes: int) -> list[Instruction]:
    """register += step_bytes, in as many instructions as the immediate needs."""
    steps = []
    while step_bytes:
        piece = max(-LARGEST_DISPLACEMENT, min(LARGEST_DISPLACEMENT, step_bytes))
        steps.append(instruction("ldi", Register(register), (piece, register)))
        step_bytes -= piece
    return steps


def template_of_plan(plan: GemmPlan) -> IssueTimes:
    """The slot template of the plan's precision."""
    return gemm_template(plan.variant.precision)


def ending(plan: GemmPlan, role: Role, index: int) -> list[Placed]:
    """The parts of an iteration that issue during its own arithmetic, arithmetic included."""
    interval = template_of_plan(plan).interval_cycles
    timed = _timed(plan.variant.precision, role)
    return [(time - interval, part, index) for time, part in timed if time >= interval]


def ahead(plan: GemmPlan, role: Role, index: int) -> list[Placed]:
    """The parts of an iteration that issue during the arithmetic of the one before."""
    interval = template_of_plan(plan).interval_cycles
    timed = _timed(plan.variant.precision, role)
    return [(time, part, index) for time, part in timed if time < interval]


@cache
def _timed(precision: Precision, role: Role) -> list[tuple[int, BodyStep]]:
    """The parts of an iteration by their times."""
    times = gemm_template(precision).times
    active = [p for p in times if p.kind not in _CONTROL and p.belongs_to(role)]
    return sorted(((times[p], p) for p in active), key=lambda item: (item[0], item[1].kind))


@cache
def counted_parts(precision: Precision, role: Role) -> tuple[int, int, int]:
    """The number of parts of an iteration in the first slot of its own arithmetic, in later ones,
    and during the arithmetic of the one before.
    """
    interval = gemm_template(precision).interval_cycles
    slots = [time - interval for time, _ in _timed(precision, role)]
    first, late = slots.count(0), sum(slot > 0 for slot in slots)
    return first, late, len(slots) - first - late


def emitted(plan: GemmPlan, placed: Sequence[Placed]) -> Slots:
    """The instructions of parts, with their slots."""
    strides = inner_strides(plan)
    return [(slot, emit(part, strides, -index)) for slot, part, index in placed]


def by_slot(items: Sequence[tuple[int, Instruction]]) -> list[Instruction]:
    """The instructions in issue order. Within a slot the arithmetic comes first, since it may read
    a register that another instruction overwrites, and a pointer step last, since an access reads
    the old pointer.
    """

    def rank(item: tuple[int, Instruction]) -> tuple[int, bool, bool]:
        slot, line = item
        return slot, line.mnemonic not in MULTIPLY_ADDS, line.mnemonic == "ldi"

    return [line for _, line in sorted(items, key=rank)]


def free_slots(plan: GemmPlan, placed: Sequence[Placed], count: int) -> list[int]:
    """Slots where only arithmetic issues; instructions without one go to the end, a cycle each."""
    interval = template_of_plan(plan).interval_cycles
    taken = {slot for slot, part, _ in placed if part.kind != "multiply_add"}
    free = [slot for slot in range(1, interval - 1) if slot not in taken]
    return [*free, *[interval - 1] * count][:count]


def iteration(plan: GemmPlan, role: Role, index: int) -> list[Placed]:
    return ending(plan, role, index) + ahead(plan, role, index + 1)


def straight_iterations(plan: GemmPlan, role: Role, count: int) -> list[Instruction]:
    """Successive iterations, the first of which reads at the pointers."""
    return [
        line
        for index in range(count)
        for line in by_slot(emitted(plan, iteration(plan, role, index)))
    ]


def unrolled_loop(plan: GemmPlan, role: Role, body: int, label: str) -> list[Instruction]:
    """The unrolled loop; in the body's last iteration the pointers step over all of it."""
    last = iteration(plan, role, body - 1)
    steps = {"load_vector": plan.vector_step, "load_scalar": plan.scalar_step}
    moving = [kind for kind in steps if BodyStep(kind).belongs_to(role)]
    slot_of_count, *slots = free_slots(plan, last, 1 + len(moving))
    stepped = dict(zip(moving, slots, strict=True))
    # A part after the step of its pointer finds its operand one body nearer.
    last = [
        (slot, part, index - body * (slot > stepped.get(part.kind, slot)))
        for slot, part, index in last
    ]
    items = emitted(plan, last)
    items.append((slot_of_count, emit(BodyStep("count"), inner_strides(plan))))
    for kind, slot in stepped.items():
        items += [(slot, line) for line in advance(_POINTERS[kind], body * steps[kind])]
    code = [*straight_iterations(plan, role, body - 1), *by_slot(items)]
    code.append(instruction("bne", Register(COUNTER), SymbolReference(label)))
    return [replace(code[0], labels=(label,)), *code[1:]]


def loop_code(plan: GemmPlan, role: Role, label: str) -> list[Instruction]:
    """All iterations of a step in one role except the last, then the jump to the transition."""
    how = unrolling(plan)
    code = unrolled_loop(plan, role, how.body, label) if how.trips else []
    code += straight_iterations(plan, role, how.rest)
    # The jump takes the slot beside the first multiply-add of the last iteration.
    opening = [p for p in ending(plan, role, how.rest) if p[0] == 0]
    code += [*by_slot(emitted(plan, opening)), instruction("ret", Register(TARGET))]
    first = code[0]
    return [replace(first, labels=tuple(dict.fromkeys((label, *first.labels)))), *code[1:]]


def last_iteration(plan: GemmPlan, role: Role) -> list[Placed]:
    """The part of the last iteration that is placed after the jump."""
    return [p for p in ending(plan, role, unrolling(plan).rest) if p[0] > 0]


def bookkeeping(plan: GemmPlan) -> list[Instruction]:
    """Target of the next dispatch and the trip count."""
    code = [
        instruction("ldl", Register(TARGET), (0, TABLE_POINTER)),
        *advance(TABLE_POINTER, 8),
    ]
    trips = unrolling(plan).trips
    if trips:
        code.append(instruction("ldi", Register(COUNTER), (trips, ZERO)))
    return code


def step_code(plan: GemmPlan, now: Role, then: Role, label: str) -> list[Instruction]:
    """The last iteration of a step, overlapped with the first loads of the next, which takes no
    extra cycles, then a copy of the loop, labelled `label`.
    """
    placed = last_iteration(plan, now) + ahead(plan, then, 0)
    extra = bookkeeping(plan)
    items = emitted(plan, placed)
    items += zip(free_slots(plan, placed, len(extra)), extra, strict=True)
    code = by_slot(items)
    first = replace(code[0], labels=(step_label(now, then),))
    return [first, *code[1:], *loop_code(plan, then, label)]


def all_steps(plan: GemmPlan) -> list[Instruction]:
    """The transitions of all pairs of roles with their loops, and the loops of roles in which only
    blocks start. The first copy of a role's loop has the label `loop_label`.
    """
    mesh = plan.shape.mesh
    code: list[Instruction] = []
    labelled: set[Role] = set()
    for now, then in step_pairs(mesh):
        label = loop_label(then) if then not in labelled else f"{step_label(now, then)}_loop"
        labelled.add(then)
        code += step_code(plan, now, then, label)
    for _, then in block_pairs(mesh):
        if then not in labelled:
            labelled.add(then)
            code += loop_code(plan, then, loop_label(then))
    return code
