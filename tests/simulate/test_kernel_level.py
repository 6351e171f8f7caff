"""The kernel-level simulator: cycles by hand, causes that add up, skipping that changes nothing."""

from __future__ import annotations

import textwrap
from typing import Any

import msgspec
import numpy as np
import pytest

from tilewright.common.errors import CapacityError, SimulationError
from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.parser import parse
from tilewright.ir.primitives import Copy
from tilewright.machine import load_machine
from tilewright.machine.sections import GemmPrimitive, GemmTiming
from tilewright.passes.double_buffer import DoubleBuffer
from tilewright.simulate.kernel.level import KernelRun, simulate

SW26010 = load_machine("sw26010_cg")

FILL_CYCLES = 34
"""Cycles of the routine that fills, for one row of four vectors and its call."""

ROUND = load_machine(
    "sw26010_cg",
    {
        "clock_hz": "1_000_000_000",
        "mesh.rows": "2",
        "mesh.columns": "2",
        "dma.latency_cycles": "100",
        "dma.issue_cycles": "10",
        "dma.get.peak_bytes_per_second": "1e9",
        "dma.get.block_overhead_transactions": "0",
        "dma.put.peak_bytes_per_second": "2e9",
        "dma.put.block_overhead_transactions": "0",
    },
)
TIMED = GemmTiming(7, 0, 0, 16, 0, 0)
ROUND = msgspec.structs.replace(
    ROUND,
    sections=tuple(
        msgspec.structs.replace(one, f64=TIMED) if isinstance(one, GemmPrimitive) else one
        for one in ROUND.sections
    ),
)
"""4 cores; a get of 128 bytes a core takes the engine 512 cycles, a put 256."""

STREAM = """
def stream():
    x: tensor("f64", "input", i=1000, e=16)
    y: tensor("f64", "scratch", i=1000, e=16)
    t: buffer("f64", 16, copies=2)
    u: buffer("f64", 16)
    get(x[0, at(0, 16)], t[0])
    for i in range({iterations}):
        wait(t[i % 2])
        if i + 1 < {iterations}:
            get(x[i + 1, at(0, 16)], t[(i + 1) % 2])
        copy(u[0](shape=(16,), roles="e"), t[i % 2](shape=(16,), roles="e"))
"""


def _run(text: str, machine: Any = ROUND, *, copy_cycles: int = 300, **options: Any) -> KernelRun:
    costs: Costs = {**call_costs(machine), Copy: lambda machine, call: copy_cycles}
    return simulate(parse(textwrap.dedent(text)), machine, costs=costs, **options)


def _causes(run: KernelRun) -> dict[tuple[str, str], int]:
    return {(cause.kind, cause.subject): cause.cycles for cause in run.causes}


def test_one_synchronous_transfer() -> None:
    """10 to issue, latency 100, service 512."""
    run = _run("""
        def p():
            x: tensor("f64", "input", e=16)
            t: buffer("f64", 16)
            get(x[at(0, 16)], t[0])
            wait(t[0])
    """)
    assert run.cycles == 10 + 100 + 512
    assert run.seconds == pytest.approx(622e-9)
    assert _causes(run) == {
        ("wait bandwidth", "x get"): 512,
        ("wait latency", "x get"): 100,
        ("dma issue", "x get"): 10,
    }


@pytest.mark.parametrize("skip", [True, False])
def test_double_buffering_bound_by_bandwidth(skip: bool) -> None:
    """110 until the engine starts, which then never idles: the core that is served first asks for
    its next tile while others are served. The drain is the last copy.
    """
    run = _run(STREAM.format(iterations=5), skip=skip)
    assert run.cycles == 110 + 512 * 5 + 300
    assert _causes(run) == {
        ("wait bandwidth", "x get"): 512 * 5 - 4 * (300 + 10),
        ("primitive", "copy"): 5 * 300,
        ("wait latency", "x get"): 100,
        ("dma issue", "x get"): 50,
    }


@pytest.mark.parametrize("skip", [True, False])
def test_double_buffering_bound_by_compute(skip: bool) -> None:
    """Only the fill waits; every later transfer is done before its copy ends."""
    run = _run(STREAM.format(iterations=5), copy_cycles=1000, skip=skip)
    assert run.cycles == 622 + 4 * (10 + 1000) + 1000
    assert run.by_kind() == {
        "primitive": 5000,
        "wait bandwidth": 512,
        "wait latency": 100,
        "dma issue": 50,
    }


def test_latency_that_no_copy_hides() -> None:
    """The second core of four asks 20 + 10 cycles after it is served: others hide its latency. One
    core alone, whose copy is short, has 100 - 20 cycles in which nobody does anything.
    """
    run = _run(STREAM.format(iterations=3), copy_cycles=20)
    assert _causes(run)["wait latency", "x get"] == 100
    assert _causes(run)["wait bandwidth", "x get"] == 3 * 512 - 2 * (20 + 10)
    alone = msgspec.structs.replace(
        ROUND, mesh=msgspec.structs.replace(ROUND.mesh, rows=1, columns=1)
    )
    run = _run(STREAM.format(iterations=3), alone, copy_cycles=20)
    assert _causes(run)["wait latency", "x get"] == 100 + 2 * 80
    assert _causes(run)["wait bandwidth", "x get"] == 3 * 128


TOGETHER = """
def p():
    x: tensor("f64", "input", e=16)
    y: tensor("f64", "input", e=16)
    t: buffer("f64", 16)
    u: buffer("f64", 16)
    get(x[at(0, 16)], t[0])
    wait(t[0])
    {between}
    get(y[at(0, 16)], u[0])
    wait(u[0])
"""


def test_cores_go_on_when_they_are_served_until_they_meet() -> None:
    """The first core is served 3/4 of 512 cycles before the last: its request comes so much
    earlier, but for the part that the engine still needs for the others.
    """
    assert _run(TOGETHER.replace("{between}", "")).cycles == 10 + 100 + 2 * 512
    assert _run(TOGETHER.replace("{between}", "barrier()")).cycles == 2 * (10 + 100 + 512)


def test_requests_are_served_in_the_order_of_time_and_not_of_statements() -> None:
    """The cores of the second row have no part in x and z: their requests for y come at 110, with
    those for x, and are served from 366 to 622. Those of the first row store z only then, until
    750, ask for y at 696, when the first of them has stored, and are served from 796 on.
    """
    few = "at(rid * 16, max(0, 16 - rid * 16))"
    run = _run(f"""
        def p():
            x: tensor("f64", "input", e=16)
            y: tensor("f64", "input", e=16)
            z: tensor("f64", "output", e=16)
            t: buffer("f64", 16)
            u: buffer("f64", 16)
            get(x[{few}], t[0])
            wait(t[0])
            put(t[0], z[{few}])
            wait(t[0])
            get(y[at(0, 16)], u[0])
            wait(u[0])
    """)
    assert run.cycles == 796 + 256
    assert sum(cause.cycles for cause in run.causes) == run.cycles


def test_a_row_and_a_column_of_cores_ask_for_what_they_have_a_part_in() -> None:
    """The core of the second row has no part in x and asks for y at once, which is served until
    1778. Core (0, 0) asks when its row has x, at 1266, and is served for as long once more.
    """
    row, column = (f"at({d}id * 16, max(0, 16 - {d}id * 16))" for d in "rc")
    program = parse(f"""
        def p():
            x: tensor("f64", "input", e=16)
            y: tensor("f64", "input", d=4, e=16)
            t: buffer("f64", 16)
            u: buffer("f64", 64)
            get(x[{row}], t[0])
            wait(t[0])
            get(y[at(0, 4), {column}], u[0])
            wait(u[0])
    """)
    slow = msgspec.structs.replace(ROUND.engines["dma"], latency_cycles=1000)
    machine = msgspec.structs.replace(ROUND, engines={"dma": slow})
    assert simulate(program, machine).cycles == 1266 + 10 + 1000 + 512


def test_a_long_call_of_cores_that_are_apart_takes_its_cycles_once() -> None:
    """However long, it moves both crowds: the ones that wait for x until 366, and the others."""
    run = _run(
        """
        def p():
            x: tensor("f64", "input", e=16)
            t: buffer("f64", 16)
            u: buffer("f64", 16)
            get(x[at(rid * 16, max(0, 16 - rid * 16))], t[0])
            wait(t[0])
            copy(u[0](shape=(16,), roles="e"), t[0](shape=(16,), roles="e"))
        """,
        copy_cycles=20_000,
    )
    assert run.cycles == 366 + 20_000


def test_engine_serves_one_transfer_after_the_other() -> None:
    """The put waits for the get before it, which is 3 descriptors of 2 blocks each, the first of
    which the engine starts while the core makes the others.
    """
    run = _run("""
        def p():
            x: tensor("f64", "input", a=3, b=8, e=32)
            y: tensor("f64", "output", e=16)
            t: buffer("f64", 96)
            u: buffer("f64", 16)
            fill(u[0](shape=(16,), roles="e"), value=1.0)
            get(x[at(0, 3), at(0, 2), at(0, 16)], t[0])
            put(u[0], y[at(0, 16)])
            wait(u[0])
            wait(t[0])
    """)
    service = 6 * 512 + 256
    assert run.cycles == FILL_CYCLES + 10 + 100 + service
    get, put = run.tensors
    assert (get.tensor, get.requests, get.transfers, get.engine_cycles) == ("x", 3, 1, 6 * 512)
    assert (get.asked_bytes, get.moved_bytes) == (4 * 6 * 128, 4 * 6 * 128)
    assert (put.tensor, put.direction, put.requests, put.engine_cycles) == ("y", "put", 1, 256)
    assert put.wait_bandwidth_cycles + put.wait_latency_cycles == run.cycles - FILL_CYCLES - 40
    assert get.wait_bandwidth_cycles == 0


def test_barriers_and_cores_in_lockstep() -> None:
    run = _run(
        """
        def p():
            for i in range(3):
                barrier()
        """,
        barrier_cycles=14,
    )
    assert (run.cycles, run.statements) == (42, 3)
    assert _causes(run) == {("barrier", ""): 42}


PADDED = """
def product():
    a: tensor("f64", "input", m=20, k=8)
    b: tensor("f64", "input", k=8, n=8)
    c: tensor("f64", "output", m=20, n=8)
    a_tile: buffer("f64", 64)
    b_tile: buffer("f64", 16)
    c_tile: buffer("f64", 64)
    fill(c_tile[0](shape=(16, 4), roles="ab"), value=0.0)
    get(a[at(rid * 16, min(16, 20 - rid * 16)), at(cid * 4, 4)], a_tile[0])
    wait(a_tile[0])
    repack(a_tile[0](shape=(16, 4), roles="ab"),
           a_tile[0](shape=(min(16, 20 - rid * 16), 4), roles="ab"))
    get(b[at(rid * 4, 4), at(cid * 4, 4)], b_tile[0])
    wait(b_tile[0])
    gemm(c_tile[0](shape=(16, 4), roles="mn"), a_tile[0](shape=(16, 4), roles="mk"),
         b_tile[0](shape=(4, 4), roles="kn"), vector="m")
    put(c_tile[0], c[at(rid * 16, min(16, 20 - rid * 16)), at(cid * 4, 4)])
    wait(c_tile[0])
"""


def test_useful_padding_and_overhead_of_a_padded_product() -> None:
    """2 x 2 cores of 16 x 4 x 4: 20 of 32 rows are data; the call itself takes 7 cycles."""
    run = _run(PADDED)
    assert run.useful_flops == 2 * 20 * 8 * 8
    assert _causes(run)["compute useful", "gemm"] == 2 * 20 * 8 * 8 // (4 * 8)
    assert _causes(run)["compute padding", "gemm"] == 2 * 12 * 8 * 8 // (4 * 8)
    assert _causes(run)["compute overhead", "gemm"] == 7
    assert sum(cause.cycles for cause in run.causes) == run.cycles


def test_outputs_are_those_of_the_interpreter() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 8, (20, 8)).astype(float)
    b = rng.integers(-8, 8, (8, 8)).astype(float)
    run = simulate(parse(PADDED), ROUND, {"a": a, "b": b})
    assert run.outputs is not None
    np.testing.assert_array_equal(run.outputs["c"], a @ b)


def test_scratchpad_in_use() -> None:
    """Each slot counts from its first get or write; the two slots of `t` and the one of `u`."""
    run = _run(STREAM.format(iterations=1))
    assert (run.allocated_bytes, run.peak_bytes) == (3 * 128, 2 * 128)
    assert _run(STREAM.format(iterations=2)).peak_bytes == 3 * 128


def test_what_is_fetched_displaces_what_lies_at_its_addresses() -> None:
    """Behind the others u takes the place of t; s stays until v is there."""
    lines = """\
def displaced():
    x: tensor("f64", "input", e=32)
    t: buffer("f64", 16, offset_bytes=0)
    s: buffer("f64", 32, offset_bytes=128)
    u: buffer("f64", 16, offset_bytes=0)
    v: buffer("f64", 16, offset_bytes=384)
""".splitlines()
    for name, size, in_use in (("t", 16, 128), ("s", 32, 384), ("u", 16, 384), ("v", 16, 512)):
        lines += [f"    get(x[at(0, {size})], {name}[0])", f"    wait({name}[0])"]
        run = _run("\n".join(lines))
        assert (run.allocated_bytes, run.peak_bytes) == (512, in_use)


def test_a_million_iterations_execute_a_handful_of_statements() -> None:
    run = _run(STREAM.format(iterations=10**6).replace("i=1000", "i=1000000"))
    assert run.cycles == 110 + 512 * 10**6 + 300
    assert run.statements == 3 * 10**6
    assert run.simulated_statements < 30


CONVOLUTION = """
def convolution():
    x: tensor("f64", "input", cols=58, rows=58, channels=256, batch=128)
    w: tensor("f64", "input", kr=3, kc=3, channels=256, out=512)
    y: tensor("f64", "output", cols=56, rows=56, out=512, batch=128)
    x_tile: buffer("f64", 1024, copies=2)
    w_tile: buffer("f64", 1024, copies=2)
    y_tile: buffer("f64", 1024, copies=2)
    for ro in range(56):
        for co in range(56):
            for no in range(8):
                fill(y_tile[0](shape=(8, 16), roles="ab"), value=0.0)
                for kr in range(3):
                    for kc in range(3):
                        for ni in range(4):
                            get(w[kr, kc, at(ni * 64 + rid * 8, 8), at(no * 64 + cid * 8, 8)],
                                w_tile[0])
                            wait(w_tile[0])
                            get(x[co + kc, ro + kr, at(ni * 64 + cid * 8, 8), at(rid * 16, 16)],
                                x_tile[0])
                            wait(x_tile[0])
                            gemm(y_tile[0](shape=(8, 16), roles="nm"),
                                 x_tile[0](shape=(1, 1, 8, 16), roles="..km"),
                                 w_tile[0](shape=(1, 1, 8, 8), roles="..kn"), vector="m")
                put(y_tile[0], y[co, ro, at(no * 64 + cid * 8, 8), at(rid * 16, 16)])
                wait(y_tile[0])
"""


def test_a_full_size_layer_executes_few_of_its_million_statements() -> None:
    """56 x 56 x 8 x 36 double-buffered steps: every flop is useful and every cycle has a cause."""
    run = simulate(DoubleBuffer().apply(parse(CONVOLUTION)), SW26010, trace_limit=500)
    steps = 56 * 56 * 8 * 36
    assert run.statements > 5 * steps
    assert run.simulated_statements < 1500
    assert run.useful_flops == 2 * 128 * 256 * 512 * 56 * 56 * 9
    assert sum(cause.cycles for cause in run.causes) == run.cycles


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "get(x[at(0, 16)], t[0])\n"
            "copy(u[0](shape=(16,), roles='e'), t[0](shape=(16,), roles='e'))",
            'copy(u[0](shape=(16,), roles="e"), t[0](shape=(16,), roles="e")): copy reads t[0] '
            "while a get of x into t[0] is outstanding; wait for t[0] first",
        ),
        (
            "put(u[0], y[at(0, 16)])\nfor i in range(2):\n    fill(u[0](shape=(16,), roles='e'))",
            'fill(u[0](shape=(16,), roles="e"), value=0.0) at i = 0: fill writes u[0] while '
            "a put of y from u[0] is outstanding; wait for u[0] first",
        ),
        (
            "put(u[0], y[at(0, 16)])\nget(x[at(0, 16)], u[0])",
            "get(x[at(0, 16)], u[0]): a get writes u[0] while a put of y from u[0] is outstanding; "
            "wait for u[0] first",
        ),
        (
            "get(x[at(0, 16)], t[1])\nput(t[1], y[at(0, 16)])",
            "put(t[1], y[at(0, 16)]): a put reads t[1] while a get of x into t[1] is outstanding; "
            "wait for t[1] first",
        ),
        (
            "get(x[at(0, 16)], t[1])",
            "get(x[at(0, 16)], t[1]): a get of x into t[1] is never waited for; "
            "wait for t[1] before the end",
        ),
        (
            "for i in range(3):\n    wait(t[i])",
            "wait(t[i]) at i = 2: slot 2 of t does not exist: it has 2",
        ),
        (
            "get(x[at(0, 17)], t[0])",
            "get(x[at(0, 17)], t[0]): a tile of 17 elements does not fit t[0] of 16",
        ),
        (
            "get(x[at(rid * 8, rid * 8 + 8)], t[0])\nwait(t[0])",
            "get(x[at(rid * 8, rid * 8 + 8)], t[0]): another core moves more than core (0, 0), "
            "whose transfers decide the time; give core (0, 0) the largest region",
        ),
        ("for i in range(n):\n    barrier()", "symbol 'n' of program 'p' has no value"),
        (
            "fill(x[at(0, 16)]('e'))",
            "fill(x[at(0, 16)](\"e\"), value=0.0): fill works on 'x' in main memory; "
            "infer the transfers of the program first",
        ),
    ],
)
@pytest.mark.parametrize("skip", [True, False])
def test_misuse_of_a_slot(body: str, message: str, skip: bool) -> None:
    head = """
def p():
    x: tensor("f64", "input", e=32)
    y: tensor("f64", "output", e=32)
    t: buffer("f64", 16, copies=2)
    u: buffer("f64", 16)
"""
    with pytest.raises(SimulationError) as error:
        _run(head + textwrap.indent(body, "    "), skip=skip)
    assert str(error.value) == message


def test_several_puts_may_read_a_slot() -> None:
    run = _run("""
        def p():
            y: tensor("f64", "output", e=32)
            u: buffer("f64", 16)
            fill(u[0](shape=(16,), roles="e"), value=2.0)
            put(u[0], y[at(0, 16)])
            put(u[0], y[at(16, 16)])
            wait(u[0])
    """)
    assert run.cycles == FILL_CYCLES + 10 + 100 + 2 * 256


def test_buffers_that_do_not_fit_and_parameters_without_value() -> None:
    with pytest.raises(CapacityError) as capacity:
        _run('def p():\n    t: buffer("f64", 4000, copies=2)\n    barrier()')
    assert str(capacity.value) == (
        "the buffers of 'p' take 64000 bytes of a scratchpad that offers 61440; "
        "use smaller tiles or fewer buffer copies"
    )
    with pytest.raises(SimulationError) as free:
        _run("def p(n, tile):\n    barrier()")
    assert str(free.value) == (
        "program 'p' has parameters without a value: n, tile; instantiate it first"
    )
