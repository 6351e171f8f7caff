"""An explanation as text, whole."""

from dataclasses import replace

import msgspec
import pytest

from tilewright.codegen.artifact import RoutineCycles
from tilewright.report.explain import explain_text, routine_rows, stage_rows, stage_text
from tilewright.report.view import (
    Arranged,
    CauseRow,
    Change,
    Explanation,
    LayerResult,
    Rejected,
    StageExplanation,
    TrafficRow,
)

SCHEDULE = "algorithm gemm\nnest gemm\nreorder(row, col)\nvectorize(n)\nfactors({})\n"
EXPLANATION = Explanation(
    layer=LayerResult(
        name="fc",
        op="gemm",
        shape="gemm m256 n256 k256",
        algorithm="gemm",
        partition="m",
        schedule=SCHEDULE.format("col_tile=64, row_tile=32"),
        candidates=10,
        estimate_cycles=1050,
        simulated_cycles=1000,
        milliseconds=0.5,
        gflops=67.1,
        peak_fraction=0.336,
        bound="dma bandwidth",
        lower_bound_cycles=800,
    ),
    machine="toy",
    groups=4,
    groups_used=3,
    clock_hz=2_000_000,
    causes=(
        CauseRow("wait bandwidth", "a get", 600),
        CauseRow("compute useful", "gemm", 399),
        CauseRow("barrier", "", 1),
    ),
    traffic=(TrafficRow("a", "get", 4096, 8192, 16, 700),),
    scratchpad_bytes=30000,
    scratchpad_limit_bytes=61440,
    lower_bound_compute_cycles=399,
    lower_bound_transfer_cycles=800,
    rejected=(
        Rejected(
            "gemm", "n", SCHEDULE.format("col_tile=32, row_tile=32"), 1200, 500, 700, "it waits"
        ),
    ),
    changes=(
        Change(("dma.latency_cycles=5",), 990, retuned=False),
        Change(("memory.spm.capacity_bytes=131072",), 750, retuned=True),
    ),
    routines=(
        RoutineCycles("tw_fill_f64", "3 x 4 rows of 2 vectors", 250, 250, 6),
        RoutineCycles("gemm_f64", "16 x 4 x 8 per core", 1290, 1302, 12),
        *(
            RoutineCycles(
                "gemm_f64_n_column_row_8x16x4_8_16_4", f"8 x {n} x 4 per core", n, None, 1
            )
            for n in range(1, 9)
        ),
    ),
    arranged=(
        Arranged("b", "in", True, 4096, 0.25, 590, 600),
        Arranged("c", "out", False, 12288, 0.125, 300, 300),
    ),
)
TEXT = """\
fc: gemm m256 n256 k256
gemm on 3 of the 4 core groups of toy, divided over m
1000 cycles simulated (0.500 ms), 1050 by the model (+5.0 %)
67.1 Gflop/s, 33.6 % of peak; scratchpad 30000 of 61440 bytes

time by cause (simulated)
  wait bandwidth a get   600   60.0 %
  compute useful gemm    399   39.9 %
  barrier                  1    0.1 %
  total                 1000  100.0 %

traffic of one core group (simulated)
  tensor  bytes asked  bytes moved  requests  engine cycles  of the time
  a get          4096         8192        16            700       70.0 %

routines of the code (cycles of one call)
  routine                                                call  calls  priced  simulated
  tw_fill_f64                         3 x 4 rows of 2 vectors      6     250        250
  gemm_f64                                16 x 4 x 8 per core     12    1290       1302
  gemm_f64_n_column_row_8x16x4_8_...       8 x 3 x 4 per core      1       3
  gemm_f64_n_column_row_8x16x4_8_...       8 x 4 x 4 per core      1       4
  gemm_f64_n_column_row_8x16x4_8_...       8 x 5 x 4 per core      1       5
  gemm_f64_n_column_row_8x16x4_8_...       8 x 6 x 4 per core      1       6
  gemm_f64_n_column_row_8x16x4_8_...       8 x 7 x 4 per core      1       7
  gemm_f64_n_column_row_8x16x4_8_...       8 x 8 x 4 per core      1       8
                                               2 other shapes      2
priced: by the model, fitted constants included
simulated: the routine alone, instruction by instruction, its code in the cache

arranged by the groups' cores, from and to C order (not in the time above)
  tensor    bytes         for  cycles  by the model     ms  least ms
  b in       4096  all groups     600           590  0.300     0.250
  c out     12288  each group     300           300  0.150     0.125
  together                        900                0.450

bound by dma bandwidth
no schedule of this algorithm takes less than 800 cycles: 399 at the cores' peak, 800 to move each \
operand once
the simulated time is 1.25 times that

what would help (simulated)
  most: --set memory.spm.capacity_bytes=131072, 25.0 % less time
  --set dma.latency_cycles=5              990   -1.0 %  same schedule
  --set memory.spm.capacity_bytes=131072  750  -25.0 %    tuned again

best rejected candidates (model)
  gemm over n, row 32 col 32 vec n: 1200 cycles
    it waits
"""


def test_the_whole_text():
    assert explain_text(EXPLANATION) == TEXT


MANY = (
    Change(("dma.latency_cycles=5",), 990, retuned=False),
    Change(
        tuple(f"memory.rdram.read_{miss}_miss_ns=48" for miss in ("clean", "dirty", "other")),
        800,
        retuned=False,
    ),
)


def test_changes_of_many_numbers_are_listed_below_the_table():
    text = explain_text(msgspec.structs.replace(EXPLANATION, changes=MANY, rejected=()))
    assert (
        text.partition("what would help (simulated)\n")[2]
        == """\
  most: (a) 3 numbers of memory.rdram, 20.0 % less time
  --set dma.latency_cycles=5     990   -1.0 %  same schedule
  (a) 3 numbers of memory.rdram  800  -20.0 %  same schedule
  (a) 3 numbers of memory.rdram: --set memory.rdram.read_clean_miss_ns=48
    --set memory.rdram.read_dirty_miss_ns=48 --set memory.rdram.read_other_miss_ns=48
"""
    )


@pytest.mark.parametrize(("digits", "is_listed"), [(27, False), (28, True)])
def test_flags_of_up_to_60_characters_stand_in_the_table(digits, is_listed):
    settings = ("clock_hz=1", f"mesh.rows={9:0{digits}}")
    change = msgspec.structs.replace(MANY[0], settings=settings)
    text = explain_text(msgspec.structs.replace(EXPLANATION, changes=(change,), rejected=()))
    flags = " ".join(f"--set {setting}" for setting in settings)
    assert len(flags) == 33 + digits
    assert (f"  {flags} " in text) != is_listed
    assert ("(a) 2 numbers of " in text) == is_listed
    one = msgspec.structs.replace(change, settings=(f"mesh.rows={9:050}",))
    alone = msgspec.structs.replace(EXPLANATION, changes=(one,), rejected=())
    assert f"  --set {one.settings[0]} " in explain_text(alone)


THREADS = msgspec.structs.replace(
    EXPLANATION,
    layer=msgspec.structs.replace(
        EXPLANATION.layer, timed_by="model", partition="whole", simulated_cycles=None
    ),
    groups=1,
    groups_used=1,
    threads=2,
    causes=(
        CauseRow("compute useful", "gemm", 750),
        CauseRow("caches", "", 200),
        CauseRow("barrier", "", 50),
    ),
    rejected=(),
    changes=(),
    routines=(),
    arranged=(),
)


def test_the_whole_text_of_several_threads_is_about_one_of_them():
    assert (
        explain_text(THREADS)
        == """\
fc: gemm m256 n256 k256
gemm on 2 threads of toy
0.500 ms by the model (1050 cycles), not measured
67.1 Gflop/s, 33.6 % of peak; scratchpad 30000 of 61440 bytes

time by cause of the thread with most to do (model)
  compute useful gemm   750   75.0 %
  caches                200   20.0 %
  barrier                50    5.0 %
  total                1000  100.0 %

traffic of that thread (model)
  tensor  bytes asked  bytes moved  requests  engine cycles  of the time
  a get          4096         8192        16            700       70.0 %

bound by dma bandwidth
no schedule of this algorithm takes less than 800 cycles: 399 at the cores' peak, 800 to move each \
operand once
the estimated time is 1.25 times that
"""
    )


def test_routines_of_a_source_as_a_whole_have_no_number_of_calls():
    routines = (RoutineCycles("p.s", "the whole source", 700, 705),)
    text = explain_text(msgspec.structs.replace(EXPLANATION, routines=routines))
    assert (
        """\
routines of the code (cycles of one call)
  routine              call  priced  simulated
  p.s      the whole source     700        705
priced: by the model, fitted constants included
simulated: the routine alone, instruction by instruction, its code in the cache
"""
        in text
    )


def test_shapes_beside_the_six_that_take_most_in_all_are_counted_with_their_calls():
    every = [RoutineCycles("p", f"shape {n}", 10 * n, calls=9 - n) for n in range(1, 9)]
    calls = [(row[1], row[2]) for row in routine_rows(every)[1:]]
    shown = [(r.call, str(r.calls)) for r in every if r.call not in ("shape 1", "shape 8")]
    assert calls == [*shown, ("2 other shapes", "9")]
    alone = routine_rows([replace(r, calls=None) for r in every])
    assert [row[1] for row in alone[1:]] == [*(f"shape {n}" for n in range(3, 9)), "2 other shapes"]
    assert {len(row) for row in alone} == {4}


def test_a_routine_of_a_stage_counts_once_where_it_is_the_whole():
    own = RoutineCycles("p.s", "the whole source", 700, 705)
    assert stage_rows("s", [own]) == [("s", "p.s", "1", "1", "700", "705")]
    assert stage_rows("s", [replace(own, calls=3)]) == [("s", "p.s", "1", "3", "2100", "2115")]


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ((), ""),
        (("s2",), ""),
        (("pool",), "operator pool\n"),
        (("pool", "s2"), "operators pool, s2\n"),
    ],
)
def test_a_stage_names_its_operators_unless_it_has_the_name_of_the_only_one(nodes, line):
    stage = StageExplanation(
        "net", "toy", "f64", "s2", "pool 2x2", "window", nodes, "model", 0.1, 0.25, 96
    )
    assert stage_text(stage) == (
        f"s2: pool 2x2\nwindow on toy, f64\n{line}not measured; moves 96 bytes"
    )


def test_changes_that_gain_nothing_are_called_so():
    changes = (Change(("dma.latency_cycles=5",), 995, retuned=False),)
    text = explain_text(msgspec.structs.replace(EXPLANATION, changes=changes))
    assert "  none of the changes tried gains 1 % of the time\n" in text


@pytest.mark.parametrize(
    ("groups", "partition", "line"),
    [
        (1, "whole", "gemm on one core group of toy\n"),
        (4, "whole", "gemm on 3 of the 4 core groups of toy\n"),
    ],
)
def test_undivided_operators(groups, partition, line):
    layer = msgspec.structs.replace(EXPLANATION.layer, partition=partition)
    text = explain_text(msgspec.structs.replace(EXPLANATION, layer=layer, groups=groups))
    assert line in text


def test_sections_without_content_are_left_out():
    bare = msgspec.structs.replace(EXPLANATION, rejected=(), changes=())
    text = explain_text(bare)
    assert "rejected" not in text
    assert "would help" not in text


def test_causes_that_would_be_shown_as_nothing_are_summed_up():
    causes = (
        CauseRow("compute useful", "gemm", 99_990),
        CauseRow("primitive", "fill", 6),
        CauseRow("dma issue", "y put", 4),
    )
    text = explain_text(msgspec.structs.replace(EXPLANATION, causes=causes))
    assert (
        "  compute useful gemm   99990  100.0 %\n  2 other causes           10    0.0 %\n" in text
    )


def test_a_rejected_candidate_that_reads_like_the_pick_says_what_differs() -> None:
    """Its short form has no layouts."""
    pick = "algorithm implicit\nnest conv\nlayout(w, k, c)\nfactors(c_tile=8)\n"
    layer = msgspec.structs.replace(
        EXPLANATION.layer, algorithm="implicit", partition="rows", schedule=pick
    )
    alike = Rejected(
        "implicit", "rows", pick.replace("(w, k, c)", "(w, c, k)"), 9, 5, 4, "it waits"
    )
    other = msgspec.structs.replace(alike, partition="batch")
    text = explain_text(msgspec.structs.replace(EXPLANATION, layer=layer, rejected=(alike, other)))
    assert text.endswith(
        "best rejected candidates (model)\n"
        "  implicit over rows, c 8: 9 cycles\n"
        "    layout(w, c, k) where the pick has layout(w, k, c)\n"
        "    it waits\n"
        "  implicit over batch, c 8: 9 cycles\n"
        "    it waits\n"
    )


def test_the_head_says_how_refills_are_priced_where_that_is_not_as_usual():
    head, *_ = explain_text(EXPLANATION).split("\n\n")
    unpriced = msgspec.structs.replace(EXPLANATION, refill_note="refills are not priced")
    assert explain_text(unpriced).split("\n\n")[0] == f"{head}\nrefills are not priced"
