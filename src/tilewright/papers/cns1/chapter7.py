"""Chapter 7: every percentage and factor in the text on training."""

from __future__ import annotations

from tilewright.papers.cns1 import chapter5
from tilewright.papers.cns1.cases import (
    BEST,
    CASES,
    LARGE_BEST,
    MODEL,
    SHAPES,
    SMALL_WORST,
    WORST,
    Case,
    recall_share,
    training_share,
)
from tilewright.papers.cns1.chapter5 import one_pattern_cycles
from tilewright.papers.cns1.printed import Reading, printed_numbers, reproduced
from tilewright.papers.cns1.table5_5 import rate_of as recall_rate_of
from tilewright.papers.cns1.table7_1 import rate_of
from tilewright.papers.cns1.table7_3 import penalty
from tilewright.papers.cns1.table7_6 import procedures
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.layers import on_each_node
from tilewright.targets.cns1.timing.memory import (
    VECTOR_BYTES,
    read_cycles,
    refresh_factor,
    write_cycles,
)

TITLE = "percentages and factors in the text of chapter 7"
_WITHOUT = "7.2.2 without optimizations"


def run(lab: Lab) -> Result:
    """Scaling, run time by step, memory, optimizations, and recall against training."""
    ours = _rates() | _steps() | _memory() | _optimizations() | _against_recall() | _scaling()
    return reproduced(lab, "chapter7", TITLE, ours, {_WITHOUT: _without_optimizations()})


def _rates() -> dict[str, float]:
    rate = {case: rate_of(case, WORST) for case in CASES}
    small, large = Case(128, "192M", "4.5 Mb"), Case(1024, "1536M", "4.5 Mb")
    scaled = [
        rate[Case(1024, n, c)] / rate[Case(128, n, c)]
        for n in ("768M", "1536M")
        for c in ("4.5 Mb", "18 Mb")
    ]
    chips = [rate[Case(k, n, "18 Mb")] / rate[Case(k, n, "4.5 Mb")] - 1 for k, n in SHAPES]
    big = [value for case, value in rate.items() if case.nodes == 1024]
    shares = [training_share(case, value) for case, value in rate.items()]
    local = rate[large] / rate[small]
    each = [value / case.nodes for case, value in rate.items()]
    return {
        "128 nodes, updates per second [10^9]": rate[small],
        "1024 nodes, least [10^9]": min(big),
        "1024 nodes, most [10^9]": max(big),
        "speedup by 1024 nodes, fixed local size": local,
        "the same, percent of eight": 100 * local / 8,
        "relative performance, least [percent]": min(shares),
        "relative performance, most [percent]": max(shares),
        "speedup by 1024 nodes, fixed global size, least": min(scaled),
        "speedup by 1024 nodes, fixed global size, most": max(scaled),
        "the same, at most, percent of eight": 100 * max(scaled) / 8,
        "impact of the chips, least [percent]": 100 * min(chips),
        "impact of the chips, most [percent]": 100 * max(chips),
        "impact of nodes, size and chips together [percent]": 100 * (max(each) / min(each) - 1),
        "impact of refreshes [percent]": 100 * (refresh_factor(MODEL.machine()) - 1),
    }


def _steps() -> dict[str, float]:
    times, parts = MODEL.training(BEST), procedures()
    forward = times.forward.hidden_cycles + times.forward.outputs_cycles
    updates = times.update_outputs_cycles + times.update_hidden_cycles
    backward, total = times.backward.total_cycles, times.total_cycles
    lookups = [
        MODEL.training(conditions).total_cycles
        for conditions in (BEST, LARGE_BEST, SMALL_WORST, WORST)
    ]
    misses = [penalty(case, WORST) for case in CASES]
    hidden = times.forward.hidden
    products = parts["feedforward A"][1] + parts["feedforward B"][1]
    return {
        "lookups, best against worst [percent]": 100 * (max(lookups) / min(lookups) - 1),
        "instruction misses, least [percent]": min(misses),
        "instruction misses, most [percent]": max(misses),
        "matrix operations of the run time [percent]": 100 * (forward + backward + updates) / total,
        "update against forward pass, longer [percent]": 100 * (updates / forward - 1),
        "transfer against arithmetic in the forward pass [percent]": 100
        * hidden.sum_network_cycles
        / hidden.product_cycles,
        "local computation of the forward pass [percent]": 100 * products / forward,
        "updates of the run time [percent]": 100 * updates / total,
        "backpropagation of the run time [percent]": 100 * backward / total,
        "forward pass of A over that of B [times]": times.forward.hidden_cycles
        / times.forward.outputs_cycles,
        "update of A over that of B [times]": times.update_hidden_cycles
        / times.update_outputs_cycles,
    }


def _memory() -> dict[str, float]:
    parts, times = procedures(), MODEL.training(BEST)
    waiting = {name: 100 * (1 - need / took) for name, (need, took) in parts.items()}
    local, recall = on_each_node(MODEL.machine(), MODEL.layers), MODEL.recall(BEST)
    arithmetic = 2 * (local.inputs + local.outputs) * local.hidden / 8
    layers = recall.forward.hidden, recall.forward.outputs
    products = sum(layer.rounds * layer.product_cycles for layer in layers)
    return {
        "matrix products that wait for memory [percent]": waiting["feedforward A"],
        "updates that wait for memory [percent]": waiting["update A"],
        "a faster memory [times]": times.total_cycles / with_fast_memory_cycles(),
        "memory accesses of an operation, update over product [times]": _accesses_of_update(),
        "recall that waits for memory [percent]": 100
        * (products - arithmetic)
        / recall.total_cycles,
    }


def _accesses_of_update() -> float:
    """A weight is read and written for one multiplication, and read for one in a product."""
    reads, writes, read_alone = 1, 1, 1
    return (reads + writes) / read_alone


def with_fast_memory_cycles() -> float:
    """Training when products and updates take what their arithmetic needs; the global sums of the
    error backpropagation then show.
    """
    parts, times = procedures(), MODEL.training(BEST)
    saved = sum(took - need for need, took in parts.values())
    backward = times.backward
    need = parts["backpropagation B"][0] / backward.rounds + backward.sum_processor_cycles
    shown = (backward.rounds - 1) * max(0.0, backward.sum_cycles - need)
    return times.total_cycles - saved + shown


def _optimizations() -> dict[str, float]:
    machine, parts, times = MODEL.machine(), procedures(), MODEL.training(BEST)
    local = on_each_node(machine, MODEL.layers)
    read, write = read_cycles(machine, VECTOR_BYTES), write_cycles(machine, VECTOR_BYTES)
    lines = max(4, local.hidden // (4 * 1024)) * (read.clean_miss - read.hit)
    apart = local.hidden // 32 * (write.dirty_miss + read.hit) + lines
    slower = parts["backpropagation B"][1] / parts["feedforward B"][1] - 1
    layers, backward = (times.forward.hidden, times.forward.outputs), times.backward
    network = sum(la.rounds * la.sum_network_cycles for la in layers)
    network -= layers[1].sum_network_cycles
    hidden = network + (backward.rounds - 1) * (backward.sum_cycles - backward.sum_processor_cycles)
    products = sum(took for _, took in parts.values())
    arithmetic = sum(need for need, _ in parts.values())
    total = times.total_cycles
    updates = times.update_outputs_cycles + times.update_hidden_cycles
    twice = 0.5 * updates - slower / (1 + slower) * parts["backpropagation B"][1]
    shares = 100 * hidden / total, 100 * products / total, 100 * arithmetic / total
    return {
        "steps 6 and 7 apart: backpropagation [percent]": 100 * apart / backward.total_cycles,
        "product with the transposed matrix, slower [percent]": 100 * slower,
        "update of two copies, slower [percent]": 50.0,
        "the matrix stored twice: loss [percent]": 100 * twice / total,
        "no overlap of transfer and computation [percent]": shares[0],
        "stripes of 32 [percent]": shares[1],
        "no unrolling and pipelining [percent]": shares[2],
        "none of the optimizations, penalty [percent]": sum(shares),
        "none of the optimizations [times]": 1 + sum(shares) / 100,
        "none of them and the matrix stored twice [times]": 1
        + sum(shares) / 100
        + 2 * twice / total,
    }


def _against_recall() -> dict[str, float]:
    recall = {case: recall_rate_of(case) for case in CASES}
    training = {case: rate_of(case, WORST) for case in CASES}
    rates = [recall[case] / training[case] for case in CASES]
    shares = [
        recall_share(case, recall[case]) / training_share(case, training[case]) for case in CASES
    ]
    local = on_each_node(MODEL.machine(), MODEL.layers)
    weights = (local.inputs + local.outputs) * local.hidden
    arithmetic = (2 * local.inputs + 3 * local.outputs) * local.hidden + local.outputs / 2
    accesses = 3 * weights + local.hidden * local.outputs
    times = MODEL.recall(BEST)
    single = one_pattern_cycles() + times.io_cycles + 2 * times.overhead_cycles
    slower = single / times.total_cycles
    efficiency = [recall_share(case, recall[case]) for case in CASES]
    return {
        "relative performance of recall, least [percent]": min(efficiency),
        "relative performance of recall, most [percent]": max(efficiency),
        "recall of one pattern [times]": slower,
        "recall over training, least": min(rates),
        "recall over training, most": max(rates),
        "arithmetic of training over recall": arithmetic / weights,
        "memory accesses of training over recall": accesses / weights,
        "relative performance, recall over training, least": min(shares),
        "relative performance, recall over training, most": max(shares),
        "recall of one pattern over training, least": min(rates) / slower,
        "recall of one pattern over training, most": max(rates) / slower,
    }


def _scaling() -> dict[str, float]:
    """Scaling to eight times as many nodes, as section 7.3.1 repeats it."""
    recall = {row.name: row.ours or 0.0 for row in chapter5.run(Lab()).rows}
    training = _rates()
    return {
        "recall scales, fixed local size [percent]": recall[
            "the same for local size, percent of eight"
        ],
        "recall scales, fixed global size [percent]": recall["the same, percent of eight"],
        "training scales, fixed local size [percent]": training["the same, percent of eight"],
        "training scales, fixed global size [percent]": training[
            "the same, at most, percent of eight"
        ],
    }


def _without_optimizations() -> Reading:
    """Section 7.2.2 adds up the percentages of Table 7.7 as they are printed, and 24 percent."""
    table, run_time = printed_numbers("table7_7"), "run time"

    def weighted(what: str) -> float:
        names = [name.removesuffix(f": {run_time}") for name in table if name.endswith(run_time)]
        return sum(table[f"{n}: {run_time}"] * table[f"{n}: {what}"] for n in names) / 100

    shares = [weighted(what) for what in ("hidden transfer", "memory accesses", "computation")]
    penalty = sum(shares)
    values = (*shares, penalty, 1 + penalty / 100, 1 + (150 + 2 * 24) / 100)
    names = printed_numbers("chapter7", _WITHOUT)
    text = "arithmetic on the printed percentages of Table 7.7"
    return Reading(text, dict(zip(names, values, strict=True)))
