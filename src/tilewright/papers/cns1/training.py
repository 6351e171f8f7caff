"""Training in the report: Tables 7.1 to 7.8, and the percentages and factors of chapter 7.

Each table or figure is a function by its name in `TITLES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.papers.cns1.cases import (
    BEST,
    CASES,
    CHIPS,
    LARGE_BEST,
    MODEL,
    SHAPES,
    SMALL_WORST,
    WORST,
    TableCell,
    recall_share,
    training_peak,
    training_rate,
    training_share,
)
from tilewright.papers.cns1.printed import printed_numbers, reproduced
from tilewright.papers.cns1.recall import chapter5, one_pattern_cycles, recall_rate_of
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.papers.readings import Reading
from tilewright.targets.cns1.timing.forward import Conditions, LayerTimes
from tilewright.targets.cns1.timing.layers import (
    VECTOR_BYTES,
    WORD_BYTES,
    on_each_node,
    read_cycles,
    refresh_factor,
    write_cycles,
)

TITLES = {
    "table7_1": "performance of training",
    "table7_2": "training under model conditions, by lookups and instruction misses",
    "table7_3": "worst penalty of instruction misses in training, in percent",
    "table7_4": "run time of training, step by step",
    "table7_5": "forward and backward passes of training, round by round",
    "table7_6": "run times of training beside the cycles that its arithmetic needs",
    "table7_7": "what the main procedures of training consist of, in percent",
    "table7_8": "recall against training",
    "chapter7": "percentages and factors in the text of chapter 7",
}


# Table 7.1: performance of training.


def table7_1(lab: Lab) -> Findings:
    """Worst instruction misses and lookups, as the text says."""
    worst = replace(WORST, worst_instruction_misses=True)
    ours: dict[str, float] = {}
    for case in CASES:
        ours[f"{case.name}: rate"] = rate = training_rate_of(case, worst)
        ours[f"{case.name}: share"] = training_share(case, rate)
    for nodes in (128, 1024):
        network = next(network for count, network in SHAPES if count == nodes)
        ours[f"peak of {nodes} nodes"] = training_peak(TableCell(nodes, network, "4.5 Mb"))
    notes = (
        "the printed rates are near those of best instruction misses, which the report's other"
        " numbers on training have",
    )
    return reproduced(lab, "table7_1", ours, notes=notes)


def training_rate_of(case: TableCell, conditions: Conditions) -> float:
    """Giga connection updates per second."""
    return training_rate(case, case.training(conditions).total_cycles)


# Table 7.2: performance of training under model conditions, by lookups and instruction misses.

_COLUMNS = tuple((pattern, size) for pattern in ("best", "worst") for size in (16, 32))
_MISSES = ("best", "worst")


def table7_2(lab: Lab) -> Findings:
    """Rates, and by how much the largest exceeds the least of a row or column."""
    rates = _rates(0.0)
    shorter = printed_numbers("table7_4")["total"] - step_cycles()["total"]
    spread = _deviations(printed_numbers("table7_2"))
    readings = {
        "rates": Reading("the total that Table 7.4 prints", _rates(shorter)),
        "deviations": Reading("the spread of the printed rates", spread),
    }
    return reproduced(lab, "table7_2", rates | _deviations(rates), readings)


def _rates(more_cycles: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for misses in _MISSES:
        for pattern, size in _COLUMNS:
            conditions = Conditions(size << 10, pattern == "worst", misses == "worst")
            cycles = MODEL.training(conditions).total_cycles + more_cycles
            found[_name(misses, (pattern, size))] = training_rate(MODEL, cycles)
    return found


def _deviations(rates: Mapping[str, float]) -> dict[str, float]:
    found = {
        f"{misses} instruction misses: deviation": _spread(
            [rates[_name(misses, column)] for column in _COLUMNS]
        )
        for misses in _MISSES
    }
    for pattern, size in _COLUMNS:
        both = [rates[_name(misses, (pattern, size))] for misses in _MISSES]
        found[f"{pattern} pattern, {size}K: deviation"] = _spread(both)
    return found


def _name(misses: str, column: tuple[str, int]) -> str:
    return f"{misses} instruction misses, {column[0]} pattern, {column[1]}K"


def _spread(rates: Sequence[float]) -> float:
    return 100 * (max(rates) / min(rates) - 1)


# Table 7.3: the worst that instruction misses cost training.


def table7_3(lab: Lab) -> Findings:
    """Worst lookups, as the section says of all its tables."""
    ours = {case.name: training_penalty(case, WORST) for case in CASES}
    return reproduced(lab, "table7_3", ours)


def training_penalty(case: TableCell, conditions: Conditions) -> float:
    """Percent of the run time."""
    best = case.training(conditions)
    worst = case.training(replace(conditions, worst_instruction_misses=True))
    return 100 * worst.penalty_cycles / best.total_cycles


# Table 7.4: run time of training under model conditions, step by step.


def table7_4(lab: Lab) -> Findings:
    """Cycles and percent; the text says worst conditions, the numbers are those of best ones."""
    ours = step_cycles()
    shares = {f"{name}: percent": 100 * cycles / ours["total"] for name, cycles in ours.items()}
    return reproduced(lab, "table7_4", ours | shares)


def step_cycles() -> dict[str, float]:
    """Cycles of each step, and the total, by the names of the table."""
    times = MODEL.training(BEST)
    return {
        "1 I/O": times.reading_cycles,
        "2 feedforward A": times.forward.hidden_cycles,
        "3 feedforward B": times.forward.outputs_cycles,
        "5 error": times.error_cycles,
        "6-7 backpropagation": times.backward.total_cycles,
        "8 update B": times.update_outputs_cycles,
        "9 update A": times.update_hidden_cycles,
        "overhead": times.overhead_cycles,
        "total": times.total_cycles,
    }


# Table 7.5: forward and backward passes of training, round by round.


def table7_5(lab: Lab) -> Findings:
    """Steps 2, 3 and 6-7; the table calls the last one step 5."""
    times = MODEL.training(WORST)
    backward = times.backward
    back = LayerTimes(
        backward.rounds,
        backward.local_cycles,
        backward.scaling_cycles,
        backward.sum_cycles,
        backward.sum_processor_cycles,
    )
    ours: dict[str, float] = {}
    steps = ((2, times.forward.hidden, 0), (3, times.forward.outputs, 1), (6, back, 1))
    for step, layer, visible in steps:
        wire = layer.sum_network_cycles
        for unit, count in (("a round", 1), ("in all", layer.rounds)):
            name = f"step {step}, {unit}"
            ours[f"{name}: product"] = count * layer.product_cycles
            ours[f"{name}: sigmoid or scaling"] = count * layer.sigmoid_cycles
            ours[f"{name}: processor of the sums"] = count * layer.sum_processor_cycles
            ours[f"{name}: network hidden"] = wire * (count if count == 1 else count - visible)
        ours[f"step {step}, in all: network visible"] = visible * wire
    return reproduced(lab, "table7_5", ours)


# Table 7.6: run times of training beside the cycles that its arithmetic needs.


def table7_6(lab: Lab) -> Findings:
    """Eight multiply-accumulates a cycle against the time of products and updates."""
    ours: dict[str, float] = {}
    for name, (arithmetic, cycles) in procedures().items():
        ours[f"{name}: arithmetic"] = arithmetic
        ours[f"{name}: run time"] = cycles
        ours[f"{name}: overhead"] = 100 * (1 - arithmetic / cycles)
    return reproduced(lab, "table7_6", ours)


def procedures() -> dict[str, tuple[float, float]]:
    """(cycles of the arithmetic, run time of products or update) by name."""
    times, machine = MODEL.training(BEST), MODEL.machine()
    local, lanes = on_each_node(machine, MODEL.layers), machine.core.of("i16").vector_lanes
    large = local.inputs * local.hidden / lanes
    small = local.hidden * local.outputs / lanes
    hidden, outputs, backward = times.forward.hidden, times.forward.outputs, times.backward
    return {
        "feedforward A": (large, hidden.in_all.product_cycles),
        "feedforward B": (small, outputs.in_all.product_cycles),
        "backpropagation B": (small, backward.rounds * backward.local_cycles),
        "update A": (large, times.update_hidden_cycles),
        "update B": (small, times.update_outputs_cycles),
    }


# Table 7.7: what the main procedures of training consist of.


def table7_7(lab: Lab) -> Findings:
    """Shares of the whole run, and of the procedure's own time."""
    times = MODEL.training(BEST)
    hidden, outputs, backward = times.forward.hidden, times.forward.outputs, times.backward
    wholes: dict[str, tuple[float, float]] = {
        "feedforward A": (times.forward.hidden_cycles, hidden.in_all.sum_network_cycles),
        "feedforward B": (
            times.forward.outputs_cycles,
            (outputs.rounds - 1) * outputs.sum_network_cycles,
        ),
        "backpropagation B": (
            backward.total_cycles,
            (backward.rounds - 1) * backward.sum_network_cycles,
        ),
        "update A": (times.update_hidden_cycles, 0),
        "update B": (times.update_outputs_cycles, 0),
    }
    parameter = read_cycles(MODEL.machine(), WORD_BYTES).dirty_miss + 2
    ours: dict[str, float] = {}
    for name, (arithmetic, products) in procedures().items():
        whole, transfer = wholes[name]
        ours[f"{name}: run time"] = 100 * whole / times.total_cycles
        ours[f"{name}: hidden transfer"] = 100 * transfer / whole
        ours[f"{name}: computation"] = 100 * arithmetic / products
        accesses = products - parameter if name.startswith("update") else products
        ours[f"{name}: memory accesses"] = 100 * accesses / whole
    return reproduced(lab, "table7_7", ours)


# Table 7.8: recall against training.


def table7_8(lab: Lab) -> Findings:
    """Ratios of rates and of shares of the peak, worst lookups and best instruction misses."""
    ours: dict[str, float] = {}
    for case in CASES:
        recall, training = recall_rate_of(case), training_rate_of(case, WORST)
        ours[f"{case.name}: rates"] = recall / training
        ours[f"{case.name}: shares"] = recall_share(case, recall) / training_share(case, training)
    columns = [f"{chips}: {what}" for what in ("rates", "shares") for chips in CHIPS]
    readings = {column: _of_printed(column) for column in columns}
    return reproduced(lab, "table7_8", ours, readings)


def _of_printed(column: str) -> Reading:
    """Both tables as they are printed, divided."""
    recall, training = printed_numbers("table5_5"), printed_numbers("table7_1")
    names = printed_numbers("table7_8", column)
    values = {name: recall[name[:-1]] / training[name[:-1]] for name in names}
    return Reading("the ratio of the printed numbers of Tables 5.5 and 7.1", values)


# Chapter 7: every percentage and factor in the text on training.

_WITHOUT = "7.2.2 without optimizations"


def chapter7(lab: Lab) -> Findings:
    """Scaling, run time by step, memory, optimizations, and recall against training."""
    ours = _text_rates() | _steps() | _memory() | _optimizations() | _against_recall() | _scaling()
    return reproduced(lab, "chapter7", ours, {_WITHOUT: _without_optimizations()})


def _text_rates() -> dict[str, float]:
    rate = {case: training_rate_of(case, WORST) for case in CASES}
    small, large = TableCell(128, "192M", "4.5 Mb"), TableCell(1024, "1536M", "4.5 Mb")
    scaled = [
        rate[TableCell(1024, n, c)] / rate[TableCell(128, n, c)]
        for n in ("768M", "1536M")
        for c in ("4.5 Mb", "18 Mb")
    ]
    chips = [
        rate[TableCell(k, n, "18 Mb")] / rate[TableCell(k, n, "4.5 Mb")] - 1 for k, n in SHAPES
    ]
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
    misses = [training_penalty(case, WORST) for case in CASES]
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
    products = recall.forward.in_all.product_cycles
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
    forward, backward = times.forward, times.backward
    network = forward.in_all.sum_network_cycles - forward.outputs.sum_network_cycles
    hidden = network + (backward.rounds - 1) * backward.sum_network_cycles
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
    training = {case: training_rate_of(case, WORST) for case in CASES}
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
    recall = {row.name: row.ours or 0.0 for row in chapter5(Lab()).rows}
    training = _text_rates()
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
