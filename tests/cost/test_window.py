"""The window of operations of a nest: which buffers its items write and read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.cambricon_operators import KINDS, MACHINE
from tilewright.common.expr import Const
from tilewright.cost.chain import UNITS, _moved, operation_window, take_apart
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import CallStep
from tilewright.ir.nodes import View
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.seeds.space import parameters, seeds_for
from tilewright.tune.legal import structures_on


@pytest.mark.parametrize("algorithm", ["gemm", "whole_depth"])
def test_a_transfer_reads_or_writes_its_buffer_and_a_call_those_of_its_operands(algorithm) -> None:
    """No transfer is done with what it reads before its end. Each buffer has two slots in which
    ends are kept.
    """
    op = gemm(4, 96, 128, transpose_b=True, dtype=KINDS)
    (seed,) = seeds_for(op, algorithm, whole=True)
    structure = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)[0]
    grid = factor_grid(structure, parameters(op), blocks_of(MACHINE, op.numerics.sums.name))
    prepared = take_apart(structure.staged)
    env = {**parameters(op), **grid.chosen(0, 0)}
    window = operation_window(prepared, env, MACHINE, prices_of(MACHINE))
    buffers = [b.name for b in structure.staged.buffers]
    kinds = set()
    for number, item in enumerate(prepared.items):
        stmt = item.step.stmt
        reads = [buffers[b] for b in window.reads[number] if b >= 0]
        writes = [buffers[b] for b in window.writes[number : number + 1] if b >= 0]
        if isinstance(item.step, CallStep):
            views = [o.buffer for o in stmt.operands if isinstance(o, View)]
            assert (writes, reads) == (views[:1], views[1:])
        else:
            kinds.add(stmt.direction)
            own = [stmt.buffer]
            assert (writes, reads) == ((own, []) if stmt.direction == "get" else ([], own))
            assert not window.early[number].any()
    assert kinds == {"get", "put"}
    in_flight = MACHINE.issue.in_flight
    sizes = [1, in_flight, UNITS, *[2 * len(buffers)] * 3]
    assert (window.first[1:] - window.first[:-1]).tolist() == sizes
    assert window.state.size == sum(sizes)


def test_slots_of_two_copies_move_with_the_loop_around_them() -> None:
    """Of one copy only the places in both tensors that the tiles are read from move."""
    op, machine = gemm(256, 256, 256), load_machine("sw26010_cg")
    (seed,) = seeds_for(op, "gemm")
    staged = structures_on(machine, seed, seed.spaces[0], op.dtype)[0].staged
    moved = {}
    for copies in (1, 2):
        buffers = tuple(replace(b, copies=Const(copies)) for b in staged.buffers)
        prepared = take_apart(replace(staged, buffers=buffers))
        moved[copies] = [_moved(loop, prepared) for loop in range(len(prepared.loops))]
    assert moved[1] == [2, 2, 2]
    assert moved[2] == [2, 3, 5]
