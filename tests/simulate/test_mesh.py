"""Register communication: FIFO order, rendezvous, synchronisation, deadlocks, a whole GEMM."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.errors import SimulationError
from tilewright.isa import load_table
from tilewright.isa.table import Communication
from tilewright.simulate.instruction_level import DeadlockError, simulate_core, simulate_mesh
from tilewright.simulate.launch import SimulatedMesh, UnitOrder
from tilewright.simulate.program import AssembledProgram

Assemble = Callable[..., AssembledProgram]
CPE = load_table("sw26010_cpe")
QUICK = Communication(
    transfer_buffer_entries=2,
    transfer_latency_cycles=6,
    bus_cycles_per_transfer=1,
    sync_latency_cycles=3,
    broadcast_from_index=8,
)


def test_a_put_arrives_after_the_bus_latency(assemble: Assemble) -> None:
    sender, receiver = assemble("addl $1, 7, $1\nputr $1, 1"), assemble("getr $2")
    run = simulate_mesh([sender, receiver], SimulatedMesh(1, 2, QUICK))
    assert run.cores[1].integer_registers[2, 0] == 7
    assert run.cores[1].cycles == 1 + 6 + 1  # put in cycle 1, six cycles on the bus, the get itself
    assert run.cores[1].stalls == {"get_row_empty": 7}


def test_a_load_with_broadcast_reaches_every_other_core_of_the_line(assemble: Assemble) -> None:
    sender, receiver = assemble("vldc $1, 32($31)"), assemble("getc $1")
    memory = np.arange(8.0)
    run = simulate_mesh(
        [sender, receiver, receiver], SimulatedMesh(3, 1, QUICK), local_memory=[memory] * 3
    )
    for core in run.cores:
        assert core.registers[1].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert [core.cycles for core in run.cores] == [1, 4 + 6 + 1, 4 + 6 + 1]


def test_memories_hold_arrays_by_their_addresses_and_zeros_between_them(assemble: Assemble) -> None:
    parts = {0: np.arange(2, dtype=np.int16), 16: np.array([[1.0, 2.0], [3.0, 4.0]])[:, ::-1]}
    run = simulate_mesh([assemble("nop")], SimulatedMesh(1, 1), local_memory=[parts])
    found = run.cores[0].local_memory
    assert found[:16].view(np.int16).tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert found[16:56].view(np.float64).tolist() == [2.0, 1.0, 4.0, 3.0, 0.0]
    with pytest.raises(SimulationError) as caught:
        simulate_mesh(
            [assemble("nop")], SimulatedMesh(1, 1), local_memory=[{len(found) - 8: found[:16]}]
        )
    size = len(found)
    assert caught.value.message == (
        f"the image of core 0 has {size + 8} bytes, its local memory {size}"
    )


@pytest.mark.parametrize(("bus", "shape"), [("row", (1, 2)), ("column", (2, 1))])
def test_a_put_waits_for_a_free_entry_at_the_receiver(
    assemble: Assemble, bus: str, shape: tuple[int, int]
) -> None:
    put, get = f"put{bus[0]} $1, 1\n", f"get{bus[0]} $1"
    busy = "mull $9, $9, $9\nmull $9, $9, $9\nmull $9, $9, $9\nmov $9, $10\n"
    run = simulate_mesh([assemble(3 * put), assemble(busy + get)], SimulatedMesh(*shape, QUICK))
    get_cycle = run.cores[1].cycles - 1
    assert run.cores[0].cycles == get_cycle + 2  # the entry freed in one cycle is used in the next
    assert run.cores[0].stalls == {f"put_{bus}_full": get_cycle - 1}


def test_two_senders_share_one_bus(assemble: Assemble) -> None:
    sender, receiver = assemble("putr $1, 2"), assemble("getr $1\ngetr $2")
    run = simulate_mesh(
        [sender, sender, receiver],
        SimulatedMesh(1, 3, QUICK),
        registers=[{"$1": 10}, {"$1": 20}, {}],
    )
    assert run.cores[2].integer_registers[[1, 2], 0].tolist() == [10, 20]
    assert run.cores[1].stalls == {"bus_busy": 1}


@examples(40)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=20),
    st.integers(1, 5),
    st.integers(1, 12),
    st.sampled_from(["in_order", "decoupled"]),
)
def test_entries_are_taken_in_the_order_of_the_puts(
    assemble: Assemble, pauses: list[int], depth: int, latency: int, unit_order: UnitOrder
) -> None:
    put, get = [], []
    for pause in pauses:
        put += ["addl $1, 1, $1", *["mull $8, $8, $8"] * (pause // 3), "putr $1, 1"]
        get += [
            *["mull $8, $8, $8"] * (pause % 3),
            "getr $2",
            "s8addl $3, $3, $3",
            "addl $3, $2, $3",
        ]
    communication = msgspec.structs.replace(
        QUICK, transfer_buffer_entries=depth, transfer_latency_cycles=latency
    )
    run = simulate_mesh(
        [assemble("\n".join(put)), assemble("\n".join(get))],
        SimulatedMesh(1, 2, communication),
        unit_order=unit_order,
    )
    expected = 0
    for value in range(1, len(pauses) + 1):
        expected = (9 * expected + value + 2**63) % 2**64 - 2**63
    assert run.cores[1].integer_registers[3, 0] == expected
    for core in run.cores:
        assert core.issue_cycles + sum(core.stalls.values()) + core.idle_cycles == run.cycles


def test_a_row_synchronisation_waits_for_the_last_core(assemble: Assemble) -> None:
    late, early = assemble("mull $1, $1, $1\nmov $1, $2\nsynr\nhalt"), assemble("synr\nhalt")
    run = simulate_mesh([late, early], SimulatedMesh(1, 2, QUICK))
    assert run.cores[0].cycles == run.cores[1].cycles
    # The late core arrives together with the move in cycle 7; both leave three cycles later.
    assert run.cores[1].stalls == {"sync": 7 + 3}


@pytest.mark.parametrize(("instruction", "axis"), [("synr", 1), ("sync", 0)])
@pytest.mark.parametrize("mask", [0b111, 0b001, 0b110, 0b000])
def test_a_synchronisation_joins_the_masked_cores_of_the_own_line(
    assemble: Assemble, instruction: str, axis: int, mask: int
) -> None:
    """Cores of two rows of three arrive one by one; each leaves with the last that it waits for."""
    delays = np.array([[2, 30, 7], [23, 11, 17]])

    def cycles(own_mask: int) -> np.ndarray:
        texts = ["addl $1, 1, $1\n" * n + f"{instruction} {own_mask}" for n in delays.flat]
        run = simulate_mesh([assemble(text) for text in texts], SimulatedMesh(2, 3, QUICK))
        return np.reshape([core.cycles for core in run.cores], delays.shape)

    alone = cycles(0)
    assert alone[0, 1] - alone[0, 0] == delays[0, 1] - delays[0, 0]
    waited = np.arange(delays.shape[axis])
    waited = waited[mask >> waited & 1 == 1]
    last = np.take(alone, waited, axis).max(axis, keepdims=True, initial=0)
    np.testing.assert_array_equal(cycles(mask), np.maximum(alone, last))


@pytest.mark.parametrize("everyone", [False, True])
def test_puts_go_to_places_of_the_own_line(assemble: Assemble, everyone: bool) -> None:
    """In a mesh of two rows of three each core hears the one before it, or all others."""
    place = np.arange(6).reshape(2, 3)

    def text(row: int, col: int) -> str:
        own = f"rcsr $1, 0\nputr $1, {8 if everyone else (col + 1) % 3}\ngetr $2\n"
        own += "getr $3\n" if everyone else ""
        return f"{own}putc $1, {8 if everyone else 1 - row}\ngetc $4"

    programs = [assemble(text(*divmod(c, 3))) for c in range(6)]
    run = simulate_mesh(programs, SimulatedMesh(2, 3, QUICK))
    heard = np.array([core.integer_registers[1:5, 0] for core in run.cores])
    assert heard[:, 0].tolist() == place.ravel().tolist()
    assert heard[:, 3].tolist() == place[::-1].ravel().tolist()
    before = [np.roll(place, shift, axis=1).ravel() for shift in (1, 2)]
    if everyone:
        np.testing.assert_array_equal(np.sort(heard[:, 1:3]), np.sort(np.transpose(before)))
    else:
        assert heard[:, 1].tolist() == before[0].tolist()


def test_every_core_knows_its_place(assemble: Assemble) -> None:
    run = simulate_mesh(assemble("rcsr $1, 0\nrcsr $2, 1\nrcsr $3, 2"), SimulatedMesh(2, 3))
    places = [core.integer_registers[1:4, 0].tolist() for core in run.cores]
    assert places == [[c, c // 3, c % 3] for c in range(6)]


def test_cores_that_wait_for_each_other_are_reported(assemble: Assemble) -> None:
    program = assemble("putr $1, 8\ngetr $2\ngetr $3\nputr $1, 8")
    with pytest.raises(DeadlockError) as error:
        simulate_mesh(program, SimulatedMesh(1, 2, QUICK))
    assert str(error.value) == (
        "deadlock in cycle 8:\n"
        "  core 0 (row 0, column 0) gets from the row bus at 'getr $3' (instruction 2, line 3), "
        "waits for core 1; row bus: 1 puts, 1 gets, 0 waiting; "
        "column bus: 0 puts, 0 gets, 0 waiting\n"
        "  core 1 (row 0, column 1) gets from the row bus at 'getr $3' (instruction 2, line 3), "
        "waits for core 0; row bus: 1 puts, 1 gets, 0 waiting; "
        "column bus: 0 puts, 0 gets, 0 waiting"
    )
    assert error.value.report.cycle == (0, 1)
    assert error.value.report.ends_at_finished is None


def test_a_full_buffer_of_a_core_that_waits_is_a_deadlock(assemble: Assemble) -> None:
    sender = assemble("putr $1, 1\nputr $1, 1\nputr $1, 1\nputc $1, 1")
    receiver = assemble("getc $1\ngetr $1")
    with pytest.raises(DeadlockError) as error:
        simulate_mesh([sender, receiver, receiver, receiver], SimulatedMesh(2, 2, QUICK))
    report = error.value.report
    assert [(entry.core, entry.cause, entry.waits_for) for entry in report.blocked] == [
        (0, "puts to the row bus", 1),
        (1, "gets from the column bus", 3),
        (2, "gets from the column bus", 0),
        (3, "gets from the column bus", 1),
    ]
    assert report.cycle == (1, 3)
    assert report.blocked[1].waiting_entries == (2, 0)


def test_a_core_alone_that_waits_for_a_datum_is_a_deadlock(assemble: Assemble) -> None:
    program = assemble("getr $1\nhalt")
    with pytest.raises(DeadlockError) as error:
        simulate_core(program)
    assert str(error.value) == (
        "deadlock in cycle 0:\n"
        "  core 0 (row 0, column 0) gets from the row bus at 'getr $1' (instruction 0, line 1), "
        "and no other core is there; row bus: 0 puts, 0 gets, 0 waiting; "
        "column bus: 0 puts, 0 gets, 0 waiting"
    )
    assert simulate_core(program, ideal_communication=True).instructions == 2


def test_waiting_for_a_finished_core_is_a_deadlock(assemble: Assemble) -> None:
    with pytest.raises(DeadlockError) as error:
        simulate_mesh([assemble("getr $1"), assemble("halt")], SimulatedMesh(1, 2, QUICK))
    assert str(error.value) == (
        "deadlock in cycle 0:\n"
        "  core 0 (row 0, column 0) gets from the row bus at 'getr $1' (instruction 0, line 1), "
        "waits for core 1; row bus: 0 puts, 0 gets, 0 waiting; "
        "column bus: 0 puts, 0 gets, 0 waiting\n"
        "  core 1 has finished"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "vldd $1, 16($31)",
            "core 0 (instruction 0, line 1): vldd $1, 16($31): "
            "address 16 is not aligned to 32 bytes",
        ),
        (
            "ldih $1, 1($31)\nvstd $2, -16($1)",
            "core 0 (instruction 1, line 2): vstd $2, -16($1): "
            "32 bytes at address 65520 lie outside the 65536-byte local memory",
        ),
        (
            "ldl $1, -8($31)",
            "core 0 (instruction 0, line 1): ldl $1, -8($31): "
            "8 bytes at address -8 lie outside the 65536-byte local memory",
        ),
        (
            "ldi $1, 400($31)\nret $1",
            "core 0 (instruction 1, line 2): ret $1: branch to address 400 outside the program",
        ),
        (
            "nop\nputr $1, 5",
            "core 0 (instruction 1, line 2): putr $1, 5: no other core at place 5 of the bus",
        ),
        (
            "x:\nbr x",
            "2 of 2 cores still run after 1000 cycles; "
            "raise max_cycles (--max-cycles), or look for a loop that never ends",
        ),
    ],
)
@pytest.mark.parametrize("unit_order", ["in_order", "decoupled"])
def test_faults_say_where_and_what(
    assemble: Assemble, text: str, message: str, unit_order: UnitOrder
) -> None:
    with pytest.raises(SimulationError) as error:
        simulate_mesh(
            assemble(text),
            SimulatedMesh(1, 2, QUICK),
            max_cycles=1000,
            unit_order=unit_order,
        )
    assert str(error.value) == message


def _mesh_gemm() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "mesh_gemm.py"
    specification = importlib.util.spec_from_file_location("mesh_gemm", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("unit_order", ["in_order", "decoupled"])
def test_a_matrix_product_on_64_cores(unit_order: UnitOrder) -> None:
    gemm = _mesh_gemm()
    m, n, k = 128, 64, 64
    generator = np.random.default_rng(1)
    a, b = generator.integers(-9, 9, (m, k)), generator.integers(-9, 9, (k, n))
    c = generator.integers(-9, 9, (m, n))
    run = simulate_mesh(
        gemm.mesh_gemm(CPE, m, n, k),
        SimulatedMesh(8, 8),
        local_memory=gemm.mesh_images(a * 1.0, b * 1.0, c * 1.0),
        unit_order=unit_order,
    )
    assert np.array_equal(gemm.mesh_result(run, m, n, k), c + a @ b)
    blocks, steps = (m // 128) * (n // 32), 8
    vector_multiply_adds = 64 * steps * blocks * (k // 8) * 16
    assert sum(core.unit_busy["P0"] for core in run.cores) >= vector_multiply_adds
    for core in run.cores:
        assert core.issue_cycles + sum(core.stalls.values()) + core.idle_cycles == run.cycles
