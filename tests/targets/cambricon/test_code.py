"""Operators as DLA-AL: values by the interpreter's bits, cycles by the model's, text as wanted."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from support.cambricon_operators import KINDS, MACHINE, compiled, operands
from tilewright.common.errors import CapacityError, ProgramError, ScheduleError
from tilewright.common.expr import Const
from tilewright.compiler.checking import check_code, operator_result, program_inputs
from tilewright.cost.estimate import estimate
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.machine import load_machine
from tilewright.machine.load import find_machine
from tilewright.ops import Op, conv2d, gemm
from tilewright.ops.access import straight
from tilewright.ops.definition import Definition
from tilewright.schedule.factors import blocks_of, factor_grid
from tilewright.seeds.space import parameters, seeds_for
from tilewright.seeds.steps import Reorder, Stage
from tilewright.targets.cambricon.code import CODE
from tilewright.targets.cambricon.emit.program import emit_body
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose
from tilewright.tune.legal import structures_on
from tilewright.tune.search import _Case, _price, rank

_MANY = 1000
"""More than a structure has candidates."""


def test_the_text_of_a_product():
    """Every transfer and call has a comment that names it; sizes and addresses are registers."""
    program = compiled(gemm(1, 24, 40, transpose_b=True, dtype=KINDS)).program(MACHINE)
    (text,) = CODE.emit(program, MACHINE).files.values()
    assert (
        text
        == """\
; whole_depth for dla-al
.code
  smove $0, #0
  smove $1, #40
  ; get a
  vload $0, $1, #a+0
  smove $2, #960
  ; get b
  mload $0, $2, #b+0
  smove $3, #96
  smove $4, #24
  ; rounded_product c_tile, a_tile, b_tile
  mmv $3, $4, $0, $0, $1
  ; put c
  vstore $3, $4, #c+0
.static_ro
  @neuron a, 1, 1, 1, 40
  @neuron b, 1, 1, 1, 960
.static_rw
  @neuron c, 1, 1, 1, 24
"""
    )


def test_conditions_that_repeat_with_two_periods_take_no_branches():
    """Six turns are written out, and a loop over them."""
    program = parse("""\
def every_second_and_third():
    y: tensor("q8.8", "output", n=12)
    y_tile: buffer("q8.8", 12, offset_bytes=0, space="vector")
    for i in range(24):
        if i % 2 == 0:
            fill(y_tile[0](shape=(12,), roles="a"))
        if i % 3 == 2:
            put(y_tile[0], y[at(0, 12)])
""")
    lines = [line.strip() for line in emit_body(program, {"y": "y"})]
    names = [line.split()[0] for line in lines if line and not line.startswith(";")]
    assert names.count("cb") == 1, "one branch ends the loop"
    assert (names.count("vstore"), len([n for n in lines if n.startswith("; fill")])) == (2, 3)


def random_op(number: int) -> Op:
    """A small product or convolution, ragged in all extents."""
    draw = np.random.default_rng(number).integers
    if number % 2:
        return gemm(*map(int, draw(1, (8, 200, 300))), transpose_b=True, dtype=KINDS)
    kernel = int(draw(1, 4))
    return conv2d(
        batch=int(draw(1, 3)),
        in_channels=int(draw(1, 40)),
        out_channels=int(draw(1, 80)),
        height=int(draw(kernel, 12)),
        width=int(draw(kernel, 12)),
        kernel=kernel,
        stride=int(draw(1, 3)),
        padding=int(draw(0, kernel)),
        dtype=KINDS,
    )


@pytest.mark.parametrize("number", range(8))
def test_random_operators_round_once(number: int):
    """The code has the bits of the program's meaning and those of the operator's reference; its
    cycles are those of the model.
    """
    op = random_op(number)
    candidate = compiled(op)
    program = candidate.program(MACHINE)
    artifact, given = CODE.emit(program, MACHINE), operands(op, number)
    inputs = program_inputs(op, candidate.seed, program, given)
    found, meant = CODE.run(artifact, MACHINE, inputs), interpret(program, inputs, (1, 1))
    assert all(np.array_equal(found[name], meant[name]) for name in found)
    assert check_code(op, candidate.seed, program, artifact, MACHINE, given) == "exact"
    run = CODE.simulate(program, MACHINE)
    assert sum(cause.cycles for cause in run.causes) == run.cycles
    assert run.cycles == pytest.approx(candidate.cycles, rel=0.02, abs=20)
    assert parse(print_program(program)) == program


@pytest.mark.parametrize("algorithm", ["implicit", "gemm"])
def test_cut_sums_round_with_every_product(algorithm: str):
    """They have the bits of the program's meaning."""
    op: Op = gemm(3, 40, 96, transpose_b=True, dtype=KINDS)
    if algorithm == "implicit":
        op = conv2d(
            batch=1, in_channels=8, out_channels=24, height=6, width=6, kernel=3, padding=1,
            dtype=KINDS,
        )  # fmt: skip
    candidate = compiled(op, algorithm)
    program = candidate.program(MACHINE)
    given = tuple(x // 16 for x in operands(op, 1))
    inputs = program_inputs(op, candidate.seed, program, given)
    found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
    meant = interpret(program, inputs, (1, 1))
    assert all(np.array_equal(found[name], meant[name]) for name in found)
    products = print_program(program).count("rounded_product")
    if algorithm == "implicit":
        assert "saturating_add(" in print_program(program)
        assert products == 2


def test_every_schedule_of_a_convolution_takes_the_cycles_of_the_model():
    """Loops that become steady are skipped exactly, whatever is double and wherever transfers
    stand.
    """
    op = conv2d(batch=1, in_channels=32, out_channels=64, height=9, width=8, kernel=3, padding=1,
                dtype=KINDS)  # fmt: skip
    checked = 0
    for seed in seeds_for(op, "whole_windows", whole=True):
        for structure in structures_on(MACHINE, seed, seed.spaces[0], op.dtype):
            candidate = compiled(op, "whole_windows", structure)
            if candidate is not None:
                run = CODE.simulate(candidate.program(MACHINE), MACHINE)
                assert run.cycles == pytest.approx(candidate.cycles, rel=0.02), structure.steps
                checked += 1
    assert checked > 10


def with_tiles(op: Op, algorithm: str, steps: set[object], tiles: dict[str, int]) -> Candidate:
    """The best candidate of the first structure with all the steps that has the tiles."""
    (seed,) = seeds_for(op, algorithm, whole=True)
    structures = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)
    structure = next(s for s in structures if steps <= {*s.steps})
    ((priced,),) = _price([structure], [_Case(op, {})], MACHINE, seed, _MANY)
    choice = next(c for c in priced.top(_MANY) if tiles.items() <= c.factors.items())
    return Candidate(op, seed, (choice,), {})


@pytest.mark.parametrize(
    ("sizes", "algorithm", "steps", "tiles"),
    [
        pytest.param(
            {"batch": 6, "in_channels": 2, "out_channels": 2, "height": 7, "width": 6, "kernel": 3,
             "dilation": 2},
            "implicit_rows",
            {Stage("y", "in_channel"), Stage("x", "kernel_col"), Stage("w", "kernel_col")},
            {"image_tile": 6, "out_row_tile": 3, "out_col_tile": 1, "x_copies": 2, "y_copies": 2},
            id="products-that-begin-sums-and-others-in-loops-of-their-own",
        ),
        pytest.param(
            {"batch": 2, "in_channels": 11, "out_channels": 7, "height": 6, "width": 6,
             "kernel": 3},
            "gathered_windows",
            {Stage("x", "column"), Stage("windows", "pixel"), Stage("y", "column"),
             Reorder(("group", "image", "out_channel", "out_col", "out_row", "column", "pixel"))},
            {"out_channel_tile": 7, "out_row_tile": 1, "out_col_tile": 2, "x_copies": 1},
            id="whole-windows-of-the-first-part-come-alone",
        ),
        pytest.param(
            {"batch": 3, "in_channels": 8, "out_channels": 10, "height": 7, "width": 2,
             "kernel": 2},
            "turned_windows",
            {Stage("x", "pixel"), Stage("y", "out_row"),
             Reorder(("group", "image", "out_channel", "out_col", "out_row", "pixel"))},
            {"out_channel_tile": 4, "out_col_tile": 1, "w_copies": 2, "x_copies": 1},
            id="a-window-waits-for-the-product-of-the-one-in-its-place",
        ),
        pytest.param(
            {"batch": 2, "in_channels": 3, "out_channels": 12, "height": 4, "width": 4,
             "kernel": 2, "dilation": 2},
            "implicit_rows",
            {Stage("y", "in_channel"), Stage("x", "kernel_col")},
            {"out_channel_tile": 2, "out_row_tile": 2, "out_col_tile": 2, "w_copies": 2,
             "x_copies": 2, "y_copies": 2},
            id="a-product-overwrites-sums-that-have-been-added",
        ),
    ],
)  # fmt: skip
def test_small_tiles_take_the_cycles_of_the_model(
    sizes: dict[str, int], algorithm: str, steps: set[object], tiles: dict[str, int]
):
    """Where products take as long as the statements between them the model counts these, too."""
    op = conv2d(**sizes, dtype=KINDS)
    candidate = with_tiles(op, algorithm, steps, tiles)
    program = candidate.program(MACHINE)
    inputs = program_inputs(op, candidate.seed, program, operands(op, 3))
    found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
    meant = interpret(program, inputs, (1, 1))
    assert all(np.array_equal(found[name], meant[name]) for name in found)
    assert CODE.simulate(program, MACHINE).cycles == pytest.approx(candidate.cycles, rel=0.015)


def test_values_leave_registers_to_statements_that_need_them(monkeypatch: pytest.MonkeyPatch):
    """With 16 registers fewer places stay in some, as fewer may where there are 64."""
    op = conv2d(batch=6, in_channels=2, out_channels=2, height=7, width=6, kernel=3, dilation=2,
                dtype=KINDS)  # fmt: skip
    candidate = with_tiles(op, "implicit_rows", {Stage("y", "in_channel")}, {"out_row_tile": 3})
    program = candidate.program(MACHINE)
    inputs = program_inputs(op, candidate.seed, program, operands(op, 3))
    monkeypatch.setattr("tilewright.targets.cambricon.emit.assembly.REGISTERS", 16)
    found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
    meant = interpret(program, inputs, (1, 1))
    assert all(np.array_equal(found[name], meant[name]) for name in found)


def test_places_move_in_a_loop_within_statements_that_need_many_registers():
    """Registers forget what these have computed: a turn takes one statement for each place."""
    op = conv2d(batch=13, in_channels=2, out_channels=2, height=6, width=8, kernel=(4, 5),
                padding=2, dilation=2, dtype=KINDS)  # fmt: skip
    steps = {Stage("y", "in_channel"), Stage("x", "kernel_col"), Stage("w", "kernel_col")}
    candidate = with_tiles(op, "implicit_rows", steps, {"out_row_tile": 2, "out_col_tile": 2})
    (text,) = CODE.emit(candidate.program(MACHINE), MACHINE).files.values()
    inmost = text[: text.index("cb $", text.rindex("mmv"))].rsplit(":\n", 1)[1]
    assert inmost.count("mmv") == 4
    assert "smul" not in inmost


def test_a_product_of_one_term_is_one_instruction_a_tile():
    """Its result lies in the matrix scratchpad, from where it is stored."""
    kernel = tw.compile(gemm(40, 300, 1, dtype=KINDS), machine="dla-al", algorithm="one_term")
    (text,) = kernel.plan.only.artifact.files.values()
    operations = set(re.findall(r"^ +(\w+) ", text, re.MULTILINE))
    assert {"op", "mstore"} <= operations
    assert "mmv" not in operations
    assert kernel.plan.only.check() == "exact"
    cycles = kernel.plan.only.cycles
    assert abs(kernel.plan.only.estimate_cycles - cycles) <= 0.02 * cycles


def test_terms_of_a_matrix_that_lies_by_terms_come_in_whole_rows():
    """Each part of the sum is rounded, and the device has the interpreter's bits."""
    op = gemm(3, 200, 500, dtype=KINDS)
    kernel = tw.compile(op, machine="dla-al", algorithm="whole_rows").plan.only
    inputs = tuple(x // 16 for x in operands(op, 5))
    seed = next(s for s in seeds_for(op, None, whole=True) if s.name == "whole_rows")
    given = program_inputs(op, seed, kernel.program, inputs)
    found = CODE.run(kernel.artifact, kernel.machine, given)
    meant = interpret(kernel.program, given, (1, 1))
    assert all(np.array_equal(found[name], meant[name]) for name in found)


def test_rows_that_come_under_a_condition_are_not_fetched_ahead():
    """Also where their buffer has two slots: a tile's first rows come when its loop begins."""
    op = conv2d(batch=1, in_channels=23, out_channels=19, height=6, width=3, kernel=3,
                dtype=KINDS)  # fmt: skip
    staged: set[object] = {Stage("x", "kernel_row"), Stage("w", "kernel_row")}
    tiles = {"out_channel_tile": 5, "out_row_tile": 4, "in_channel_tile": 23, "x_copies": 2}
    candidate = with_tiles(op, "implicit_rows", staged, tiles)
    program = candidate.program(MACHINE)
    assert "first=(kernel_row + 4) * 23" in print_program(program)
    assert CODE.simulate(program, MACHINE).cycles == pytest.approx(candidate.cycles, rel=0.02)


def test_rows_of_one_sum_share_the_slot_of_their_parts():
    """The parts' slot moves with the kernel's columns: each product waits until the one before it
    is added.
    """
    op = conv2d(batch=1, in_channels=4, out_channels=8, height=8, width=7, kernel=3, padding=2,
                dtype=KINDS)  # fmt: skip
    tiles = {"out_row_tile": 5, "out_col_tile": 9, "x_copies": 2, "w_copies": 2, "y_copies": 2}
    candidate = with_tiles(op, "implicit_rows", {Stage("y", "in_channel")}, tiles)
    program = candidate.program(MACHINE)
    assert "y_tile_part[(kernel_row * 3 + kernel_col) % 2]" in print_program(program)
    assert CODE.simulate(program, MACHINE).cycles == pytest.approx(candidate.cycles, rel=0.02)


def test_stores_are_late_behind_loops_of_one_turn():
    """A tile of the whole depth: rows are the innermost loop that is left."""
    op = gemm(12, 86, 4, dtype=KINDS)
    tiles = {"row_tile": 2, "col_tile": 86, "depth_tile": 4, "a_copies": 2, "c_copies": 2}
    steps: set[object] = {Reorder(("col", "row", "depth"))}
    candidate = with_tiles(op, "gemm", steps, tiles)
    program = candidate.program(MACHINE)
    assert "put(c_tile[(row + 1) % 2]" in print_program(program)
    assert CODE.simulate(program, MACHINE).cycles == pytest.approx(candidate.cycles, rel=0.01)


@pytest.mark.parametrize(
    ("op", "most"),
    [
        (conv2d(batch=1, in_channels=256, out_channels=384, height=13, width=13, kernel=3,
                padding=1, dtype=KINDS), 1.18),
        (conv2d(batch=1, in_channels=512, out_channels=512, height=14, width=14, kernel=3,
                padding=1, dtype=KINDS), 1.18),
        (conv2d(batch=1, in_channels=3, out_channels=96, height=227, width=227, kernel=11,
                stride=4, dtype=KINDS), 2.3),
        (gemm(1, 4096, 4096, transpose_b=True, dtype=KINDS), 64 * 1.1),
    ],
)  # fmt: skip
def test_layers_of_the_paper_against_the_peak(op: Op, most: float):
    """Of few input channels the last block of terms is short; a fully connected layer is bound by
    its weights, 64 times the peak.
    """
    peak = MACHINE.core.of("i16").flops_per_cycle
    assert compiled(op).cycles < most * op.flops / peak


def test_more_operations_in_flight_are_never_slower():
    """The window is a number of the machine."""
    op = conv2d(batch=1, in_channels=64, out_channels=64, height=14, width=14, kernel=3, padding=1,
                dtype=KINDS)  # fmt: skip
    cycles = []
    for depth in (2, 3, 4, 32):
        machine = find_machine("dla-al", {"issue.in_flight": str(depth)})
        (choice,) = choose([op], machine)
        cycles.append(choice.best.candidate.cycles)
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > cycles[-1]


def test_one_candidate_is_priced_as_in_a_grid():
    """The steady state of one candidate does not depend on what was played before it."""
    op = gemm(4, 96, 128, transpose_b=True, dtype=KINDS)
    (seed,) = seeds_for(op, "whole_depth", whole=True)
    from_grid, alone = [], []
    for structure in structures_on(MACHINE, seed, seed.spaces[0], op.dtype):
        grid = factor_grid(structure, parameters(op), blocks_of(MACHINE, "q48.16"))
        values = {**parameters(op), **grid.tiles, **grid.copies}
        from_grid.append(estimate(structure.staged, MACHINE, values).cycles)
        one = {**parameters(op), **grid.chosen(0, grid.tile_count - 1)}
        alone.append(estimate(structure.staged, MACHINE, one).cycles.item())
    assert [cycles[0, -1] for cycles in from_grid] == alone


def test_types_that_the_units_lack():
    op = gemm(1, 8, 8, transpose_b=True, dtype="q4.12:q40.24:q4.12")
    program = compiled(op).program(MACHINE)
    with pytest.raises(ProgramError) as caught:
        CODE.emit(program, MACHINE)
    assert str(caught.value) == (
        "tensor 'a' is of q4.12, the units of 'dla-al' compute in q8.8; --dtype q8.8:q48.16:q8.8"
    )


def test_roundings_that_the_units_lack():
    with pytest.raises(ScheduleError) as caught:
        choose([gemm(1, 8, 8, transpose_b=True, dtype="q8.8:q48.16:q8.8:floor")], MACHINE)
    assert re.search("the matrix unit rounds to even and saturates, found floor and saturate",
                     str(caught.value))  # fmt: skip


def test_floats_are_refused_before_any_search():
    with pytest.raises(CapacityError) as caught:
        choose([gemm(1, 8, 8)], load_machine("dla-al"))
    assert str(caught.value).startswith("machine 'dla-al' computes i16 and i64; gemm m1 n8 k8 has")


def test_rows_of_tall_first_windows_move_several_at_once():
    """Each statement has a condition of its own: 38 rows move in 13, beside one for the very first
    window and one for the next row.
    """
    op = conv2d(batch=1, in_channels=8, out_channels=16, height=42, width=6, kernel=(38, 3),
                padding=1, dtype=KINDS)  # fmt: skip
    layer = tw.compile(op, machine="dla-al", algorithm="gathered_windows").plan.only
    assert print_program(layer.program).count("copy(") == 15
    assert layer.check() == "exact"


def test_a_first_window_comes_behind_what_still_reads_its_rows():
    """A last tile of two pixels has fewer products than the next window has rows."""
    op = conv2d(batch=1, in_channels=23, out_channels=1, height=8, width=3, kernel=3, padding=2,
                dtype=KINDS)  # fmt: skip
    steps: set[object] = {Stage("x", "pixel"), Stage("y", "out_channel")}
    candidate = with_tiles(op, "whole_windows", steps, {"out_row_tile": 4, "x_copies": 1})
    program, given = candidate.program(MACHINE), operands(op, 5)
    assert "(pixel == max(" in print_program(program)
    inputs = program_inputs(op, candidate.seed, program, given)
    found = operator_result(op, candidate.seed, program, interpret(program, inputs, (1, 1)))
    assert np.array_equal(found, op.reference(*given))


@pytest.mark.parametrize("padding", [0, 1])
def test_rows_of_zeros_move_with_a_first_column_alone(padding: int):
    """Those above and below an image, where a column of windows is as high."""
    op = conv2d(batch=1, in_channels=64, out_channels=96, height=11 - 2 * padding, width=8,
                kernel=3, padding=padding, dtype=KINDS)  # fmt: skip
    loops = ("group", "image", "out_channel", "out_row", "out_col", "pixel")
    steps: set[object] = {Reorder(loops), Stage("x", "pixel")}
    tiles = {"out_channel_tile": 96, "out_row_tile": 9, "x_copies": 1}
    candidate = with_tiles(op, "whole_windows", steps, tiles)
    run = CODE.simulate(candidate.program(MACHINE), MACHINE)
    (moved,) = (t.asked_bytes for t in run.tensors if t.tensor == "x")
    row, image_rows = 3 * 64 * 2, 9 if padding else 11
    assert moved == (op.out_width * image_rows + 2 * padding) * row


@pytest.mark.parametrize("algorithm", ["whole_windows", "gathered_windows"])
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_slide(algorithm: str, stride: int):
    """Rows of windows move once each: the code has the bits of the reference, and the cycles of the
    model.
    """
    op = conv2d(batch=1, in_channels=40, out_channels=48, height=13, width=11, kernel=3, padding=1,
                stride=stride, dtype=KINDS)  # fmt: skip
    layer = tw.compile(op, machine="dla-al", algorithm=algorithm).plan.only
    text = print_program(layer.program)
    assert "1 - (pixel ==" in text
    assert layer.check() == "exact"
    assert layer.cycles == pytest.approx(layer.estimate_cycles, rel=0.02, abs=20)


@pytest.mark.parametrize("border", [0, 3])
def test_a_copy_is_stored_from_where_it_was_fetched(border: int):
    """No vector instruction moves it, and all of it is one tile."""
    inside = straight((30, 700))
    result = replace(inside, shape=(30, 700 + border), offsets=(0, border))
    op = Definition((30, 700), result, (inside,), "x0", dtype="q8.8:f64:q8.8")
    (seed,) = seeds_for(op, whole=True)
    best = rank([(op, seed)], MACHINE, keep=1)[0].best[0]
    program = best.program(MACHINE)
    artifact = CODE.emit(program, MACHINE)
    (text,) = artifact.files.values()
    assert set(re.findall(r"^ +(v\w+) ", text, re.MULTILINE)) == {"vload", "vstore"}
    x = np.arange(30 * 700, dtype=np.int16).reshape(30, 700)
    assert np.array_equal(CODE.run(artifact, MACHINE, {"x0": x})["y"][:, border:], x)
    (tile,) = program.buffers
    assert tile.elements == Const(21_000)
    assert CODE.simulate(program, MACHINE).cycles == pytest.approx(best.cycles, abs=8)
