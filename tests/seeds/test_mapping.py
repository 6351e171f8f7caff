"""Mappings and reductions on a mesh: programs compute the reference and cost what is said."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.mappings import as_stored, candidate_of, inputs_of, mappings, reductions
from tilewright.codegen.artifact import EMITS
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import load_machine
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.seeds.mapping import mapping, reduction
from tilewright.seeds.steps import Walk
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.search import rank

GROUP = load_machine("sw26010_cg")
MESH = (GROUP.mesh.rows, GROUP.mesh.columns)


def test_what_finishes_a_reduction_takes_dimensions_without_an_axis():
    """Both other dimensions of the result are one place of it."""
    result = Access((3, 3, 4), (((0, 1),), (), ()), (0, 2, 1))
    read = Access((5, 7), (((0, 2),), ((1, 1),)), (0, 5))
    op = InMemory((3, 2), result, (read,), "x0 + x0", "sum", "-2 * x0")
    candidate, x = candidate_of(op, GROUP), np.arange(35.0).reshape(5, 7)
    found = interpret(candidate.program(GROUP), as_stored(op, (x,), candidate), MESH)["y"]
    np.testing.assert_array_equal(found.reshape(3, 3, 4)[:, 2, 1], op.reference(x)[:, 2, 1])


@settings(max_examples=12)
@given(st.one_of(mappings(), reductions()), st.integers(0, 1000))
def test_the_best_program_computes_the_reference(op, seed):
    candidate = candidate_of(op, GROUP)
    program = candidate.program(GROUP)
    assert parse(print_program(program)) == program
    inputs = inputs_of(op, np.random.default_rng(seed))
    stored = as_stored(op, inputs, candidate)
    found = interpret(program, stored, MESH)["y"].reshape(op.out_shape)
    expected, written = op.reference(*inputs), ~np.isnan(found)
    np.testing.assert_array_equal(found[written], expected[written])
    own = np.zeros(op.out_shape, bool)
    kept = op.extents[: op.outer]
    own[op.result.index(kept)] = True
    assert written[own].all()
    run = simulate(program, GROUP)
    assert abs(run.cycles - candidate.cycles) <= 0.05 * run.cycles + GROUP.dma.latency_cycles


@pytest.mark.parametrize("block", [16, 6])
def test_blocks_beside_a_border_of_channels_are_copied_block_by_block(block):
    """The rows of the result are channels with two places around them, those of x blocks; where a
    block does not fill the cores none of them writes what begins the next block.
    """
    into = Access((2 * block + 4, 9), (((0, block), (1, 1)), ((2, 1),)), (2, 0))
    blocks = Access((2, 9, block), (((0, 1),), ((2, 1),), ((1, 1),)), (0, 0, 0))
    op = InMemory((2, block, 9), into, (blocks,), "x0")
    candidate, emits = candidate_of(op, GROUP), EMITS.required(GROUP)
    program = candidate.program(GROUP)
    inputs = inputs_of(op, np.random.default_rng(0))
    stored = as_stored(op, inputs, candidate)
    found = emits.run(emits.emit(program, GROUP), GROUP, stored)["y"].reshape(op.out_shape)
    np.testing.assert_array_equal(found[2:-2], op.reference(*inputs)[2:-2])


def test_windows_are_spread_one_after_the_other():
    """Long rows stay whole where cores take windows of their own."""
    op = windows_of_rows(8, 3)
    (candidate, *_), emits = walking(op), EMITS.required(GROUP)
    program, (x,) = candidate.program(GROUP), inputs_of(op, np.random.default_rng(0))
    stored = as_stored(op, (x,), candidate)
    found = emits.run(emits.emit(program, GROUP), GROUP, stored)["y"].reshape(op.out_shape)
    np.testing.assert_array_equal(found[1:-1, 1:-1], op.reference(x)[1:-1, 1:-1])
    assert abs(simulate(program, GROUP).cycles - candidate.cycles) <= 0.05 * candidate.cycles


def test_windows_that_leave_cores_idle_are_not_spread():
    """A core without a window would read beyond the last one."""
    assert walking(windows_of_rows(11, 9)) == []


def test_a_core_gathers_the_axes_that_share_no_dimension_and_loops_over_the_taps_of_windows():
    operand = Access((6, 9, 5), (((0, 1),), ((1, 1), (2, 1)), ((3, 1),)), (0, 0, 0))
    op = InMemory((6, 7, 3, 5), straight((6, 7)), (operand,), "x0", "sum")
    (space,) = reduction(op).spaces
    assert space.nest.roles == (("i0", "p"), ("i1", "q"), ("i3", "k"))
    whole = replace(op, extents=(6, 7, 3), operands=(Access((6, 9), operand.terms[:2], (0, 0)),))
    assert [axis.name for axis in reduction(whole).spaces[0].nest.axes][-1] == "unit"


def windows_of_rows(rows, cols):
    """Four places of a window inside a border each receive twice its element."""
    channels = 512
    axes = (((0, 2), (1, 1)), ((2, 2), (3, 1)), ((4, 1),))
    into = Access((2 * rows + 2, 2 * cols + 2, channels), axes, (1, 1, 0))
    own = Access((rows, cols, channels), (((0, 1),), ((2, 1),), ((4, 1),)), (0, 0, 0))
    return InMemory((rows, 2, cols, 2, channels), into, (own,), "2 * x0")


def walking(op):
    """Candidates, best first, whose cores walk through windows of their own."""
    (ranking,) = rank([(op, mapping(op))], GROUP, keep=4096)
    return [c for c in ranking.best if any(isinstance(s, Walk) for s in steps_of(c))]


def steps_of(candidate):
    (nest,) = candidate.nests
    return nest.structure.steps


@settings(max_examples=3)
@given(st.one_of(mappings(), reductions()))
def test_the_generated_code_computes_the_reference(op):
    candidate = candidate_of(op, GROUP)
    program, emits = candidate.program(GROUP), EMITS.required(GROUP)
    inputs = inputs_of(op, np.random.default_rng(0))
    stored = as_stored(op, inputs, candidate)
    kinds = {t.name: t.dtype for t in program.tensors}
    typed = {n: x.astype(np.float32 if kinds[n] == "f32" else float) for n, x in stored.items()}
    found = emits.run(emits.emit(program, GROUP), GROUP, typed)["y"].reshape(op.out_shape)
    meant = interpret(program, stored, MESH)["y"].reshape(op.out_shape)
    written = ~np.isnan(meant)
    np.testing.assert_array_equal(found[written], meant[written])
