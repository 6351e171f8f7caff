"""Chains: consecutive matrix products that add into one C, as one product over pairs of operands.

In: a statement list. Out: the chain that begins at an index, if there is one. The loops of a
convolution over kernel taps form a chain: a core that sums all its products in registers loads and
stores C once. A zero fill of C just before belongs to the chain, whose first product then
overwrites C instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, coefficient, free_vars, product, substitute
from tilewright.ir.nodes import Call, For, If, Operand, Program, Stmt, Tile, View
from tilewright.ir.primitives import Fill, MatrixProduct
from tilewright.ir.visit import map_operand

_NEVER, _ALWAYS = Const(0), Const(1)


@dataclass(frozen=True)
class ChainRules:
    """Chains of products that a matrix primitive supports in one call.

    It `overwrites` C after a zero fill; otherwise the fill is a statement of its own. It `packs`
    operands of several links. A chain has at most `most_links` links, in loops of known extent;
    None for no limit.
    """

    overwrites: bool = True
    packs: bool = True
    most_links: int | None = None


ANY_CHAIN = ChainRules()
"""A primitive that supports all chains."""


@dataclass(frozen=True)
class Chain:
    """The products of `call` in all iterations of `loops`, outermost first, added into one C;
    `multiply` is the call's primitive.

    The first product overwrites C if `first` is not zero, and adds to it otherwise.
    """

    call: Call
    multiply: MatrixProduct
    loops: tuple[For, ...] = ()
    first: Expr = _NEVER

    @property
    def links(self) -> Expr:
        """Number of products."""
        return product(f.extent for f in self.loops)


@dataclass(frozen=True)
class ZeroFill:
    """A zero fill of `operand` if `condition` is not zero; otherwise the statements `otherwise`."""

    operand: Operand
    condition: Expr = _ALWAYS
    otherwise: tuple[Stmt, ...] = ()


def with_chains(body: tuple[Stmt, ...], rules: ChainRules = ANY_CHAIN) -> Iterator[Stmt | Chain]:
    """The statements in order, with products grouped into the longest chains."""
    index = 0
    while index < len(body):
        found = chain_at(body, index, rules)
        if found is None:
            yield body[index]
            index += 1
        else:
            chain, index = found
            yield chain


def chain_at(
    body: tuple[Stmt, ...], index: int, rules: ChainRules = ANY_CHAIN
) -> tuple[Chain, int] | None:
    """The chain that begins with statement `index`, and the index of the statement after it."""
    fill = zero_fill(body[index]) if rules.overwrites else None
    if fill is None:
        chain = _linked(body[index], rules)
        return None if chain is None else (chain, index + 1)
    chain = _linked(body[index + 1], rules) if index + 1 < len(body) else None
    if chain is None or fill.otherwise or not _same_region(fill.operand, chain.call.operands[0]):
        return None
    return replace(chain, first=fill.condition), index + 2


def chain_of_single(
    stmt: Stmt | Chain, rules: ChainRules
) -> tuple[Stmt, Chain, tuple[For, ...]] | None:
    """A nest, the chain that it becomes if each loop of unknown extent runs once, and these loops.
    None if it lacks loops of either kind, or is no chain even then.
    """
    if isinstance(stmt, Chain):
        return None
    loops, inner = _nest(stmt)
    unknown = tuple(f for f in loops if not isinstance(f.extent, Const))
    if not isinstance(inner, Call) or not unknown or len(unknown) == len(loops):
        return None
    first = dict.fromkeys((f.var for f in unknown), 0)
    operands = tuple(map_operand(o, lambda e: substitute(e, first)) for o in inner.operands)
    known = [f for f in loops if f not in unknown]
    chain = _chain(known, replace(inner, operands=operands), rules)
    return None if chain is None else (stmt, chain, unknown)


def zero_fill(stmt: Stmt) -> ZeroFill | None:
    """The statement as a zero fill, conditional or not; None for any other statement."""
    match stmt:
        case Call(Fill(0.0), (operand,)):
            return ZeroFill(operand)
        case If(condition, (Call() as call,), otherwise):
            inner = zero_fill(call)
            return ZeroFill(inner.operand, condition, otherwise) if inner else None
        case _:
            return None


def memory_of(operand: Operand) -> str:
    """The name of the operand's tensor or buffer."""
    return operand.tensor if isinstance(operand, Tile) else operand.buffer


def _linked(stmt: Stmt, rules: ChainRules) -> Chain | None:
    """The chain of a product inside loops that do not move C, and move other operands linearly."""
    loops, inner = _nest(stmt)
    if not isinstance(inner, Call):
        return None
    return _chain(loops, inner, rules)


def _nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """Perfectly nested loops, outermost first, and the statement inside the last."""
    loops: list[For] = []
    while isinstance(stmt, For) and len(stmt.body) == 1:
        loops.append(stmt)
        stmt = stmt.body[0]
    return loops, stmt


def _chain(loops: list[For], call: Call, rules: ChainRules) -> Chain | None:
    multiply = call.primitive
    if not isinstance(multiply, MatrixProduct) or (
        loops and not _takes_chain(multiply, loops, rules)
    ):
        return None
    names = frozenset(f.var for f in loops)
    c, *factors = call.operands
    moved = any(names & free_vars(r.start) for r in c.ranges)
    uneven = any(names & _sizes(o) for o in call.operands) or any(
        names & free_vars(f.extent) for f in loops
    )
    if moved or uneven or not all(_is_linear(o, names) for o in factors):
        return None
    return Chain(call, multiply, tuple(loops))


def _takes_chain(multiply: MatrixProduct, loops: list[For], rules: ChainRules) -> bool:
    if multiply.workspace is not None and not rules.packs:
        return False
    if rules.most_links is None:
        return True
    links = product(f.extent for f in loops)
    return isinstance(links, Const) and links.value <= rules.most_links


def _sizes(operand: Operand) -> frozenset[str]:
    """Symbols in extents, steps, slots and shapes, which must be equal in all links."""
    ranges = frozenset[str]().union(
        *(free_vars(r.extent) | free_vars(r.step) for r in operand.ranges)
    )
    if isinstance(operand, Tile):
        return ranges
    return ranges.union(free_vars(operand.slot), *map(free_vars, operand.shape))


def _is_linear(operand: Operand, names: frozenset[str]) -> bool:
    try:
        for r in operand.ranges:
            for name in names & free_vars(r.start):
                coefficient(r.start, name)
    except ProgramError:
        return False
    return True


def _same_region(one: Operand, other: Operand) -> bool:
    match one, other:
        case Tile(), Tile():
            return (one.tensor, one.ranges) == (other.tensor, other.ranges)
        case View(), View():
            mine = one.buffer, one.slot, one.shape, one.ranges
            return mine == (other.buffer, other.slot, other.shape, other.ranges)
        case _:
            return False


def chains_of(program: Program) -> tuple[Chain, ...]:
    """All chains of a program in order."""
    return tuple(_within(program.body))


def _within(body: tuple[Stmt, ...]) -> Iterator[Chain]:
    for stmt in with_chains(body):
        match stmt:
            case Chain():
                yield stmt
            case For():
                yield from _within(stmt.body)
            case If(_, then, orelse):
                yield from _within(then)
                yield from _within(orelse)
            case _:
                pass
