"""The lines below the table of a whole network, whole."""

import re

import msgspec
import pytest

from tilewright.codegen.artifact import RoutineCycles
from tilewright.graph.rewrites.recompute import AGAIN
from tilewright.network.explain import (
    NetworkExplanation,
    StageTime,
    explained,
    measured_explanation,
)
from tilewright.network.results import (
    Comparison,
    LayoutChange,
    LayoutChoice,
    NetworkRun,
    PlanBounds,
    StageResult,
)
from tilewright.report.network import (
    comparison_text,
    measured_explanation_text,
    network_explanation_text,
    network_table,
    network_totals,
    plan_table,
    plan_totals,
)

STAGE = StageResult("fc", "gemm m1 n2 k3", "prepacked", 0.0025, 0.00375, 1.5)
RUN = NetworkRun("net", "host", "f32", (STAGE,), 0.25, 4_000_000, 500_000, 0.0046, 2.5)
TIMED = Comparison("onnxruntime", "1.31", 2e-7, 1e-4, "m.onnx", 0.5, 2.25, 0.125)
APART = "against onnxruntime 1.31 on m.onnx: largest difference 2.00e-07 of the largest magnitude, "


TOTALS = """\
total 4.600 us simulated on sw26010 (ideal), 4000 cycles of a core group, 2.5 Gflop/s; 25.0 % of it
  outside the products
by work: product 75.0 %, elementwise 25.0 %
by cause: launch 50.0 %, compute useful 25.0 %, wait bandwidth 15.0 %, wait latency 7.5 %,
  dma issue 2.5 %
a stage for every operator takes 5000 cycles: fusing saves 20.0 %
lower bounds: 500 cycles to compute the products at the peak, 800 to move inputs, weights and
  outputs once; the plan takes 5.00 times the larger
the model: 4100 cycles; the products, each in its best layouts, take 2900 of them or more
layouts for the whole network: 3900 cycles by the prices of that choice, proven the least of the
  ways considered
planned in 0.25 s; 4.0 MB of constants, 0.5 MB of arena in each group"""
NOT_PROVEN = """
layouts for the whole network: 3900 cycles by the prices of that choice, not proven the least, which
  is 3000 or more; those of each product's fastest schedule are taken instead
"""


def test_short_times_are_told_in_microseconds():
    assert network_totals(RUN) == (
        "total 4.600 us measured, 2.5 Gflop/s; products 3.750 us in runs "
        "that time each stage, 2.500 us by\n  the model\n"
        "compiled in 0.25 s; 4.0 MB of constants, 0.5 MB of arena"
    )


def test_few_bytes_and_cut_labels_are_told():
    few = msgspec.structs.replace(RUN, arena_bytes=6_144)
    assert network_totals(few).endswith("; 4.0 MB of constants, 0.0061 MB of arena")
    long = msgspec.structs.replace(
        STAGE, label="conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_norm relu"
    )
    cells = network_table(msgspec.structs.replace(RUN, stages=(long,)), 200).columns[1].cells
    assert list(cells) == ["conv2d 1x64x56x56 -> 64, 3x3 s1 p1 batch_norm..."]
    for label, shown in (("n" * 48, "n" * 48), ("n" * 49, "n" * 45 + "...")):
        stage = msgspec.structs.replace(STAGE, label=label)
        table = network_table(msgspec.structs.replace(RUN, stages=(stage,)), 200)
        assert list(table.columns[1].cells) == [shown]


def test_the_totals_of_a_plan_say_how_far_from_the_best_it_is():
    stage = msgspec.structs.replace(STAGE, work="product", cycles=3000)
    whole = NetworkRun(
        "net", "sw26010", "f64", (stage,), 0.25, 4_000_000, 500_000, 0.0046, 2.5,
        groups=4, cycles=4000, unfused_cycles=5000, work={"product": 3000, "elementwise": 1000},
        causes={"launch": 2000, "compute useful": 1000, "wait bandwidth": 600, "wait latency": 300,
                "dma issue": 100},
        bounds=PlanBounds(500, 800, 4100, 2900), layout_choice=LayoutChoice(3900, 3900, True, True),
        fitted_machine="sw26010_measured",
    )  # fmt: skip
    assert plan_totals(whole) == TOTALS
    unpriced = msgspec.structs.replace(whole, refill_note="refills are not priced")
    assert "\nrefills are not priced\n" in plan_totals(unpriced)
    copy = msgspec.structs.replace(whole, cycles=4, work={"layout": 4})
    assert "; 100.0 % of it\n  outside the products\n" in plan_totals(copy)
    other = msgspec.structs.replace(whole, layout_choice=LayoutChoice(3900, 3000, False, False))
    assert NOT_PROVEN in plan_totals(other)


@pytest.mark.parametrize(
    ("speedup", "spread", "expected"),
    [
        (2.25, 0.125, "; 0.500 ms, ours is 2.25 times as fast (spread 12.5 %)"),
        (2.25, float("nan"), "; 0.500 ms, ours is 2.25 times as fast"),
        (float("nan"), float("nan"), "; 0.500 ms"),
        (None, None, ""),
    ],
)
def test_what_few_rounds_do_not_say_is_left_out(speedup, spread, expected):
    other = msgspec.structs.replace(TIMED, speedup=speedup, spread=spread)
    assert comparison_text(other) == f"{APART}within 0.0001{expected}"


def test_the_dearest_changes_of_layout_are_listed_and_the_others_counted():
    stage = msgspec.structs.replace(STAGE, work="layout", cycles=8200, causes={"launch": 8200})
    changes = [LayoutChange(f"s{i}", "x", "c h", "h c", 100 * i) for i in range(1, 13)]
    run = NetworkRun(
        "net", "sw26010", "f64", (stage,), 0.25, 0, 0, 0.0046, 2.5,
        cycles=8200, work={"layout": 8200}, layouts=tuple(changes),
    )  # fmt: skip
    text = network_explanation_text(explained(run))
    assert text.startswith(
        "the stage, the slowest first, and what takes their time:\n"
        "  fc  100.0 %: launch 100 %\n"
        "\n"
        "12 changes of layout, 7800 cycles, 95.1 % of the time, the 10 dearest:\n"
        "    s12       x  (c h) -> (h c)  1200 cycles\n"
    )
    assert "\n    s3        x  (c h) -> (h c)   300 cycles\n    2 others" in text
    assert re.search(r"\n    2 others +300 cycles\n\ntotal ", text)


def test_a_table_of_measured_stages_has_their_part_of_the_time():
    other = msgspec.structs.replace(STAGE, name="bias", algorithm="", measured_milliseconds=0.00125)
    table = network_table(msgspec.structs.replace(RUN, stages=(STAGE, other)))
    assert table.columns[-1].header == "% of time"
    assert list(table.columns[-1].cells) == ["75.0", "25.0"]


@pytest.mark.parametrize(
    ("whole", "shown"), [(0.5, "0.0025"), (0.0046, "0.002500"), (None, "0.002500")]
)
def test_times_show_a_thousandth_of_the_networks_or_of_their_sum(whole, shown):
    table = network_table(msgspec.structs.replace(RUN, milliseconds=whole))
    (model,) = (column for column in table.columns if column.header == "ms (model)")
    assert list(model.cells) == [shown]


def test_passes_share_the_simulated_time_by_their_cycles():
    forward, backward = (
        msgspec.structs.replace(STAGE, measured_milliseconds=None, cycles=cycles, nodes=(node,))
        for cycles, node in ((300, "a"), (100, "b"))
    )
    run = msgspec.structs.replace(RUN, milliseconds=4.0, cycles=400, stages=(forward, backward))
    found = run.with_passes({"a": "forward", "b": "backward"}, images=16)
    assert (found.passes, found.images) == ({"forward": 3.0, "backward": 1.0}, 16)


def test_what_is_outside_the_products_is_all_other_work():
    times = {"product": 3.0, "elementwise": 0.75, "layout": 0.25}
    stages = tuple(
        msgspec.structs.replace(STAGE, name=work, work=work, measured_milliseconds=time)
        for work, time in times.items()
    )
    text = measured_explanation_text(
        measured_explanation(msgspec.structs.replace(RUN, stages=stages))
    )
    assert "; 25.0 % outside the products\n" in text


def test_stages_that_were_not_measured_are_the_last_of_the_slowest():
    stages = [
        msgspec.structs.replace(STAGE, name=name, measured_milliseconds=time, work="product")
        for name, time in (("a", None), ("b", 1.0), ("c", 3.0))
    ]
    run = msgspec.structs.replace(RUN, stages=tuple(stages))
    text = measured_explanation_text(measured_explanation(run))
    assert text.splitlines()[:4] == [
        "the 3 stages, the slowest first:",
        "  c  75.0 %: product",
        "  b  25.0 %: product",
        "  a   0.0 %: product",
    ]


def test_of_many_stages_the_ten_slowest_are_listed():
    every = [
        msgspec.structs.replace(
            STAGE, name=f"s{n}", cycles=n, causes={"launch": n}, measured_milliseconds=float(n)
        )
        for n in range(1, 13)
    ]
    run = msgspec.structs.replace(RUN, stages=tuple(every), cycles=78, layouts=())
    for text in (
        measured_explanation_text(measured_explanation(run)),
        network_explanation_text(explained(run)),
    ):
        head, *lines = text.splitlines()[:12]
        assert head.startswith("the 10 slowest of 12 stages")
        shares = [f"  {f's{n}':3}  {100 * n / 78:4.1f} %: " for n in range(12, 2, -1)]
        assert [line[: len(shares[0])] for line in lines[:10]] == shares
        assert not lines[10].startswith("  s2")


SIMULATED = msgspec.structs.replace(
    RUN,
    cycles=1000,
    groups=1,
    work={"product": 1000},
    causes={"compute": 1000},
    bounds=PlanBounds(500, 250, 990, 900),
)
STAGES = (
    StageTime(
        "conv",
        ("conv",),
        900,
        {"compute": 600, "primitive": 300},
        (
            RoutineCycles("tw_fill_f64", "1 row of 4 vectors", 38, 38, 2),
            RoutineCycles("tw_fill_f64", "2 rows of 1 vector", 92, 92, 1),
            RoutineCycles(
                "gemm_f64_n_column_row_8x16x4_8_16_4", "8 x 16 x 4 per core", 100, 101, 4
            ),
        ),
    ),
    StageTime(
        "a_stage_with_a_name_that_is_too_long",
        ("b",),
        100,
        {"primitive": 100},
        (RoutineCycles("map exp(x0)", "compiled C, assumed: 8 elements", 80, None, 1),),
    ),
)
EXPLAINED = """\
the 2 stages, the slowest first, and what takes their time:
  conv                                  90.0 %: compute 67 %, primitive 33 %
  a_stage_with_a_name_that_is_too_long  10.0 %: primitive 100 %

their routines: calls of a core, and the cycles of all of them
  stage                                                routine  shapes  calls  priced  simulated
  conv                                             tw_fill_f64       2      3     168        168
                            gemm_f64_n_column_row_8x16x4_8_...       1      4     400        404
  a_stage_with_a_name_t...                         map exp(x0)       1      1      80
priced: by the model, fitted constants included
simulated: the routine alone, instruction by instruction, its code in the cache

no stage changes a layout

total 4.600 us simulated on host, 1000 cycles of a core group, 2.5 Gflop/s; 0.0 % of it outside the
  products
by work: product 100.0 %
by cause: compute 100.0 %
lower bounds: 500 cycles to compute the products at the peak, 250 to move inputs, weights and
  outputs once; the plan takes 2.00 times the larger
the model: 990 cycles; the products, each in its best layouts, take 900 of them or more
planned in 0.25 s; 4.0 MB of constants, 0.5 MB of arena in each group"""


def test_a_network_is_explained_with_the_routines_of_its_stages():
    found = NetworkExplanation(SIMULATED, STAGES, (), 500, 250, 990, 900)
    assert network_explanation_text(found) == EXPLAINED
    plain = tuple(msgspec.structs.replace(stage, routines=()) for stage in STAGES)
    text = network_explanation_text(msgspec.structs.replace(found, stages=plain))
    assert "routines" not in text


def test_whole_per_cents_of_a_stage_leave_out_those_shown_as_nothing():
    causes = {"compute": 984, "launch": 11, "wait": 5}
    stage = StageTime("fc", (), 1000, causes)
    found = NetworkExplanation(SIMULATED, (stage,), (), 0, 0, 0, 0)
    line = network_explanation_text(found).splitlines()[1]
    assert line == "  fc  100.0 %: compute 98 %, launch 1 %"


def _stage(work, nodes, milliseconds=None, causes=()):
    return msgspec.structs.replace(
        STAGE, work=work, nodes=tuple(nodes), measured_milliseconds=milliseconds,
        causes=dict(causes),
    )  # fmt: skip


def test_operators_that_fuse_into_products_passes_and_windows_are_counted():
    """Two follow a product; of five in passes of their own three join another one; the pass of a
    window's nodes is none.
    """
    run = msgspec.structs.replace(
        RUN,
        stages=(
            _stage("product", ["conv", "bias", "relu"], 2.0, {"compute": 30, "wait": 10}),
            _stage("product", [], 1.0, {"wait": 60}),
            _stage("elementwise", ["add", "scale", "clip", "neg"], 1.5),
            _stage("elementwise", ["exp"], 0.5),
            _stage("window", ["pool", "mean"], 4.0),
            _stage("elementwise", ["mean"], 1.0),
            _stage("elementwise", [], None),
        ),
    )
    found = measured_explanation(run)
    assert (found.elementwise, found.in_products, found.merged, found.passes) == (7, 2, 3, 2)
    assert list(found.work_milliseconds.items()) == [
        ("window", 4.0), ("product", 3.0), ("elementwise", 3.0)
    ]  # fmt: skip
    assert list(found.product_causes.items()) == [("wait", 70), ("compute", 30)]
    text = " ".join(measured_explanation_text(found).split())
    assert "by work: window 40.0 %, product 30.0 %, elementwise 30.0 %; 70.0 % outside" in text
    assert "products by cause (model): wait 70.0 %, compute 30.0 % " in text
    assert (
        "fusing: 7 elementwise operators in 2 passes of their own; 2 in the kernels of products "
        "and 3 in the pass of another one, which saves as many passes " in text
    )


def test_what_moves_bytes_is_listed_with_its_speed():
    stage = msgspec.structs.replace(
        STAGE, name="pool", work="window", measured_milliseconds=0.5, moved_bytes=3_000_000
    )
    text = measured_explanation_text(
        measured_explanation(msgspec.structs.replace(RUN, stages=(stage,)))
    )
    assert text.splitlines()[:2] == [
        "the stage, the slowest first:",
        "  pool  100.0 %: window, 3000000 bytes at 6.00 GB/s",
    ]


STEP = msgspec.structs.replace(
    RUN, milliseconds=4.0, passes={"forward": 1.0, "backward": 3.0}, images=16,
    state_bytes=2_000_000, live_bytes=300_000, clock="processor",
)  # fmt: skip
STEP_TOTALS = """\
total 4.000 ms measured (processor time: the computer is busy), 2.5 Gflop/s; products 0.004 ms in
  runs that time each stage, 0.003 ms by the model
4000.00 images/s measured
by pass: forward 25.0 %, backward 75.0 %
compiled in 0.25 s; 4.0 MB of constants, 2.0 MB of states, 0.5 MB of arena, of which 0.3 MB live at
  once"""


def test_a_training_step_is_told_with_its_speed_passes_and_states():
    assert network_totals(STEP) == STEP_TOTALS
    simulated = msgspec.structs.replace(
        STEP, cycles=4000, work={"product": 4000}, causes={"compute": 4000}, saturated={"fc": 2}
    )
    lines = plan_totals(simulated).splitlines()
    assert lines[3:5] == ["4000.00 images/s simulated", "by pass: forward 25.0 %, backward 75.0 %"]
    assert lines[-1] == "saturated 2 elements in fc"
    assert network_totals(msgspec.structs.replace(RUN, milliseconds=None)) == (
        "products 2.500 us by the model\ncompiled in 0.25 s; 4.0 MB of constants, 0.5 MB of arena"
    )


def test_stages_of_several_groups_are_told_with_their_parts_of_the_time():
    stages = tuple(
        msgspec.structs.replace(STAGE, name=f"s{n}", cycles=cycles, groups=groups, divided="rows")
        for n, (groups, cycles) in enumerate([(1, 100), (4, 500), (2, 150), (4, 250)])
    )
    run = msgspec.structs.replace(SIMULATED, stages=stages)
    line = "by core groups that compute, the others wait: 4 75.0 %, 2 15.0 %, 1 10.0 %"
    assert line in plan_totals(run).splitlines()
    assert [*plan_table(run, 200).columns[-1].cells] == ["1", "4 by rows", "2 by rows", "4 by rows"]
    for other in (
        msgspec.structs.replace(run, groups=4),
        msgspec.structs.replace(run, stages=stages[:1]),
    ):
        assert "core groups that compute" not in plan_totals(other)
        assert plan_table(other, 200).columns[-1].header == "% of time"
    assert plan_table(msgspec.structs.replace(run, groups=4), 200).title.endswith(
        ", 4 stages, each of 4 core groups"
    )


def test_passes_of_what_no_node_tells_are_layouts_or_computed_again():
    stages = (
        msgspec.structs.replace(_stage("product", ["a"]), cycles=100),
        msgspec.structs.replace(_stage("layout", ["b"]), cycles=50),
        msgspec.structs.replace(_stage("product", [f"a{AGAIN}"]), cycles=30),
        msgspec.structs.replace(_stage("elementwise", ["c"]), cycles=20),
    )
    run = msgspec.structs.replace(RUN, milliseconds=2.0, cycles=200, stages=stages)
    found = run.with_passes({"a": "forward", "b": "backward"}, images=1).passes
    assert found == pytest.approx({"forward": 1.0, "layout": 0.7, "computed again": 0.3})
    assert msgspec.structs.replace(run, milliseconds=None).with_passes({}, 1).passes == {}
