"""A loop in the obvious order in, its software pipeline with a proof of its interval out.

The shared scheduler has no unit for the memory ports. Accesses that share two ports are therefore
given a register that each reads and writes, usable again when the ports are, so that the bound of
the memory is a recurrence (four rows of 64 columns: 4 r_h for loads, 4 r_h + 4 w_h with stores).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from msgspec import Struct, json, structs

from tilewright.asm import assemble
from tilewright.common.cache import CacheStore
from tilewright.common.digest import digest
from tilewright.isa import Instruction, Register, load_table
from tilewright.isa.dependence import AliasRules, Operation, build_dependences
from tilewright.isa.modulo import Effort, ModuloSchedule, modulo_schedule, solver_sources
from tilewright.isa.modulo_bounds import IntervalBounds, interval_bounds
from tilewright.isa.operations import is_stream, operations_of
from tilewright.isa.software_pipeline import PipelinedLoop, TripCount, emit_loop
from tilewright.machine import Machine
from tilewright.targets.cns1.kernels.bodies import Body
from tilewright.targets.cns1.node import TABLE
from tilewright.targets.cns1.sections import Rdram, Vectors
from tilewright.targets.cns1.timing.layers import (
    ELEMENT_BYTES,
    VECTOR_BYTES,
    read_cycles,
    write_cycles,
)


@dataclass(frozen=True)
class PortCycles:
    """Cycles of a read and a write that hit through a port, and of a vector's look-ups spread
    evenly over the ports: all times that a schedule depends on.
    """

    read: int
    write: int
    lookups: int


def port_cycles(machine: Machine) -> PortCycles:
    """r_h and w_h of 32 bytes, and r_h of one byte for each element that goes through a port."""
    read, write = read_cycles(machine, VECTOR_BYTES), write_cycles(machine, VECTOR_BYTES)
    through = machine.section(Vectors).length // machine.section(Rdram).ports
    lookups = through * read_cycles(machine, ELEMENT_BYTES).hit
    return PortCycles(read.hit, write.hit, lookups)


class _Times(Struct, frozen=True):
    """Result of the solver: the numbers of a `ModuloSchedule`."""

    interval_cycles: int
    times: tuple[int, ...]
    order: tuple[int, ...]
    refuted_intervals: tuple[int, ...]
    undecided_intervals: tuple[int, ...]
    span_cycles: int
    span_bound_cycles: int
    pipelined: bool


SCHEDULES = CacheStore("schedules")
"""The schedules of this user."""


SHIPPED = Path(__file__).with_name("schedules.json")
"""Schedules by what was asked, as `make cns1-schedules` writes them."""


@cache
def shipped() -> dict[str, _Times]:
    """The schedules that come with tilewright: the solver takes seconds for each."""
    return json.decode(SHIPPED.read_bytes(), type=dict[str, _Times])


@cache
def scheduled_loop(body: Body, ports: PortCycles) -> ModuloSchedule:
    """The schedule of a loop; equal loops on equal memories are scheduled once. Schedules for the
    family's machines are `SHIPPED`; those for others are cached for other processes.
    """
    asked = asked_of(body, ports)
    times = shipped().get(asked.key)
    if times is None:
        times = SCHEDULES.value(digest(asked.key, solver_sources())[:32], _Times, asked.solved)
    rules = load_table(TABLE).issue
    graph = build_dependences(asked.operations, rules=rules, aliases=asked.aliases)
    bounds = interval_bounds(graph, rules)
    return ModuloSchedule(graph, rules, bounds=bounds, **structs.asdict(times))


@dataclass(frozen=True)
class Asked:
    """A loop as the scheduler takes it."""

    operations: tuple[Operation, ...]
    aliases: AliasRules
    effort: Effort

    @property
    def key(self) -> str:
        """A digest of everything a schedule depends on except the scheduler."""
        rules = load_table(TABLE).issue
        parts = (repr(part) for part in (self.operations, rules, self.aliases, self.effort))
        return digest(*parts)[:32]

    def solved(self) -> _Times:
        """Run the solver on the loop."""
        rules = load_table(TABLE).issue
        found = modulo_schedule(self.operations, rules, aliases=self.aliases, effort=self.effort)
        return _Times(**{name: getattr(found, name) for name in _Times.__struct_fields__})


def asked_of(body: Body, ports: PortCycles) -> Asked:
    """The loop with the cycles of its accesses, for the scheduler."""
    numbers = load_table(TABLE).register_numbers
    objects = {numbers[name]: what for name, what in body.objects}
    operations = tuple(_with_ports(_instructions(body), body, ports))
    return Asked(operations, AliasRules(objects), Effort(deterministic_units=body.effort_units))


def solved_again(loops: Iterable[tuple[Body, PortCycles]]) -> dict[str, _Times]:
    """Rebuild the entries of `SHIPPED` for these loops, each solved or from this user's cache."""
    found = {}
    for body, ports in loops:
        asked = asked_of(body, ports)
        key = digest(asked.key, solver_sources())[:32]
        found[asked.key] = SCHEDULES.value(key, _Times, asked.solved)
    return found


@cache
def least_interval(body: Body, ports: PortCycles) -> IntervalBounds:
    """Lower bounds on a loop's initiation interval, without searching for a schedule."""
    table = load_table(TABLE)
    operations = _with_ports(_instructions(body), body, ports)
    graph = build_dependences(operations, rules=table.issue)
    return interval_bounds(graph, table.issue)


def pipelined(body: Body, machine: Machine, trips: int) -> PipelinedLoop:
    """The loop's sections for at least `trips` iterations, which may be as few as its stages.
    Raises ScheduleError if the loop may run fewer times than it has stages.
    """
    schedule = scheduled_loop(body, port_cycles(machine))
    register = load_table(TABLE).register_numbers["$13"]
    return emit_loop(_instructions(body), TripCount(register, trips), schedule)


def pipelined_lines(body: Body, machine: Machine, trips: int) -> list[str]:
    """The text of a loop that runs `trips` times, unpipelined if the pipeline has more stages. Its
    label is that of the body; the branch is followed by its delay slot.
    """
    if trips < scheduled_loop(body, port_cycles(machine)).stages:
        return plain_lines(body)
    return [_line(instruction) for instruction in pipelined(body, machine, trips).program]


def plain_lines(body: Body) -> list[str]:
    """The text of a loop, unpipelined."""
    _, *lines = body.text.splitlines()
    return [line.strip() for line in (f"loop: {lines[0].strip()}", *lines[1:], "nop")]


def _line(instruction: Instruction) -> str:
    labels = "".join(f"{label}: " for label in instruction.labels)
    return f"{labels}{instruction.text()}"


def _instructions(body: Body) -> tuple[Instruction, ...]:
    placed = assemble(body.text, load_table(TABLE), filename=body.name).instructions
    return tuple(one.instruction for one in placed)


def _with_ports(
    instructions: Sequence[Instruction], body: Body, ports: PortCycles
) -> list[Operation]:
    """The operations, with accesses to main memory ordered by their ports."""
    table = load_table(TABLE)
    names = sorted({shared for _, shared in body.ports})
    numbers = {name: table.register_count + i for i, name in enumerate(names)}
    of_pointer: dict[int, list[int]] = {}
    for pointer, shared in body.ports:
        of_pointer.setdefault(table.register_numbers[pointer], []).append(numbers[shared])
    found = []
    for instruction, operation in zip(instructions, operations_of(instructions), strict=True):
        if not is_stream(instruction) or instruction.spec.memory != "main":
            found.append(operation)
            continue
        base = instruction.by_role["b"]
        assert isinstance(base, Register)
        port = of_pointer.get(base.number, [])
        found.append(
            replace(
                operation,
                reads=(*operation.reads, *port),
                writes=(*operation.writes, *port),
                latency_cycles=_latency_cycles(instruction, ports),
            )
        )
    return found


def _latency_cycles(instruction: Instruction, ports: PortCycles) -> int:
    if instruction.traits.store:
        return ports.write
    return ports.lookups if instruction.spec.mnemonic == "gather" else ports.read
