"""swDNN's three-level model of programs: its own equations, by hand, against the simulator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import ALGORITHMS, WHOLE_MESHES, cases
from support.examples import examples
from tilewright.common.errors import ProgramError
from tilewright.cost.roofline import DIRECT, MEMORY, REGISTERS, Level, Roofline, roofline
from tilewright.cost.timing import asked_bytes
from tilewright.cost.totals import executed
from tilewright.ir.nodes import Call, Program
from tilewright.ir.parser import parse
from tilewright.ir.visit import instantiate, walk
from tilewright.machine import load_machine
from tilewright.passes.lowering import lowering_of
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.timing.products import product_timing

CG = load_machine("sw26010_cg")
GIGA = 1e9

IMAGE_AWARE = """
def image_aware(ni, no, batch, cols, rows, blocks, kernel):
    x: tensor("f64", "input", n=ni, r=rows+kernel-1, c=blocks*cols+kernel-1, b=batch)
    w: tensor("f64", "input", kr=kernel, kc=kernel, n=ni, o=no)
    y: tensor("f64", "output", o=no, r=rows, c=blocks*cols, b=batch)
    x_tile: buffer("f64", ni // 8 * cols * (batch // 8))
    w_tile: buffer("f64", ni // 8 * (no // 8))
    y_tile: buffer("f64", no // 8 * cols * (batch // 8))
    for row in range(rows):
        for block in range(blocks):
            for kr in range(kernel):
                for kc in range(kernel):
                    get(
                        x[at(cid * (ni // 8), ni // 8), row + kr, at(block * cols + kc, cols),
                          at(rid * (batch // 8), batch // 8)],
                        x_tile[0],
                    )
                    wait(x_tile[0])
                    get(w[kr, kc, at(rid * (ni // 8), ni // 8), at(cid * (no // 8), no // 8)],
                        w_tile[0])
                    wait(w_tile[0])
                    gemm(
                        y_tile[0](shape=(no // 8, cols, batch // 8), roles="mnn"),
                        w_tile[0](shape=(ni // 8, no // 8), roles="km"),
                        x_tile[0](shape=(ni // 8, cols, batch // 8), roles="knn"),
                        vector="n",
                    )
            put(y_tile[0], y[at(cid * (no // 8), no // 8), row, at(block * cols, cols),
                             at(rid * (batch // 8), batch // 8)])
            wait(y_tile[0])
"""
"""swDNN Algorithm 1 as printed, for one block of the batch."""

BATCH_AWARE = """
def batch_aware(ni, no, batch, cols, rows, kernel):
    x: tensor("f64", "input", r=rows+kernel-1, c=cols+kernel-1, n=ni, b=batch)
    w: tensor("f64", "input", kr=kernel, kc=kernel, n=ni, o=no)
    y: tensor("f64", "output", r=rows, c=cols, o=no, b=batch)
    x_tile: buffer("f64", ni // 8 * (batch // 8))
    w_tile: buffer("f64", ni // 8 * (no // 8))
    y_tile: buffer("f64", cols * (no // 8) * (batch // 8))
    for row in range(rows):
        for kr in range(kernel):
            for col in range(cols + kernel - 1):
                get(x[row + kr, col, at(cid * (ni // 8), ni // 8),
                      at(rid * (batch // 8), batch // 8)], x_tile[0])
                wait(x_tile[0])
                for kc in range(kernel):
                    get(w[kr, kc, at(rid * (ni // 8), ni // 8), at(cid * (no // 8), no // 8)],
                        w_tile[0])
                    wait(w_tile[0])
                    if 0 < (kc < col + 1) * (col - kc < cols):
                        gemm(
                            y_tile[0](at(col - kc, 1), at(0, no // 8), at(0, batch // 8),
                                      shape=(cols, no // 8, batch // 8), roles=".mn"),
                            w_tile[0](shape=(ni // 8, no // 8), roles="km"),
                            x_tile[0](shape=(ni // 8, batch // 8), roles="kn"),
                            vector="n",
                        )
"""
"""swDNN Algorithm 2 as printed, for one block of the columns."""


def image_aware(**values: int) -> Program:
    sizes = {"batch": 32, "cols": 16, "rows": 2, "blocks": 2, "kernel": 3, "ni": 128, "no": 128}
    return instantiate(parse(IMAGE_AWARE), sizes | values)


def batch_aware(**values: int) -> Program:
    sizes = {"batch": 128, "cols": 8, "rows": 2, "kernel": 3, "ni": 256, "no": 256}
    return instantiate(parse(BATCH_AWARE), sizes | values)


def gets(roof: Roofline) -> Level:
    memory = roof.levels[0]
    return roof.level(MEMORY, [s for s in memory.streams if s.name.endswith("get")])


@pytest.mark.parametrize(("cols", "no", "printed"), [(16, 128, 29.0), (8, 256, 23.2)])
def test_equation_1_of_the_paper(cols, no, printed):
    """(1 / (bCo bB) + 1 / No) DS T / 2, which the table prints to one digit."""
    required = gets(roofline(image_aware(cols=cols, no=no), CG)).required_bytes_per_second
    exact = (1 / (cols * 32) + 1 / no) * 8 * 742.4e9 / 2
    assert required == pytest.approx(exact, rel=1e-12)
    assert required / GIGA == pytest.approx(printed, abs=0.05)


@pytest.mark.parametrize(("ni", "no", "printed"), [(256, 256, 27.1), (128, 384, 25.7)])
def test_equation_2_of_the_paper(ni, no, printed):
    """(1 / (Kc No) + 1 / B) DS T / 2; the block's border columns come on top.

    For No = 384 the equation gives 25.78, the table prints 25.7.
    """
    cols, kernel = 64, 3
    required = gets(roofline(batch_aware(ni=ni, no=no, cols=cols), CG)).required_bytes_per_second
    exact = (1 / (kernel * no) + 1 / 128) * 8 * 742.4e9 / 2
    assert exact / GIGA == pytest.approx(printed, abs=0.1)
    border = (cols + kernel - 1) / cols
    assert required == pytest.approx(exact * border, rel=1e-12)


def test_equation_5_of_the_paper():
    """16 x 4 register blocks ask for 23.2 GB/s of the 46.4 GB/s of one core."""
    level = roofline(image_aware(), CG).levels[1]
    factors = level.streams[0]
    assert (level.name, factors.name) == (REGISTERS, "factors")
    assert factors.required_bytes_per_second / CG.cores / GIGA == pytest.approx(23.2, rel=1e-12)
    assert factors.available_bytes_per_second / CG.cores / GIGA == pytest.approx(46.4, rel=1e-12)
    assert level.share > 1


def test_direct_accesses_of_the_paper():
    """139.2 GB/s is what ONE core asks for; the 8 GB/s are those of the whole group.

    The paper squares 8 / 139.2 to 0.32 %, which is 0.330 %.
    """
    direct = roofline(image_aware(), CG).direct
    assert direct.name == DIRECT
    assert direct.required_bytes_per_second / CG.cores / GIGA == pytest.approx(139.2, rel=1e-12)
    assert direct.available_bytes_per_second == 8e9
    assert (direct.share * CG.cores) ** 2 == pytest.approx(0.0033, rel=1e-2)


def test_the_bound_is_that_of_the_least_share_and_its_square():
    """Transfers in blocks of 32 and 128 bytes against the rule of the machine file."""
    roof = roofline(image_aware(), CG)
    memory = roof.levels[0]
    assert [s.name for s in memory.streams] == ["x get", "w get", "y put"]
    assert [s.block_bytes for s in memory.streams] == [32, 128, 32]
    seconds = sum(s.bytes / s.available_bytes_per_second for s in memory.streams)
    assert memory.share == pytest.approx(roof.flops / roof.peak_flops / seconds)
    assert roof.roofline_flops == pytest.approx(roof.peak_flops * memory.share)
    squared = roof.peak_flops * roof.execution_efficiency * memory.share**2
    assert roof.squared_flops == pytest.approx(squared)


def test_execution_efficiency_is_that_of_the_primitives_cycles():
    timing = product_timing(CG, "f64")
    blocks = 64 // 16 * 16 // 4
    cycles = timing.call_cycles + 4 * timing.row_cycles
    cycles += blocks * 8 * (16 * timing.cycles_per_k + timing.block_cycles)
    efficiency = 2 * 16 * 64 * 16 * 8 / 8 / cycles
    assert roofline(image_aware(), CG).execution_efficiency == pytest.approx(efficiency)


def test_a_block_of_results_is_loaded_and_stored_beside_its_factors() -> None:
    """Its factors are as many vectors as it is high and wide, at each of 16 steps along k."""
    height, width = lowering_of(CG).block
    factors, results = next(
        level for level in roofline(image_aware(), CG).levels if level.name == REGISTERS
    ).streams
    assert (factors.name, results.name) == ("factors", "results")
    assert factors.bytes * 2 * height * width == results.bytes * 16 * (height + width)


def test_a_faster_memory_raises_the_roof_to_that_of_the_primitives():
    machine = load_machine(
        "sw26010_cg",
        {"dma.get.peak_bytes_per_second": "1e12", "dma.put.peak_bytes_per_second": "1e12"},
    )
    roof = roofline(image_aware(), machine)
    assert roof.levels[0].share > 1
    assert roof.roofline_flops == roof.peak_flops * roof.execution_efficiency == roof.squared_flops


def test_padding_is_not_counted_as_performance():
    whole = roofline(image_aware(), CG)
    half = roofline(image_aware(), CG, whole.flops // 2)
    assert half.useful_fraction == 0.5
    assert half.squared_flops == whole.squared_flops / 2
    assert half.roofline_flops == whole.roofline_flops / 2


def test_conditions_are_counted_where_they_hold():
    """Of the (cols + 2) * 3 products per row and kernel row, cols * 3 lie in the block."""
    _, calls = executed(batch_aware(cols=5, rows=4), CG)
    assert [(group.stmt.primitive.name, group.count) for group in calls] == [
        ("gemm", 4 * 3 * 5 * 3)
    ]


def test_loops_whose_extents_depend_on_others_are_counted():
    program = parse("""
def triangle():
    x: tensor("f64", "input", i=64, e=16)
    t: buffer("f64", 16)
    for i in range(10):
        for j in range(i):
            for k in range(min(3, j)):
                get(x[i, at(0, j + 1)], t[0])
                wait(t[0])
""")
    (transfers, _) = executed(program, CG)
    counts = {group.shape.block_bytes // 8 - 1: group.count for group in transfers}
    assert counts == {j: (9 - j) * min(3, j) for j in range(1, 9)}


def test_a_large_space_is_counted_in_slices(monkeypatch):
    before = executed(batch_aware(), CG)
    monkeypatch.setattr("tilewright.cost.totals._LARGEST_GRID", 3)
    assert executed(batch_aware(), CG) == before


def refusal(program):
    with pytest.raises(ProgramError) as caught:
        roofline(program, CG)
    return str(caught.value)


def test_refusals():
    assert refusal(parse(IMAGE_AWARE)) == (
        "program 'image_aware' has parameters without a value: ni, no, batch, cols, rows, blocks, "
        "kernel; instantiate it first"
    )
    empty = parse("def empty():\n    x: tensor('f64', 'input', e=16)\n    barrier()\n")
    assert refusal(empty) == "program 'empty' has no matrix product to set a roof over"


@examples(40)
@given(st.data())
def test_traffic_and_operations_are_those_that_the_simulator_executes(data):
    """Counting over index arrays against executing every statement."""
    case = data.draw(cases(data.draw(st.sampled_from(ALGORITHMS)), WHOLE_MESHES))
    machine, program = case.machine, case.candidate.program(case.machine)
    run = simulate(program, machine)
    transfers, calls = executed(program, machine)
    for row in run.tensors:
        groups = [
            g for g in transfers if (g.stmt.tensor, g.stmt.direction) == (row.tensor, row.direction)
        ]
        assert sum(g.count for g in groups) == row.transfers
        asked = sum(g.count * asked_bytes(machine, g.shape) for g in groups)
        assert asked == pytest.approx(row.asked_bytes)
    assert sum(g.count for g in transfers) == sum(row.transfers for row in run.tensors)
    assert {g.stmt.primitive for g in calls} <= {
        s.primitive for s in walk(program.body) if isinstance(s, Call)
    }
    assert roofline(program, machine, run.useful_flops).useful_fraction <= 1
