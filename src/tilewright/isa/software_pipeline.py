"""Emission of a software-pipelined loop: guard, prologue, kernel, epilogue, and the plain loop for
short trips.

In: a loop body of instructions in program order (the first carries the loop's label, the last
branches back to it) and its modulo schedule. Out: a `PipelinedLoop` with a program equivalent to
the plain loop. Registers keep their names; a memory access that moves across an addition to its
base register gets its displacement corrected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.common.errors import ScheduleError
from tilewright.isa.dependence import AliasRules, build_dependences
from tilewright.isa.effects import Effect
from tilewright.isa.instruction import (
    Instruction,
    Operand,
    Register,
    SymbolReference,
    make_instruction,
)
from tilewright.isa.modulo import Effort, ModuloSchedule, modulo_schedule
from tilewright.isa.operations import operations_of, with_displacement
from tilewright.isa.reorder import in_order_cycles, schedule_order
from tilewright.isa.table import InstructionTable


@dataclass(frozen=True)
class TripCount:
    """Iterations of the loop.

    `register` holds the number of iterations on entry to the loop, at least `minimum`. `scratch` is
    a register that the guard may overwrite; it is needed only if `minimum` is below the number of
    stages.
    """

    register: int
    minimum: int = 1
    scratch: int | None = None


@dataclass(frozen=True)
class _Copy:
    """Operation `index` of iteration `iteration`, relative to the first one in its section."""

    index: int
    iteration: int


@dataclass(frozen=True)
class PipelinedLoop:
    """The loop in sections; `program` is the whole, to be followed by other code."""

    schedule: ModuloSchedule
    guard: tuple[Instruction, ...]
    prologue: tuple[Instruction, ...]
    kernel: tuple[Instruction, ...]
    epilogue: tuple[Instruction, ...]
    plain: tuple[Instruction, ...]

    @property
    def program(self) -> tuple[Instruction, ...]:
        """All sections: the guard, the pipeline, and the plain loop for small trip counts."""
        return (*self.guard, *self.prologue, *self.kernel, *self.epilogue, *self.plain)


def pipeline_loop(
    body: Sequence[Instruction],
    trips: TripCount,
    *,
    aliases: AliasRules | None = None,
    effort: Effort | None = None,
    register_limit: int | None = None,
) -> PipelinedLoop:
    """The loop as a software pipeline with the least initiation interval, or list-scheduled if the
    effort runs out.

    Errors: ScheduleError for a body that is no simple loop, or for a guard without a scratch
    register; CapacityError for too many registers.
    """
    _check_body(body)
    schedule = modulo_schedule(
        operations_of(body),
        body[0].table.issue,
        aliases=aliases,
        effort=effort,
        register_limit=register_limit,
    )
    return emit_loop(body, trips, schedule)


def emit_loop(
    body: Sequence[Instruction], trips: TripCount, schedule: ModuloSchedule
) -> PipelinedLoop:
    """The sections of a scheduled loop."""
    label = body[0].labels[0]
    if not schedule.pipelined:
        bare = [replace(body[i], labels=()) for i in schedule.order]
        return PipelinedLoop(schedule, (), (), _closed(_labelled(bare, label)), (), ())
    sections = _sections(schedule)
    prologue, kernel, epilogue = _emit_sections(body, schedule, sections)
    kernel = _closed(kernel)
    if schedule.stages <= trips.minimum:
        return PipelinedLoop(schedule, (), prologue, _labelled(kernel, label), epilogue, ())
    guard, plain, epilogue = _short_trips(body, trips, schedule, epilogue)
    return PipelinedLoop(schedule, guard, prologue, _labelled(kernel, label), epilogue, plain)


def _check_body(body: Sequence[Instruction]) -> None:
    labels = [label for instruction in body for label in instruction.labels]
    branches = [i for i, instruction in enumerate(body) if instruction.is_branch]
    fix = "the first instruction has the only label, the last one the only branch, back to it"
    if len(body) < 2 or branches != [len(body) - 1] or len(labels) != 1 or not body[0].labels:
        raise ScheduleError(
            f"not a simple loop: {len(labels)} labels and branches at {branches} "
            f"in {len(body)} instructions",
            fix=fix,
        )
    if body[-1].target != SymbolReference(labels[0]):
        raise ScheduleError(f"the last branch does not lead to '{labels[0]}'", fix=fix)


def _closed(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions, with a no-operation in the delay slot of a final branch."""
    last = instructions[-1]
    if not (last.is_branch and last.table.issue.delay_slots):
        return tuple(instructions)
    return (*instructions, _by_effect(last.table, Effect.NO_OPERATION, {}))


def _labelled(instructions: Sequence[Instruction], label: str) -> tuple[Instruction, ...]:
    first, *rest = instructions
    return (replace(first, labels=(label, *first.labels)), *rest)


def _sections(schedule: ModuloSchedule) -> tuple[list[_Copy], list[_Copy], list[_Copy]]:
    """Copies of operations in prologue, kernel and epilogue, for one iteration per stage."""
    stages, interval = schedule.stages, schedule.interval_cycles
    parts: tuple[list[_Copy], list[_Copy], list[_Copy]] = ([], [], [])
    for iteration in range(stages):
        for index, time in enumerate(schedule.times):
            block = iteration + time // interval
            part = 0 if block < stages - 1 else 1 if block == stages - 1 else 2
            parts[part].append(_Copy(index, iteration))
    prologue, kernel, epilogue = (_in_time_order(schedule, part) for part in parts)
    prologue = _without_branches(schedule, prologue)
    prologue = _better_order(schedule, prologue, kernel, before=True)
    epilogue = _better_order(schedule, _without_branches(schedule, epilogue), kernel, before=False)
    return prologue, kernel, epilogue


def _without_branches(schedule: ModuloSchedule, copies: Sequence[_Copy]) -> list[_Copy]:
    return [copy for copy in copies if not schedule.graph.operations[copy.index].branch]


def _in_time_order(schedule: ModuloSchedule, copies: Sequence[_Copy]) -> list[_Copy]:
    """The copies by kernel time; within a cycle, reads precede overwrites, then fewer units win."""
    operations = schedule.graph.operations
    by_cycle: dict[int, list[_Copy]] = {}
    for copy in copies:
        by_cycle.setdefault(_time(schedule, copy), []).append(copy)
    ordered: list[_Copy] = []
    for cycle in sorted(by_cycle):
        group = by_cycle[cycle]
        while group:
            free = [c for c in group if not any(_precedes(schedule, o, c) for o in group if o != c)]
            chosen = min(
                free,
                key=lambda c: (
                    operations[c.index].branch,
                    len(operations[c.index].units),
                    c.iteration,
                    c.index,
                ),
            )
            group.remove(chosen)
            ordered.append(chosen)
    return ordered


def _time(schedule: ModuloSchedule, copy: _Copy) -> int:
    return schedule.times[copy.index] + copy.iteration * schedule.interval_cycles


def _precedes(schedule: ModuloSchedule, one: _Copy, other: _Copy) -> bool:
    """True if `one` must come before `other` when both issue in the same cycle."""
    gap = other.iteration - one.iteration
    for edge in schedule.graph.edges:
        if (edge.source, edge.target, edge.distance) == (one.index, other.index, gap):
            return True
    pairs = schedule.graph.address_uses
    return any((use.access, use.increment) == (one.index, other.index) for use in pairs)


def _better_order(
    schedule: ModuloSchedule, copies: list[_Copy], kernel: Sequence[_Copy], *, before: bool
) -> list[_Copy]:
    """The copies in list-scheduled order, if that is faster together with the kernel."""
    operations = schedule.graph.operations
    program_order = sorted(copies, key=lambda c: (c.iteration, c.index))
    stream = [operations[copy.index] for copy in program_order]
    graph = build_dependences(stream, rules=schedule.rules, loop=False)
    latest = [-_deadline(schedule, copy) for copy in program_order] if before else None
    listed = [program_order[i] for i in schedule_order(graph, schedule.rules, latest).order]
    steady = [operations[copy.index] for copy in kernel] * 3

    def length(candidate: list[_Copy]) -> int:
        edge = [operations[copy.index] for copy in candidate]
        whole = [*edge, *steady] if before else [*steady, *edge]
        return in_order_cycles(whole, schedule.rules)[-1]

    candidates = [c for c in (copies, listed) if _keeps_dependences(schedule, c)]
    return min(candidates, key=length)


def _deadline(schedule: ModuloSchedule, copy: _Copy) -> int:
    """Latest issue that does not delay a direct successor in kernel time."""
    limits = [
        schedule.times[e.target]
        + (copy.iteration + e.distance) * schedule.interval_cycles
        - e.delay_cycles
        for e in schedule.graph.edges
        if e.source == copy.index
    ]
    return min(limits, default=_time(schedule, copy))


def _keeps_dependences(schedule: ModuloSchedule, copies: Sequence[_Copy]) -> bool:
    """True if every pair of dependent copies in the list is in order."""
    position = {copy: place for place, copy in enumerate(copies)}
    for copy, place in position.items():
        for edge in schedule.graph.edges:
            if edge.source != copy.index:
                continue
            target = _Copy(edge.target, copy.iteration + edge.distance)
            if target != copy and position.get(target, place + 1) < place:
                return False
    return True


def _emit_sections(
    body: Sequence[Instruction],
    schedule: ModuloSchedule,
    sections: tuple[list[_Copy], list[_Copy], list[_Copy]],
) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], tuple[Instruction, ...]]:
    stream = [copy for section in sections for copy in section]
    if not _keeps_dependences(schedule, stream):
        raise AssertionError("the emitted pipeline breaks a dependence")
    corrections = _displacement_corrections(schedule, stream)
    emitted = [
        with_displacement(replace(body[copy.index], labels=()), correction)
        for copy, correction in zip(stream, corrections, strict=True)
    ]
    first = len(sections[0])
    second = first + len(sections[1])
    return tuple(emitted[:first]), tuple(emitted[first:second]), tuple(emitted[second:])


def _displacement_corrections(schedule: ModuloSchedule, stream: Sequence[_Copy]) -> Iterator[int]:
    """Bytes to add to each access's displacement, for the additions that it was moved across."""
    uses: dict[int, list[tuple[int, int]]] = {}
    for use in schedule.graph.address_uses:
        uses.setdefault(use.access, []).append((use.increment, use.step_bytes))
    done: dict[int, int] = {}
    for copy in stream:
        correction = 0
        for increment, step in uses.get(copy.index, []):
            original = copy.iteration + (1 if increment < copy.index else 0)
            correction += step * (original - done.get(increment, 0))
        yield correction
        done[copy.index] = done.get(copy.index, 0) + 1


def _short_trips(
    body: Sequence[Instruction],
    trips: TripCount,
    schedule: ModuloSchedule,
    epilogue: Sequence[Instruction],
) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], tuple[Instruction, ...]]:
    """Guard, plain loop, and the epilogue with a jump past the plain loop."""
    if trips.scratch is None:
        raise ScheduleError(
            f"the pipeline has {schedule.stages} stages and the loop may run {trips.minimum} times",
            fix="give a scratch register for the guard, "
            f"or a minimum trip count of {schedule.stages}",
        )
    label = body[0].labels[0]
    table, short, end = body[0].table, f"{label}_short", f"{label}_end"
    scratch = Register(trips.scratch)
    fewest: dict[str, Operand] = {
        "a": Register(trips.register),
        "b": schedule.stages - 1,
        "d": scratch,
    }
    guard = _closed(
        (
            _by_effect(table, Effect.COMPARE_LESS_EQUAL, fewest),
            _by_effect(
                table, Effect.BRANCH_NOT_EQUAL, {"a": scratch, "target": SymbolReference(short)}
            ),
        )
    )
    plain = [replace(instruction, labels=()) for instruction in body]
    last = plain.pop()
    operands = tuple(
        SymbolReference(short) if isinstance(o, SymbolReference) else o for o in last.operands
    )
    plain.append(replace(last, operands=operands))
    ending = _by_effect(table, Effect.NO_OPERATION, {})
    skip = _by_effect(table, Effect.BRANCH_ALWAYS, {"target": SymbolReference(end)})
    plain_loop = (*_closed(_labelled(plain, short)), replace(ending, labels=(end,)))
    return guard, plain_loop, _closed((*epilogue, skip))


def _by_effect(table: InstructionTable, effect: Effect, roles: dict[str, Operand]) -> Instruction:
    """The table's instruction for an effect, with operands given by role."""
    spec = next((s for s in table.instructions if s.effect is effect), None)
    if spec is None:
        raise ScheduleError(f"table '{table.name}' has no instruction for '{effect}'")
    operands = [roles[operand.role] for operand in table.operands_of(spec)]
    return make_instruction(table, spec.mnemonic, operands)
