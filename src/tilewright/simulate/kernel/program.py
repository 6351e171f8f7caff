"""Programs ready for timing: numbered statements, with the expressions their time depends on.

The cores run in lockstep and core (0, 0) has the largest extents, so its extents decide every cost;
the part of a tile that is data is tracked for all cores. `prepare` makes these values from a
program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product as combinations
from typing import TypeAlias, assert_never

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, SimulationError
from tilewright.common.expr import Const, Expr, evaluate, free_vars, product, substitute
from tilewright.common.straight_line import StraightLine, straight_line
from tilewright.cost import steps as cost_steps
from tilewright.cost.calls import PricedCall, priced_call
from tilewright.ir import nodes as ir
from tilewright.ir.chains import ChainRules
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.printer import print_head
from tilewright.ir.visit import map_stmt, walk
from tilewright.machine import Machine
from tilewright.passes.lowering import LOWERS, lowering_of
from tilewright.simulate.kernel.signature import Signatures, Timed

MAIN_MEMORY = ""
"""Stands for the buffer of an operand that is used in main memory."""


@dataclass(frozen=True)
class LoopStatement:
    """A loop, with every expression that the time of an iteration depends on."""

    number: int
    var: str
    extent: Expr
    body: tuple[Action, ...]
    timed: tuple[Timed, ...]
    text: str

    @cached_property
    def alike(self) -> Signatures:
        """Numbers the iterations that behave alike, for all runs of the program."""
        return Signatures(self.timed, self.var)


@dataclass(frozen=True)
class ConditionStatement:
    """Statements `then` if a condition holds, `orelse` if not."""

    condition: Expr
    then: tuple[Action, ...]
    orelse: tuple[Action, ...]


@dataclass(frozen=True)
class InsideRegion:
    """The part of a tile that lies inside its tensor, as extents over core and loop symbols."""

    number: int
    text: str
    extents: tuple[Expr, ...]
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class TransferStatement:
    """A transfer: its slot and step on core (0, 0), and the region of every core."""

    number: int
    step: cost_steps.TransferStep
    slot: Expr
    region: InsideRegion
    text: str

    @property
    def stmt(self) -> ir.Transfer:
        return self.step.stmt

    @cached_property
    def code(self) -> StraightLine:
        """Evaluates the slot, then the numbers of the step."""
        return straight_line((self.slot, *self.step.numbers))


@dataclass(frozen=True)
class Pause:
    """A wait for the transfers of a slot."""

    buffer: str
    slot: Expr
    text: str


@dataclass(frozen=True)
class TileAxis:
    """Matrix axis `name` (m, n or k): dimension `dim` of the tile under an operand."""

    operand: int
    rank: int
    dim: int
    name: str
    start: Expr
    extent: Expr
    step: Expr


@dataclass(frozen=True)
class CallStatement:
    """A primitive call, or a chain of `links` products; `buffers` holds one entry per operand.

    `numbers` concatenates the slots of the operands, the elements of their tiles, the `dims` that
    its cost depends on, and, for each link, start, extent and step of each of `axes`. `priced`
    lacks the extents.
    """

    number: int
    call: ir.Call
    priced: PricedCall[Primitive]
    buffers: tuple[str, ...]
    dims: tuple[str, ...]
    axes: tuple[TileAxis, ...]
    result: InsideRegion | None
    numbers: tuple[Expr, ...]
    text: str
    links: int = 1

    @cached_property
    def code(self) -> StraightLine:
        """Evaluates `numbers`."""
        return straight_line(self.numbers)

    def dims_of(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """The `dims` among the values of `numbers`."""
        return values[2 * len(self.buffers) :][: len(self.dims)]


Action: TypeAlias = (
    LoopStatement | ConditionStatement | TransferStatement | Pause | ir.Barrier | CallStatement
)


@dataclass(frozen=True)
class SlotSize:
    """The slots of one buffer; `sharing` names the buffers whose addresses overlap with its own."""

    copies: int
    elements: int
    bytes: int
    sharing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PreparedProgram:
    """A program ready to be timed; `moves` and `works` are indexed by statement number."""

    body: tuple[Action, ...]
    moves: tuple[TransferStatement, ...]
    works: tuple[CallStatement, ...]
    buffers: dict[str, SlotSize]
    allocated_bytes: int


# Prepare a program for timing: number statements, collect the expressions their time depends on.
#
# In: an instantiated explicit-stage program and a machine. Out: a `PreparedProgram`, or an error
# for a program that this machine cannot run at all.


def prepare(program: ir.Program, machine: Machine) -> PreparedProgram:
    """Check that the program can run on the machine and number its statements.

    Raises SimulationError for free parameters and for operands in main memory that the machine does
    not use in place, CapacityError if the buffers do not fit their memory.
    """
    if program.parameters:
        raise SimulationError(
            f"program {program.name!r} has parameters without a value: "
            f"{', '.join(program.parameters)}",
            fix="instantiate it first",
        )
    builder = _Builder(program, machine)
    body = builder.body(cost_steps.steps_of(program, chains=_chains(machine)))
    for timed in _timed(body, builder.mesh):
        for name in sorted(timed.outer_symbols):
            raise SimulationError(f"symbol {name!r} of program {program.name!r} has no value")
    buffers = {b.name: builder.slots(b.name) for b in program.buffers}
    allocated = _allocated_bytes(program, machine, buffers)
    return PreparedProgram(body, tuple(builder.moves), tuple(builder.works), buffers, allocated)


def _chains(machine: Machine) -> ChainRules | None:
    """Rules for chains that run as one call. Chains that overwrite C absorb its fill, and with it
    what the simulator knows of the slot: with such rules each product is a call.
    """
    rules = lowering_of(machine).chains if LOWERS.of(machine) else None
    return None if rules is None or rules.overwrites else rules


def _allocated_bytes(program: ir.Program, machine: Machine, buffers: dict[str, SlotSize]) -> int:
    """Bytes of all memories up to the end of their last buffer, as placed or one after another."""
    ends: dict[str, int] = {}
    for b in program.buffers:
        unit, end = machine.space(b.space).alignment_bytes, ends.get(b.space, 0)
        size = -(-buffers[b.name].bytes * buffers[b.name].copies // unit) * unit
        ends[b.space] = end + size if b.offset_bytes is None else max(end, b.offset_bytes + size)
    for space, end in ends.items():
        if end > machine.space(space).available_bytes:
            words = "a scratchpad" if space == ir.SCRATCHPAD else ir.memory_words(space)
            raise CapacityError(
                f"the buffers of {program.name!r} take {end} bytes of {words} that offers "
                f"{machine.space(space).available_bytes}",
                fix="use smaller tiles or fewer buffer copies",
            )
    return sum(ends.values())


class _Builder:
    def __init__(self, program: ir.Program, machine: Machine) -> None:
        self._program = program
        self._core = cost_steps.first_core(machine)
        self._machine = machine
        self.mesh = {n: value for n, value in self._core.items() if n not in ir.CORE_SYMBOLS}
        self._loops = 0
        self._scope: tuple[str, ...] = ()
        self._regions = 0
        self.moves: list[TransferStatement] = []
        self.works: list[CallStatement] = []

    def slots(self, name: str) -> SlotSize:
        buffer = self._program.buffer(name)
        elements = int(evaluate(buffer.elements, self.mesh))
        copies = int(evaluate(buffer.copies, self.mesh))
        size = elements * dtype(buffer.dtype).size_bytes
        return SlotSize(copies, elements, size, self._sharing(buffer))

    def _sharing(self, buffer: ir.Buffer) -> frozenset[str]:
        start, end = self._addresses(buffer)
        beside = (b for b in self._program.buffers if b != buffer and b.space == buffer.space)
        others = ((b.name, *self._addresses(b)) for b in beside)
        return frozenset(name for name, low, high in others if low < end and start < high)

    def _addresses(self, buffer: ir.Buffer) -> tuple[int, int]:
        """First byte and end; an empty range for a buffer that is not placed yet."""
        if buffer.offset_bytes is None:
            return 0, 0
        size = int(evaluate(buffer.elements * buffer.copies, self.mesh))
        return buffer.offset_bytes, buffer.offset_bytes + size * dtype(buffer.dtype).size_bytes

    def body(self, steps: tuple[cost_steps.Step, ...]) -> tuple[Action, ...]:
        return tuple(self._step(step) for step in steps)

    def _on_first_core(self, e: Expr) -> Expr:
        return substitute(e, self._core)

    def _step(self, step: cost_steps.Step) -> Action:
        match step:
            case cost_steps.LoopStep():
                return self._loop(step)
            case cost_steps.BranchStep(condition, then, orelse):
                return ConditionStatement(
                    self._on_first_core(condition), self.body(then), self.body(orelse)
                )
            case cost_steps.TransferStep():
                return self._move(step)
            case ir.Wait(buffer, slot):
                return Pause(buffer, self._on_first_core(slot), print_head(step))
            case cost_steps.CallStep():
                return self._work(step)
            case ir.Barrier():
                return step
            case _:
                assert_never(step)

    def _loop(self, step: cost_steps.LoopStep) -> LoopStatement:
        stmt = step.stmt
        self._scope = (*self._scope, stmt.var)
        body = self.body(step.body)
        self._scope = self._scope[:-1]
        timed = tuple(dict.fromkeys(_timed(body, self.mesh)))
        self._loops += 1
        extent = self._on_first_core(stmt.extent)
        number, text = self._loops, print_head(stmt)
        return LoopStatement(number, stmt.var, extent, body, timed, text)

    def _move(self, step: cost_steps.TransferStep) -> TransferStatement:
        text, extents = print_head(step.stmt), tuple(r.extent for r in step.stmt.ranges)
        slot, region = self._on_first_core(step.stmt.slot), self._region(extents, text)
        transaction = self._machine.transfer_engine(step.space).transaction_bytes
        placed = step.at_place(max(1, transaction // step.element_bytes))
        move = TransferStatement(len(self.moves), placed.bound(self._core), slot, region, text)
        self.moves.append(move)
        return move

    def _region(self, extents: tuple[Expr, ...], text: str) -> InsideRegion:
        bound = tuple(substitute(e, self.mesh) for e in extents)
        symbols = frozenset().union(*(free_vars(e) for e in bound)) - set(ir.CORE_SYMBOLS)
        self._regions += 1
        return InsideRegion(self._regions, text, bound, tuple(sorted(symbols)))

    def _result(self, call: ir.Call) -> InsideRegion | None:
        """Region that the put of a product's result stores; None unless it is unique and depends
        only on loops around the call.
        """
        if not isinstance(call.primitive, MatrixProduct):
            return None
        if not isinstance(call.operands[0], ir.View):
            return None
        buffer = call.operands[0].buffer
        kept = {
            tuple(r.extent for r in s.ranges): print_head(s)
            for s in walk(self._program.body)
            if isinstance(s, ir.Transfer) and s.direction == "put" and s.buffer == buffer
        }
        regions = [self._region(extents, text) for extents, text in kept.items()]
        return (
            regions[0]
            if len(regions) == 1 and set(regions[0].symbols) <= set(self._scope)
            else None
        )

    def _work(self, step: cost_steps.CallStep) -> CallStatement:
        stmt = step.stmt
        local = map_stmt(stmt, self._on_first_core)
        assert isinstance(local, ir.Call)
        tensors = [o.tensor for o in local.operands if isinstance(o, ir.Tile)]
        if tensors and not lowering_of(self._machine).in_place:
            raise SimulationError(
                f"{stmt.primitive.name} works on {tensors[0]!r} in main memory",
                where=print_head(stmt),
                fix="infer the transfers of the program first",
            )
        dims, axes = step.dims, _tile_axes(local.primitive, local.operands)
        links = [*_links(step.loops or ())]
        slots = [_slot(operand) for operand in local.operands]
        numbers = (
            *(slot for _, slot, _ in slots),
            *(elements for _, _, elements in slots),
            *map(self._on_first_core, dims.values()),
            *(substitute(e, at) for at in links for a in axes for e in (a.start, a.extent, a.step)),
        )
        buffers, number = tuple(buffer for buffer, _, _ in slots), len(self.works)
        work = CallStatement(
            number,
            local,
            priced_call(local, {}, self._program),
            buffers,
            tuple(dims),
            axes,
            self._result(stmt),
            numbers,
            print_head(stmt),
            len(links),
        )
        self.works.append(work)
        return work


def _links(loops: tuple[ir.For, ...]) -> Iterator[dict[str, int]]:
    """Values of the loop variables of a chain at each of its links."""
    counts = [range(int(evaluate(f.extent, {}))) for f in loops]
    for indices in combinations(*counts):
        yield dict(zip((f.var for f in loops), indices, strict=True))


def _slot(operand: ir.Operand) -> tuple[str, Expr, Expr]:
    """Buffer, slot and elements of the tile under an operand; 0 elements if in main memory."""
    match operand:
        case ir.View(buffer, slot, shape):
            return buffer, slot, product(shape)
        case ir.Tile():
            return MAIN_MEMORY, Const(0), Const(0)
        case _:
            assert_never(operand)


def _tile_axes(primitive: Primitive, operands: tuple[ir.Operand, ...]) -> tuple[TileAxis, ...]:
    """The axes that determine which part of a matrix product is padding."""
    if not isinstance(primitive, MatrixProduct):
        return ()
    return tuple(
        TileAxis(operand, len(operands[operand].ranges), dim, role, r.start, r.extent, r.step)
        for operand in range(3)
        for dim, (role, r) in enumerate(
            zip(operands[operand].roles, operands[operand].ranges, strict=True)
        )
        if role != "."
    )


def _timed(body: tuple[Action, ...], mesh: dict[str, int]) -> list[Timed]:
    """Expressions of `body` on which its behaviour or its cost depends, without constants."""
    found: list[Timed] = []
    for step in body:
        match step:
            case LoopStatement():
                inside = [t.inside(step.var, step.extent) for t in step.timed]
                found += [Timed(step.extent), *inside]
            case ConditionStatement(condition, then, orelse):
                found += [Timed(condition), *_timed(then, mesh), *_timed(orelse, mesh)]
            case TransferStatement():
                found += [Timed(e) for e in (step.slot, *step.step.numbers)]
                found += [_on_mesh(e, mesh) for e in step.region.extents]
            case Pause():
                found.append(Timed(step.slot))
            case CallStatement():
                found += [Timed(e) for e in step.numbers]
                found += [_on_mesh(e, mesh) for e in (step.result.extents if step.result else ())]
            case ir.Barrier():
                pass
            case _:
                assert_never(step)
    return [t for t in found if free_vars(t.expr)]


def _on_mesh(e: Expr, mesh: dict[str, int]) -> Timed:
    """An expression over all cores: its core symbols count as loops inside."""
    timed = Timed(e).inside("rid", Const(mesh["mesh_rows"]))
    return timed.inside("cid", Const(mesh["mesh_columns"]))
