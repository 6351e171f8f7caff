"""Routines in `explain`: their names in the code, prices and simulated cycles."""

from __future__ import annotations

from importlib import resources
from itertools import product

import pytest
from msgspec import structs

from support.explicit_programs import GEMM, REPACK
from support.expressions import TANGLED
from tilewright.codegen.artifact import ROUTINES, RoutineCycles
from tilewright.ir.parser import parse
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Map,
    MatrixProduct,
    MultiplyAccumulate,
    Reduce,
    Repack,
    Requantise,
    ScaleAdd,
    Windows,
    WinogradFilter,
    WinogradInput,
    WinogradOutput,
    WinogradTransform,
)
from tilewright.ir.scalar import parse_scalar
from tilewright.machine import GemmPrimitive, load_machine
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.elementwise.lie import Lie
from tilewright.targets.sw26010.elementwise.maps import map_routine, written_as_maps
from tilewright.targets.sw26010.elementwise.reduce import reduce_routine
from tilewright.targets.sw26010.elementwise.routines import all_routines, routine_of
from tilewright.targets.sw26010.prices import COSTS
from tilewright.targets.sw26010.timing.maps import MAPS
from tilewright.targets.sw26010.timing.nests import NESTS
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS

WINDOWS = """\
def windows():
    x: tensor("f64", "input", r=3, c=16, s=64)
    y: tensor("f64", "output", x=9, t=14, s=64)
    x_tile: buffer("f64", 384, offset_bytes=0)
    y_tile: buffer("f64", 1008, offset_bytes=3072)
    get(x[at(0, 3), at(0, 16), at(cid * 8, 8)], x_tile[0])
    wait(x_tile[0])
    windows(
        y_tile[0](shape=(9, 14, 8), roles="xts"),
        x_tile[0](shape=(3, 16, 8), roles="rcs"),
        rows=3,
        cols=3,
    )
    put(y_tile[0], y[at(0, 9), at(0, 14), at(cid * 8, 8)])
    wait(y_tile[0])
"""
MAPPED = """\
def maps():
    x: tensor("f64", "input", r=8, s=64)
    y: tensor("f64", "output", r=8, s=64)
    x_tile: buffer("f64", 64, offset_bytes=0)
    y_tile: buffer("f64", 64, offset_bytes=512)
    get(x[at(0, 8), at(cid * 8, 8)], x_tile[0])
    wait(x_tile[0])
    map(
        y_tile[0](shape=(8, 8), roles="rs"),
        x_tile[0](shape=(8, 8), roles="rs"),
        expression="log(x0) / 3.0",
    )
    REDUCED
    put(y_tile[0], y[at(0, 8), at(cid * 8, 8)])
    wait(y_tile[0])
"""
REDUCED = """\
    reduce(
        y_tile[0](0, at(0, 8), shape=(8, 8), roles=".s"),
        x_tile[0](shape=(8, 8), roles="ks"),
        function="max",
    )
"""
MAPPED = MAPPED.replace("    REDUCED\n", REDUCED)
SHIPPED = ("sw26010", "sw26010_cg", "sw26010_measured")


def test_the_shipped_machines_of_the_family_are_these() -> None:
    family = resources.files("tilewright.targets.sw26010") / "machines"
    assert sorted(file.name for file in family.iterdir()) == [f"{name}.toml" for name in SHIPPED]


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(
    "text",
    [GEMM, REPACK, WINDOWS, MAPPED],
    ids=["gemm", "repack", "windows", "map_and_reduce"],
)
def test_every_routine_of_the_code_is_named_and_priced_as_it_runs(text: str, name: str) -> None:
    program, machine = parse(text), load_machine(name)
    files = CODE.emit(program, machine).files
    assembly = "\n".join(code for file, code in files.items() if file.endswith(".S"))
    found = ROUTINES.required(machine).routines(program, machine, simulated=True)
    assert found
    names = {routine.name for routine in found}
    assert sum(code.count(".globl") for code in files.values()) == len(names)
    for routine in found:
        assert f"{routine.name}:" in assembly
        within = 0 if routine.name.startswith("tw_") else 0.035
        priced = routine.priced_cycles
        if routine.name.startswith("gemm_"):  # what was fitted is in the price alone
            m, n, _ = map(int, routine.call.removesuffix(" per core").split(" x "))
            blocks = -(-max(m, n) // 16) * -(-min(m, n) // 4)
            priced -= round(blocks * 8 * machine.section(GemmPrimitive).switch_cycles)
        assert priced == pytest.approx(routine.simulated_cycles, rel=within)
        assert routine.calls


def test_each_distinct_call_stands_for_itself_with_how_often_it_is_made() -> None:
    text = """\
def calls():
    y: tensor("f64", "output", r=6, s=64)
    tile: buffer("f64", 384, offset_bytes=0)
    for i in range(5):
        fill(tile[0](at(0, 6), at(0, 8), shape=(6, 64), roles="rs"), value=1.0)
    fill(tile[0](at(0, 6), at(0, 3), shape=(6, 64), roles="rs"), value=1.0)
    fill(tile[0](shape=(6, 64), roles="rs"), value=1.0)
    fill(tile[0](at(0, 6), at(0, 8), shape=(6, 64), roles="rs"), value=1.0)
    put(tile[0], y[at(0, 6), at(0, 64)])
    wait(tile[0])
"""
    machine = load_machine("sw26010")
    found = ROUTINES.required(machine).routines(parse(text), machine, simulated=True)
    assert found == (
        RoutineCycles("tw_map_e2b59d346c_f64", "6 rows of 2 vectors: 1.0", 160, 160, 6),
        RoutineCycles("tw_map_e2b59d346c_f64", "6 rows of 3 elements: 1.0", 166, 166, 1),
        RoutineCycles("tw_map_e2b59d346c_f64", "1 row of 96 vectors: 1.0", 132, 132, 1),
    )


@pytest.mark.parametrize(
    ("name", "mapped", "reduced"), [("sw26010", 49027, 49456), ("sw26010_measured", 49417, 49888)]
)
def test_loops_of_c_are_named_and_their_price_is_an_assumption_on_the_cores_table(
    name: str, mapped: int, reduced: int
) -> None:
    machine = load_machine(name)
    text = MAPPED.replace("log(x0) / 3.0", TANGLED)
    program = parse(text.replace('function="max",', f'function="max", expression="{TANGLED}",'))
    found = ROUTINES.required(machine).routines(program, machine, simulated=True)
    what, scalar = "compiled C, assumed: 64 elements", parse_scalar(TANGLED)
    assert found == (
        RoutineCycles(f"map {scalar}", what, mapped, calls=1),
        RoutineCycles(f"reduce {scalar}", f"{what[:21]}8 elements of 8", reduced, calls=1),
    )


def test_a_reduction_is_named_by_what_it_gathers() -> None:
    machine = load_machine("sw26010")
    _, reduced = ROUTINES.required(machine).routines(parse(MAPPED), machine, simulated=True)
    what = "1 row of 2 vectors of 8: max x0"
    assert reduced == RoutineCycles(reduced.name, what, 193, 193, 1)
    assert reduced.name.startswith("tw_reduce_")


def test_a_machine_without_an_instruction_table_has_no_cycles_of_code() -> None:
    plain = load_machine("sw26010")
    machine = structs.replace(plain, core=structs.replace(plain.core, instruction_table=None))
    assert ROUTINES.required(machine).routines(parse(REPACK), machine, simulated=True) == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_priced_by_a_routine_is_emitted_as_that_routine(name: str) -> None:
    """Every primitive whose price is not that of a loop which a compiler makes, as those of maps
    and reductions of more values than registers are.
    """
    machine = load_machine(name)
    every = [Fill(), Copy(), ScaleAdd(), MultiplyAccumulate(), Repack()]
    every += [Windows(3, 3), Map("x0 + x1"), Reduce("max")]
    kinds: tuple[type[WinogradTransform], ...] = (WinogradInput, WinogradFilter, WinogradOutput)
    every += [kind(tile) for kind, tile in product(kinds, (2, 4))]
    table = machine.core.instruction_table
    assert table is not None
    emitted = {routine.name for routine in all_routines()}
    assert {type(p) for p in every} == {*COSTS} - {MatrixProduct, Requantise}
    for primitive, precision in product(every, ("f64", "f32")):
        if maps := written_as_maps(primitive, 3, precision):
            assert all(one.timed_as in MAPS.shipped[table].routines for one in maps)
            assert all(f"{one.name}:" in one.text() for one in maps)
            continue
        if isinstance(primitive, Map):
            found = map_routine(primitive.expression, (False, False), precision)
            assert found is not None
            assert found.timed_as in MAPS.shipped[table].routines
            assert f"{found.name}:" in found.text()
            continue
        if isinstance(primitive, Reduce):
            reduction = reduce_routine(primitive.function, primitive.expression, Lie(2), precision)
            assert reduction is not None
            assert reduction.timed_as in REDUCTIONS.shipped[table].routines
            assert f"{reduction.name}:" in reduction.text()
            continue
        routine = routine_of(primitive, precision)
        assert routine is not None
        assert routine.name in emitted & set(NESTS.shipped[table].routines)
        assert f"{routine.name}:" in routine.text()
