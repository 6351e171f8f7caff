"""The closed form: anchors of the report, and the interleaving played against the formula."""

import itertools
from dataclasses import replace

import pytest

from tilewright.common.errors import ShapeError
from tilewright.machine import load_machine
from tilewright.papers.cns1.cases import BEST, CASES, MODEL, WORST
from tilewright.targets.cns1.timing.forward import (
    Conditions,
    forward_times,
    interleaving,
    product_cycles,
)
from tilewright.targets.cns1.timing.layers import Layers, on_each_node, refresh_factor
from tilewright.targets.cns1.timing.messages import (
    block_transfer_cycles,
    global_sum_cycles,
    hidden_sum,
    output_sum,
)
from tilewright.targets.cns1.timing.recall import recall_times, writing_cycles
from tilewright.targets.cns1.timing.training import (
    backward_times,
    error_cycles,
    error_preload_cycles,
    training_times,
    update_cycles,
    update_hidden_cycles,
    update_outputs_cycles,
)


def test_ways_of_the_instruction_cache_keep_codes_apart():
    worst = Conditions(worst_instruction_misses=True)
    ways = load_machine("cns1-128", {"memory.caches.instruction_ways": 2})
    network = Layers(inputs=8192, hidden=16384, outputs=4096)
    for times in (recall_times, training_times):
        usual = times(load_machine("cns1-128"), network, Conditions()).total_cycles
        assert times(ways, network, worst).total_cycles == usual
        assert times(load_machine("cns1-128"), network, worst).total_cycles > usual


def test_anchors():
    machine = load_machine("cns1-128")
    assert product_cycles(machine, 1024, 1024, 2) == 17807
    assert product_cycles(machine, 1024, 512, 2) == 17103
    assert product_cycles(machine, 1024, 1024, 1) == 16015
    assert 4 * global_sum_cycles(machine, hidden_sum(machine)) == 16276
    assert 4 * global_sum_cycles(machine, output_sum(machine)) == 4280
    assert update_cycles(machine, 1024, 512) == 203542
    assert block_transfer_cycles(machine, 32) == 240  # section 4.1.1


def test_hidden_vectors_beyond_the_cache_are_read_again():
    """4096 hidden nodes of two bytes are twice the data cache: outputs are preloaded for the error,
    words of the hidden vector are read from main memory, and the errors are updated in two parts.
    """
    machine, small, large = (
        load_machine("cns1-128"),
        Layers(1024, 2048, 1024),
        Layers(1024, 4096, 1024),
    )
    parameter, passes, hit, miss = 20 + 2, 8, 53, 62
    own = parameter + (passes - 4) * hit + 4 * miss
    preload = 4 * 27 + (8 - 4) * 14
    assert error_cycles(machine, small) == own
    assert error_cycles(machine, large) == own + preload
    words = 4096 // 4 * 20
    assert update_outputs_cycles(machine, small) == update_cycles(machine, 2048, 1024)
    assert update_outputs_cycles(machine, large) == update_cycles(machine, 4096, 1024) + words
    errors = 6 + 2048 // 64 * 14 + 4 + 13
    assert error_preload_cycles(machine, 2048) == errors
    part = update_cycles(machine, 1024, 2048) + 1024 // 4 * 20 + errors
    assert update_hidden_cycles(machine, large) == 2 * part
    assert update_hidden_cycles(machine, small) == part
    near = Layers(1024, 1024, 1024)
    errors = 6 + 1024 // 64 * 14 + 4 + 6.5
    assert update_hidden_cycles(machine, near) == update_cycles(machine, 1024, 1024) + errors
    scaled = [backward_times(machine, layers).scaling_cycles for layers in (small, large)]
    assert scaled[1] - scaled[0] == 27 - 4


def test_errors_go_back_at_the_rate_of_the_memory_or_of_the_processor():
    """Each of 32 columns takes eight stripes of 64 weights in four steps of 14 cycles, or of 8
    where the memory is faster, five sums of lanes, and a line of 1 KB is missed eight times.
    """
    machine = load_machine("cns1-128")
    rest = 7 + 5 * (4 * 2 + 4) + 8
    local = on_each_node(machine, MODEL.layers)
    assert (local.hidden, local.outputs) == (1024, 512)
    usual = backward_times(machine, local)
    assert usual.local_cycles == 8 * (8 * 4 * 14 - 14 + rest) + 2 + 8 * (27 - 14)
    assert (usual.rounds, usual.parameter_cycles) == (32, 20 + 7)
    times = {f"memory.rdram.read_{way}_ns": 8.0 for way in ("hit", "clean_miss", "dirty_miss")}
    fast = backward_times(load_machine("cns1-128", {**times, "memory.rdram.byte_ns": 0.25}), local)
    assert (fast.parameter_cycles, fast.local_cycles) == (11 + 7, 8 * (8 * 4 * 8 - 2 + rest) + 2)


def test_a_pattern_takes_the_cycles_of_all_of_its_steps():
    times = MODEL.training(WORST)
    steps = [name for name, value in vars(times).items() if isinstance(value, int | float)]
    assert len(steps) == 6
    for name in steps:
        longer = replace(times, **{name: getattr(times, name) + 1000})
        assert longer.total_cycles == times.total_cycles + 1000
    forward, backward = times.forward, times.backward
    beside = sum(getattr(times, name) for name in steps)
    assert times.total_cycles == (
        forward.hidden_cycles + forward.outputs_cycles + backward.total_cycles + beside
    )
    hidden = replace(backward, sum_cycles=0).total_cycles
    assert hidden == backward.parameter_cycles + backward.local_cycles + 32 * (
        backward.scaling_cycles
    ) + 31 * (backward.local_cycles + backward.sum_processor_cycles)


def test_many_outputs_miss_the_open_lines_again():
    """32768 outputs are 256 passes; beyond 16 K each 4 K of them miss once more."""
    layers = Layers(1024, 2048, 32768)
    assert error_cycles(load_machine("cns1-128"), layers) == 22 + 248 * 53 + 8 * 62
    few = Layers(1024, 2048, 256)
    assert error_cycles(load_machine("cns1-128"), few) == 22 + 2 * 62


def test_instruction_misses_of_training_are_counted_step_by_step():
    """44 cycles a miss, 13 a line that is restored: twelve blocks are read, 32 rounds go back, each
    with sums in three rounds.
    """
    worst = MODEL.training(replace(WORST, worst_instruction_misses=True))
    reading = 44 * (2 + 5 * 12)
    backward = 44 * (31 * (6 * 3 + 2) + 8) + 13 * (3 + 31 * (3 * 3 + 1))
    update, preload = 4 * 44 + 3 * 13, 2 * 44 + 13
    own = reading + 44 + backward + update + preload
    assert worst.penalty_cycles == worst.forward.penalty_cycles + own
    assert worst.total_cycles == MODEL.training(WORST).total_cycles + worst.penalty_cycles


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("conditions", [BEST, WORST], ids=["best", "worst"])
def test_interleaving_takes_what_the_formula_says(case, conditions):
    for forward in (case.recall(conditions).forward, case.training(conditions).forward):
        rounds = interleaving(forward)
        end = max(r.end_cycle for r in rounds)
        assert end + forward.transfer_cycles == forward.hidden_cycles + forward.outputs_cycles
        own = sorted((r.start_cycle, r.end_cycle) for r in rounds if r.where == "processor")
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(own))


def test_a_refresh_costs_less_than_a_thousandth():
    assert refresh_factor(load_machine("cns1-128")) == pytest.approx(1024 / 1023)


@pytest.mark.parametrize(
    ("layers", "message", "fix"),
    [
        (
            Layers(8190, 16384, 4096),
            "8190 inputs cannot be divided over the nodes of 'cns1-128'",
            "take a multiple of 32",
        ),
        (
            Layers(8192, 16000, 4096),
            "16000 hidden nodes cannot be divided over the nodes of 'cns1-128'",
            "take a multiple of 1024",
        ),
        (
            Layers(8192, 16384, 0),
            "0 outputs cannot be divided over the nodes of 'cns1-128'",
            "take a multiple of 512",
        ),
    ],
)
def test_parts_are_whole(layers, message, fix):
    with pytest.raises(ShapeError) as caught:
        on_each_node(load_machine("cns1-128"), layers)
    assert (caught.value.message, caught.value.fix) == (message, fix)


def test_one_number_of_the_machine_changes_every_time_that_depends_on_it():
    changed = load_machine("cns1-128", {"fabrics.torrents.hop_cycles": 40.0})
    slower = recall_times(changed, MODEL.layers, BEST)
    assert slower.forward.hidden.sum_cycles > MODEL.recall(BEST).forward.hidden.sum_cycles
    assert slower.forward.hidden.product_cycles == 17807
    more = training_times(MODEL.machine(), MODEL.layers, BEST)
    changed = load_machine("cns1-128", {"memory.rdram.read_hit_ns": 64.0})
    assert training_times(changed, MODEL.layers, BEST).total_cycles > more.total_cycles


READ = {
    "clock_hz": 250_000_000,
    "mesh.rows": 2,
    "mesh.columns": 16,
    "memory.cache.capacity_bytes": 8192,
    "memory.rdram.chips_per_port": 8,
    "memory.rdram.line_bytes": 2048,
    "memory.rdram.byte_ns": 4.0,
    **{f"memory.rdram.read_{way}_ns": 300.0 for way in ("hit", "clean_miss", "dirty_miss")},
    **{f"memory.rdram.write_{way}_ns": 300.0 for way in ("hit", "clean_miss", "dirty_miss")},
    "memory.caches.instruction_ways": 2,
    "memory.caches.instruction_miss_cycles": 20,
    "fabrics.torrents.bytes_per_cycle": 2.0,
    "fabrics.torrents.header_bytes": 18,
    **{f"fabrics.torrents.{key}_cycles": 50.0 for key in ("hop", "gap", "send", "receive")},
    **{f"messages.processor_{key}_cycles": 15 for key in ("send", "receive")},
    "messages.sum_cycles": 30,
    "messages.hidden_sharers": 16,
    "hosts.block_bytes": 256,
    "hosts.block_cycles": 40,
    **{f"runtime.{what}_procedure_cycles": 9.0 for what in ("recall", "training")},
    "runtime.thread_cycles": 9.0,
}
FIXED = {
    "core.vectors.multiply_accumulate": 0,
    "core.vectors.scalar_registers": 0,
    "kernels.stripe_columns": 32,
    "kernels.patterns": 1,
    "memory.rdram.open_lines": 4,
    "memory.caches.instruction_bytes": 8192,
    "memory.caches.instruction_line_bytes": 256,
    "fabrics.torrents.rows": 8,
    "fabrics.torrents.columns": 64,
    "hosts.ports": 16,
    "hosts.port_bytes_per_second": 8e8,
    "core.arithmetic.i16.flops_per_cycle": 32,
}


def times_of(machine):
    """Both kernels of a network that fits the data cache and of one that does not."""
    layers = (Layers(8192, 16384, 4096), Layers(65536, 65536, 65536))
    worst = Conditions(table_elements=16384, worst_instruction_misses=True)
    return [
        repr(times(machine, network, worst))
        for network in layers
        for times in (recall_times, training_times)
    ]


@pytest.mark.parametrize("key", READ)
def test_what_the_report_writes_with_a_number_follows_it(key):
    assert times_of(load_machine("cns1-128", {key: READ[key]})) != times_of(MODEL.machine())


@pytest.mark.parametrize("key", FIXED)
def test_what_the_loops_of_the_report_fix_stays(key):
    """The table of `docs/reference/cns1.md` says so."""
    assert times_of(load_machine("cns1-128", {key: FIXED[key]})) == times_of(MODEL.machine())


def test_writing_the_results_follows_the_misses_of_the_instruction_cache():
    slow = load_machine("cns1-128", {"memory.caches.instruction_miss_cycles": 88})
    network, worst = Layers(8192, 16384, 4096), Conditions(worst_instruction_misses=True)
    found, usual = (recall_times(m, network, worst) for m in (slow, MODEL.machine()))
    assert usual.writing_penalty_cycles == 11 * 512 / 8  # section 4.3.2
    assert found.writing_penalty_cycles == 2 * usual.writing_penalty_cycles
    without = recall_times(MODEL.machine(), network, Conditions())
    assert usual.total_cycles == without.total_cycles + usual.penalty_cycles


def test_results_follow_each_other_to_the_host():
    """Blocks of 128 bytes and a header of 9 begin 138 cycles apart; the last one is sent in 19
    cycles, goes a hop in 2 and is received in 20. Results beyond the cache miss once.
    """
    machine, own = load_machine("cns1-128"), 512 // 64 * 138 + 19 + 2 + 20
    assert writing_cycles(machine, Layers(1024, 1024, 512)) == own
    limit = machine.memory["cache"].capacity_bytes
    assert writing_cycles(machine, Layers(limit, 1024, 512)) == own + 27


def test_small_hidden_vectors_are_loaded_before_they_are_summed():
    """Where the inputs do not fit the cache beside them: as many bytes as all patterns have hidden
    nodes, four accesses that miss and others in open lines. The inputs come by half of the cache.
    """
    machine = load_machine("cns1-128")
    limit = machine.memory["cache"].capacity_bytes
    for patterns, hidden in ((1, 1024), (2, 1024), (2, 512)):
        large = Layers(limit, hidden, 1024)
        found = forward_times(machine, large, patterns, Conditions())
        accesses = patterns * hidden // (4 * 32)
        assert found.transfer_cycles == 4 * 27 + (accesses - 4) * 14
        halves = 2 * patterns * (4 * 27 + (limit // 2 // (4 * 32) - 4) * 14)
        product = product_cycles(machine, limit, hidden, patterns)
        assert found.hidden.product_cycles == product + halves
        small = Layers(1024, hidden, 1024)
        assert forward_times(machine, small, patterns, Conditions()).transfer_cycles == 0
