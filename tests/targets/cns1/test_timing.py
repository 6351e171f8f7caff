"""The closed form: anchors of the report, and the interleaving played against the formula."""

import itertools

import pytest

from tilewright.common.errors import ShapeError
from tilewright.machine import load_machine
from tilewright.papers.cns1.cases import BEST, CASES, MODEL, WORST
from tilewright.targets.cns1.timing.forward import Conditions, interleaving, product_cycles
from tilewright.targets.cns1.timing.layers import Layers, on_each_node
from tilewright.targets.cns1.timing.memory import refresh_factor
from tilewright.targets.cns1.timing.messages import (
    global_sum_cycles,
    hidden_sum,
    output_sum,
    transfer_cycles,
)
from tilewright.targets.cns1.timing.recall import recall_times
from tilewright.targets.cns1.timing.training import training_times, update_cycles


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
    assert transfer_cycles(machine, 32, 137) == 240  # section 4.1.1


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
    slower = MODEL.recall(BEST, {"fabrics.torrents.hop_cycles": 40.0})
    assert slower.forward.hidden.sum_cycles > MODEL.recall(BEST).forward.hidden.sum_cycles
    assert slower.forward.hidden.product_cycles == 17807
    more = training_times(MODEL.machine(), MODEL.layers, BEST)
    assert MODEL.training(BEST, {"memory.rdram.read_hit_ns": 64.0}).total_cycles > more.total_cycles


READ = {
    "clock_hz": 250_000_000,
    "mesh.rows": 8,
    "mesh.columns": 64,
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
    **{f"messages.{key}_cycles": 30 for key in ("processor_send", "processor_receive", "sum")},
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
