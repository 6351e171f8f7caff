"""A kernel's time by its emitted text, held against the model and the kernel simulation."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from msgspec import structs

from support.candidates import Case
from support.cross_check.check import (
    CheckedTime,
    checked_time,
    missing_lines,
    replayed,
)
from support.cross_check.layout import INTEGER, PLACE
from support.cross_check.recording import Call, Recording
from support.cross_check.routines import RoutineCycles
from support.running import estimated
from tilewright import ops
from tilewright.asm import assemble, link
from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import SimulationError
from tilewright.cost import timing
from tilewright.cost.calls import Costs
from tilewright.cost.estimate import estimate
from tilewright.cost.prices import call_costs
from tilewright.ir.nodes import SCRATCHPAD
from tilewright.ir.parser import parse
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.papers.swdnn.batch_aware import BatchAware, batch_aware_program
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.seeds.space import seeds_for
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.kernel import cost
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.elementwise.routines import all_routines
from tilewright.targets.sw26010.prices import MeshPrices
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
CONVOLUTION = ops.conv2d(
    batch=32, in_channels=16, out_channels=16, height=4, width=4, kernel=3, padding=1
)
PRODUCT = ops.gemm(64, 256, 128, dtype="f32")
OLD_BAND, BAND = 0.025, 0.015


@cache
def best(op: ops.Op, algorithm: str) -> Case:
    (seed,) = seeds_for(op, algorithm)
    (ranking,) = rank([(op, seed)], MACHINE, keep=1)
    return Case(MACHINE, ranking.best[0])


@cache
def by_text(op: ops.Op, algorithm: str) -> CheckedTime:
    case = best(op, algorithm)
    return checked_time(CODE.emit(case.candidate.program(MACHINE), MACHINE), MACHINE)


def compared(case: Case, machine: Machine = MACHINE) -> tuple[float, float]:
    """Cycles by the model and by the kernel simulation."""
    program = case.candidate.program(machine)
    warm = simulate(program, machine, refills=False).cycles
    return estimated(Case(machine, case.candidate)), warm


FIRST_TEN = """\
def quotient():
    y: tensor("f64", "output", d0=10)
    x0: tensor("f64", "input", d0=10)
    x1: tensor("f64", "input", one=1)
    y_tile: buffer("f64", 8, offset_bytes=0)
    x0_tile: buffer("f64", 8, offset_bytes=128)
    x1_tile: buffer("f64", 8, offset_bytes=256)
    get(x1[0], x1_tile[0])
    wait(x1_tile[0])
    get(x0[at(rid * 8 + cid, max(0, min(1, 10 - (rid * 8 + cid))))], x0_tile[0])
    wait(x0_tile[0])
    map(
        y_tile[0](shape=(1,), roles="p"),
        x0_tile[0](shape=(1,), roles="p"),
        x1_tile[0](shape=(1,), roles="."),
        expression="x0 / x1",
    )
    put(y_tile[0], y[at(rid * 8 + cid, max(0, min(1, 10 - (rid * 8 + cid))))])
    wait(y_tile[0])
"""
"""The cores with a part in the second transfer are the first that the first one serves."""

FIRST_COLUMN = """\
def column():
    x: tensor("f64", "input", turns=9, rows=8, cols=40, batch=1)
    y: tensor("f64", "output", turns=9, rows=8, cols=40, batch=1)
    tile: buffer("f64", 40, offset_bytes=0)
    for turn in range(9):
        get(x[turn, rid, at(0, 40), at(cid, max(0, 1 - cid))], tile[0])
        wait(tile[0])
        repack(
            tile[0](shape=(1, 1, 40, 1), roles="abcd"),
            tile[0](shape=(1, 1, 40, max(0, 1 - cid)), roles="abcd"),
        )
        put(tile[0], y[turn, rid, at(0, 40), at(cid, max(0, 1 - cid))])
        wait(tile[0])
"""
"""The others fill tiles that nobody reads, while the first column waits for its own."""


CUT_ROWS = """\
def cut():
    y: tensor("f64", "output", images=2, turns=2, channels=24, rows=13, cols=13)
    x: tensor("f64", "input", images=2, turns=2, channels=24, rows=13, cols=13)
    b: tensor("f64", "input", images=2, channels=24)
    tile: buffer("f64", 624, offset_bytes=0)
    out: buffer("f64", 624, offset_bytes=4992)
    row: buffer("f64", 24, offset_bytes=9984)
    get(
        x[
            at(rid, max(0, min(1, 2 - rid))),
            0,
            at(0, 24),
            at(cid * 2, max(0, min(2, 13 - cid * 2))),
            at(0, 13),
        ],
        tile[0],
    )
    get(b[at(rid, max(0, min(1, 2 - rid))), at(0, 24)], row[0])
    wait(tile[0])
    wait(row[0])
    repack(
        tile[0](shape=(1, 1, 24, 2, 13), roles="abcde"),
        tile[0](
            shape=(max(0, min(1, 2 - rid)), 1, 24, max(0, min(2, 13 - cid * 2)), 13),
            roles="abcde",
        ),
    )
    map(
        out[0](shape=(1, 1, 24, 2, 13), roles="pqrst"),
        tile[0](shape=(1, 1, 24, 2, 13), roles="pqrst"),
        expression="x0 / 3.0",
    )
    put(
        out[0],
        y[
            at(rid, max(0, min(1, 2 - rid))),
            0,
            at(0, 24),
            at(cid * 2, max(0, min(2, 13 - cid * 2))),
            at(0, 13),
        ],
    )
    wait(out[0])
"""
"""The cores with a cut tile fill it up, the others have nothing to do."""


@pytest.mark.parametrize("text", [FIRST_TEN, FIRST_COLUMN], ids=["first ten", "first column"])
def test_cores_without_a_part_in_a_transfer_do_not_wait_for_it(text: str) -> None:
    program = parse(text)
    found = checked_time(CODE.emit(program, MACHINE), MACHINE)
    for skip in (True, False):
        run = simulate(program, MACHINE, refills=False, skip=skip)
        assert run.cycles == pytest.approx(found.cycles, rel=0.02)
        assert sum(run.by_kind().values()) == run.cycles


def test_the_price_lets_cores_without_a_part_go_on() -> None:
    program = parse(FIRST_COLUMN)
    (priced,) = estimate(program, MACHINE, {}).cycles.flat
    assert priced == pytest.approx(simulate(program, MACHINE, refills=False).cycles, rel=0.01)


def test_the_price_serves_cores_without_a_part_from_the_first_that_asks() -> None:
    """Six channels lie on two rows of cores: the other rows fetch nothing of the factor, and ask
    for the next image while the engine still serves the last of them.
    """
    op = ops.conv2d(batch=32, in_channels=48, out_channels=6, height=8, width=8, kernel=1)
    (seed,) = seeds_for(op, "implicit")
    (ranking,) = rank([(op, seed)], MACHINE, keep=8)
    for candidate in ranking.best:
        model, simulated = compared(Case(MACHINE, candidate))
        assert model == pytest.approx(simulated, rel=0.03)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_cores_far_apart_keep_the_engine_only_while_it_serves_them(dtype: str) -> None:
    """One core of eight has any pixels: until it asks for its next ones, others fetch factors."""
    op = ops.conv2d(
        batch=1, in_channels=96, out_channels=64, height=1, width=4, kernel=1, dtype=dtype
    )
    (seed,) = seeds_for(op, "implicit")
    (ranking,) = rank([(op, seed)], MACHINE, keep=8)
    for candidate in ranking.best:
        model, simulated = compared(Case(MACHINE, candidate))
        text = checked_time(CODE.emit(candidate.program(MACHINE), MACHINE), MACHINE).cycles
        assert (model, text) == (pytest.approx(simulated, rel=0.003),) * 2


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_the_first_cores_ask_for_the_next_transfer_before_the_last_ask_for_this_one(
    dtype: str,
) -> None:
    """The cores of a crowd follow each other as they are served: in a copy of images the first one
    stores its pixels while the last ones still fetch theirs, which come later for that.
    """
    op = ops.conv2d(
        batch=2, in_channels=48, out_channels=128, height=4, width=4, kernel=1, dtype=dtype
    )
    (seed,) = seeds_for(op, "explicit")
    (ranking,) = rank([(op, seed)], MACHINE, keep=4)
    for candidate in ranking.best[::3]:
        model, simulated = compared(Case(MACHINE, candidate))
        text = checked_time(CODE.emit(candidate.program(MACHINE), MACHINE), MACHINE).cycles
        assert (model, text) == (pytest.approx(simulated, rel=0.003),) * 2


def test_the_first_core_does_not_take_what_cut_tiles_take() -> None:
    """The last of seven columns of cores has one row of two and fills it up. All have their data by
    then, so the first one asks to store that much before it.
    """
    program = parse(CUT_ROWS)
    text = checked_time(CODE.emit(program, MACHINE), MACHINE).cycles
    (priced,) = estimate(program, MACHINE, {}).cycles.flat
    runs = (simulate(program, MACHINE, refills=False, skip=skip) for skip in (True, False))
    for cycles in (priced, *(run.cycles for run in runs)):
        assert cycles == pytest.approx(text, rel=0.003)


@pytest.mark.parametrize(
    "layer",
    [
        BatchAware(128, 384, 128, rows=1, cols=12, kernel=3, stride=1, groups=1),
        BatchAware(128, 160, 288, rows=1, cols=12, kernel=3, stride=1, groups=1),
        BatchAware(128, 128, 128, rows=1, cols=17, kernel=3, stride=17, groups=1),
    ],
    ids=["384 to 128", "160 to 288", "128 to 128"],
)
def test_the_plan_of_the_measured_kernels_is_simulated_as_its_text_runs(layer: BatchAware) -> None:
    place = AllocateBuffers(
        {SCRATCHPAD: MACHINE.spm_available_bytes},
        {SCRATCHPAD: MACHINE.space(SCRATCHPAD).alignment_bytes},
    )
    program = place.apply(batch_aware_program(layer))
    found = checked_time(CODE.emit(program, MACHINE), MACHINE)
    simulated = simulate(program, MACHINE, refills=False).cycles
    assert simulated == pytest.approx(found.cycles, rel=0.001)


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [
        (PRODUCT, "gemm"),
        (CONVOLUTION, "implicit"),
        (CONVOLUTION, "explicit"),
        (CONVOLUTION, "winograd2_fours"),
    ],
    ids=["product", "implicit", "explicit", "winograd"],
)
def test_the_text_takes_what_the_simulation_says(op: ops.Op, algorithm: str) -> None:
    model, simulated = compared(best(op, algorithm))
    assert model == pytest.approx(simulated, rel=OLD_BAND)
    band = 2 * BAND if algorithm == "winograd2_fours" else BAND  # no call of it is made together
    assert by_text(op, algorithm).cycles == pytest.approx(simulated, rel=band)


def without_waste(transaction_bytes: int, shape: timing.TransferShape) -> timing.Value:
    """A transfer rule that lets a block take part of a transaction."""
    return shape.block_bytes


def dearer_products(costs: Costs) -> Costs:
    def dearer(machine: Machine, call: object) -> timing.Value:
        return 1.2 * costs[MatrixProduct](machine, call)

    return {**costs, MatrixProduct: dearer}


SEEDED = ("a transfer rule", "a product's price", "a latency")


@pytest.mark.parametrize("what", SEEDED)
def test_a_wrong_price_is_seen_by_the_text_and_not_by_the_simulation(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model and kernel simulation share their prices, so they go wrong together."""
    case, machine = best(PRODUCT, "gemm"), MACHINE
    monkeypatch.setattr(cost, "_priced_on", lambda _: cost._Priced())  # nothing priced before
    if what == SEEDED[0]:
        monkeypatch.setattr(timing, "moved_bytes_per_block", without_waste)
    elif what == SEEDED[1]:
        monkeypatch.setattr(MeshPrices, "costs", dearer_products(call_costs(MACHINE)))
    else:
        slow = 2 * MACHINE.dma.latency_cycles
        machine = load_machine("sw26010_cg", {"dma.latency_cycles": slow})
    model, simulated = compared(case, machine)
    assert model == pytest.approx(simulated, rel=OLD_BAND)
    op, algorithm = case.candidate.op, case.candidate.seed.name
    assert abs(by_text(op, algorithm).cycles / simulated - 1) > BAND


TURNS = ("tw_repack_rows_f64", "tw_repack_rows_f32")
GET, WAIT, CALL, TOGETHER = 0, 2, 3, 4
LATENCY, ISSUE = 1595, 30


def cycles_of(*cores: list[tuple[int, ...]]) -> float:
    """Cycles of events (kind, line, subject, memory, size, stride, block) of the first cores."""
    rows = [(*event, core) for core, events in enumerate(cores) for event in events]
    events = np.array(rows, np.int64)
    calls = np.where(events[:, 0] == CALL, events[:, 2], 0)
    return replayed(Recording(events, np.zeros(0, np.int64), ()), MACHINE, calls)


def get(place: int, size: int, block: int | None = None, stride: int = 0) -> tuple[int, ...]:
    return (GET, 7, 0, place, size, stride, size if block is None else block)


WAITED = (WAIT, 8, 0, 0, 0, 0, 0)
TRANSACTION = 128 * MACHINE.clock_hz / MACHINE.dma.get.peak_bytes_per_second
OVERHEAD = MACHINE.dma.get.block_overhead_transactions


@pytest.mark.parametrize(
    ("requests", "transactions", "blocks"),
    [
        ([get(0, 128)], 1, 1),
        ([get(64, 128)], 2, 1),
        ([get(96, 16)], 1, 1),
        ([get(0, 512, 128, 128)], 4, 4),
        ([get(0, 64, 32, 96)], 2, 2),
    ],
    ids=["whole", "across", "inside", "blocks", "small blocks"],
)
def test_a_request_moves_the_transactions_that_its_bytes_lie_in(
    requests: list[tuple[int, ...]], transactions: int, blocks: int
) -> None:
    service = (transactions + blocks * OVERHEAD) * TRANSACTION
    assert cycles_of([*requests, WAITED]) == pytest.approx(ISSUE + LATENCY + service)


def test_requests_are_served_one_after_the_other_and_their_latency_overlaps() -> None:
    service = (1 + OVERHEAD) * TRANSACTION
    assert cycles_of(*[[get(128 * core, 128), WAITED] for core in range(5)]) == pytest.approx(
        ISSUE + LATENCY + 5 * service
    )


def test_neighbouring_blocks_share_the_transaction_that_both_touch() -> None:
    """Two blocks of 192 bytes lie in three transactions; apart they take two each."""
    for distance, transactions in ((192, 3), (256, 4)):
        found = cycles_of([get(0, 192), WAITED], [get(distance, 192), WAITED])
        service = (transactions + 2 * OVERHEAD) * TRANSACTION
        assert found == pytest.approx(ISSUE + LATENCY + service)


def test_tensors_keep_their_edges_apart() -> None:
    """A core that comes later finds the edges of both tensors, which lie at equal offsets."""
    late = (CALL, 0, 5000, 0, 0, 0, 0)
    places = ([(tensor << 40) + at for tensor in (1, 2)] for at in (0, 192))
    first, second = ([get(place, 8 * 192, 192, 192) for place in own] for own in places)
    found = cycles_of([*first, WAITED], [late, *second, WAITED])
    service = 2 * 8 * (1 + OVERHEAD) * TRANSACTION
    assert found == pytest.approx(5000 + ISSUE + LATENCY + service)


def test_a_core_without_earlier_transfers_shares_with_its_neighbour() -> None:
    """Turns of a statement are counted, not requests: the second core makes none of line 6."""
    before = (GET, 6, 0, 1 << 40, 128, 0, 128)
    found = cycles_of([before, get(0, 192), WAITED], [get(192, 192), WAITED])
    assert found == pytest.approx(2 * ISSUE + LATENCY + (1 + OVERHEAD) * TRANSACTION)


def test_cores_that_meet_go_on_together() -> None:
    call = (CALL, 0, 500, 0, 0, 0, 0)
    meeting = (TOGETHER, 9, 2, 0, 0, 0, 0)
    assert cycles_of([call, meeting, call], [meeting, call]) == 1000


def small_kernel() -> Artifact:
    return CODE.emit(best(PRODUCT, "gemm").candidate.program(MACHINE), MACHINE)


def test_a_kernel_with_too_many_statements_is_refused() -> None:
    with pytest.raises(SimulationError) as refused:
        checked_time(small_kernel(), MACHINE, most_statements=20)
    assert str(refused.value) == "gemm: more than 20 statements; check a smaller kernel"


def test_code_that_computes_in_c_has_no_time() -> None:
    kernel = small_kernel()
    text = kernel.files["gemm_slave.c"].replace("dma_wait(", "c_tile[0] = 0;\n    dma_wait(", 1)
    with pytest.raises(SimulationError) as refused:
        checked_time(replace(kernel, files={**kernel.files, "gemm_slave.c": text}), MACHINE)
    assert str(refused.value) == (
        "gemm computes on its scratchpad in C, whose time no instruction says; "
        "check kernels whose calls are all routines in assembly"
    )


def test_a_machine_without_instructions_has_no_time_of_code() -> None:
    core = structs.replace(MACHINE.core, instruction_table=None)
    plain = structs.replace(MACHINE, core=core)
    with pytest.raises(SimulationError) as refused:
        checked_time(small_kernel(), plain)
    assert "has no instruction table" in str(refused.value)


def test_a_routine_that_another_evicts_is_fetched_again() -> None:
    """Two routines of three lines in a cache of four: the first keeps none of the shared ones."""
    cache = structs.replace(load_table("sw26010_cpe").instruction_cache, capacity_bytes=64)
    lines = [np.array([0, 1, 2]), np.array([4, 5])]
    calls, cores = np.array([0, 0, 1, 0, 0]), np.array([0, 0, 0, 0, 1])
    assert missing_lines(cores, calls, lines, cache).tolist() == [3, 0, 2, 2, 3]
    both = structs.replace(cache, capacity_bytes=128, ways=2)
    assert missing_lines(cores, calls, lines, both).tolist() == [3, 0, 2, 0, 3]


ARGUMENTS = (0, 3, 8, 4)
SET = "".join(f"    ldi ${16 + i}, {value}($31)\n" for i, value in enumerate(ARGUMENTS))
DRIVER = f"""
    .extern {TURNS[0]}
    .extern {TURNS[1]}
    .text
    .globl turns
turns:
    ldi $9, 40($31)
again:
{SET}    bsr $26, {TURNS[0]}
{SET}    bsr $26, {TURNS[1]}
    subl $9, 1, $9
    bne $9, again
    halt
"""


def test_routines_in_turn_take_what_the_instruction_simulator_says() -> None:
    """Called from one loop, by turns, and longer together than the cache, within 5 %."""
    table = load_table("sw26010_cpe")
    cache = structs.replace(table.instruction_cache, capacity_bytes=512)
    small = structs.replace(table, instruction_cache=cache)
    texts = {f"{r.name}.S": r.text() for r in all_routines() if r.name in TURNS}
    first, *rest = ARGUMENTS
    given = ((PLACE, (first,)), *((INTEGER, (n,)) for n in rest))
    calls = [Call(name, given) for name in TURNS]
    routines = RoutineCycles(texts, small, (1, 1))
    times = [routines.time(call) for call in calls]
    turns = np.tile([0, 1], 40)
    missing = missing_lines(np.zeros(80, np.int64), turns, [t.lines for t in times], cache)
    found = sum(times[i].cycles for i in turns) + missing.sum() * cache.miss_cycles
    sources = [*texts.values(), DRIVER]
    image = load_image(link([assemble(text, small) for text in sources], small), small)
    run = simulate_core(image.program, entry="turns", trace=False)
    assert found == pytest.approx(run.cycles, rel=0.05)
    assert found > 1.5 * sum(times[i].cycles for i in turns)
