"""Programs of one core of a BWDSP: their time by hand, and that they compute what parts need."""

import pytest

from support.core_programs import check_parts, doubles
from support.partitions import random_case
from tilewright.common.errors import PartitionError
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.prices import call_costs
from tilewright.graph import network
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import load_machine
from tilewright.ops import Pool2d, conv2d, relu
from tilewright.partition.layers import layers_of
from tilewright.partition.parts import Task, tasks_of
from tilewright.partition.plan import fixed_plan
from tilewright.targets.bwdsp.division import programs_of
from tilewright.targets.bwdsp.sections import READ, RESULTS, core_machine

MACHINE = load_machine("bwdsp-56")
CORE = core_machine(MACHINE)


def test_three_buffers_rotate_between_two_ports():
    """Two are read or take what comes next, one takes results; each way 64 bits a cycle."""
    buffer = MACHINE.space("buffers").capacity_bytes // 3
    assert {name: CORE.space(name).capacity_bytes // buffer for name in (READ, RESULTS)} == {
        READ: 2, RESULTS: 1,
    }  # fmt: skip
    assert CORE.transfer_engine_name(READ) != CORE.transfer_engine_name(RESULTS)
    ports = (CORE.transfer_engine(READ).get, CORE.transfer_engine(RESULTS).put)
    assert [port.peak_bytes_per_second / CORE.clock_hz for port in ports] == [8, 8]
    assert CORE.cores == 1


def test_the_cycles_of_a_product_by_hand():
    """Sums of 9 channels by 40 pixels are 9 x 3 vectors of 16; each is read, takes 64 terms and is
    written: 10 + 27 * (64 + 2).
    """
    call = PricedCall(MatrixProduct("n"), {"m": 9, "n": 40, "k": 64}, "f32")
    assert call_cycles(CORE, call, call_costs(CORE)) == 10 + 27 * 66


def test_tiles_pass_the_ports_while_the_core_computes():
    """With 64 terms of each of 9 taps computing hides the streams; a pooling waits for its port."""
    conv = Task((conv2d(batch=1, in_channels=64, out_channels=64, height=16, width=16, kernel=3,
                        padding=1, dtype="f32"), relu((1, 64, 16, 16), dtype="f32")),
                (False, True))  # fmt: skip
    pool = Task((Pool2d("max", 1, 64, 16, 16, (2, 2), (2, 2), dtype="f32"),), (False,))
    times = programs_of(CORE, "f32").times({conv: "conv", pool: "pool"})
    peak = conv.ops[0].flops / 32
    assert peak < times[conv].compute_cycles < times[conv].streamed_cycles < 1.15 * peak
    assert times[pool].streamed_cycles > 64 * 16 * 16 / 2 > 2 * times[pool].compute_cycles


@pytest.mark.parametrize("cores", [4])
def test_lenet5_by_programs(cores):
    """Every task computes from whole numbers what the reference makes of them; softmax rounds."""
    check_parts(network("lenet5", 1, dtype="f32"), cores, programs_of(CORE, "f32"))


def test_random_layers_by_programs():
    """Whole numbers in doubles, on a core that computes with them."""
    programs = programs_of(doubles(CORE), "f64")
    for seed in (0, 3):
        random_case(seed).check(programs.compute)


def test_shares_of_equal_extents_have_one_program():
    """conv1_1 of VGG-16 in strips: the first and the last have a border of zeros, and with it the
    extents of the others.
    """
    (layer, *_) = layers_of(network("vgg16", 1, dtype="f32"))
    (planned,) = fixed_plan([layer], 56, "output_tiles").layers
    tasks = {task for part in planned.division.parts for task in tasks_of(layer, part)}
    times = programs_of(CORE, "f32").times(dict.fromkeys(tasks, "conv1_1"))
    assert (len(tasks), len({id(time) for time in times.values()})) == (3, 1)


def test_a_transfer_waits_until_a_message_is_sent_and_has_made_a_hop():
    times = {"fabrics.grid.send_cycles": "30", "fabrics.grid.hop_cycles": "4"}
    engines = core_machine(load_machine("bwdsp-56", times)).engines
    assert {engine.latency_cycles for engine in engines.values()} == {34}


def test_a_part_that_fits_no_core_is_refused_by_its_layer_and_the_buffers_of_the_machine():
    product = Task((conv2d(batch=1, in_channels=8, out_channels=4, height=5, width=5, kernel=5,
                           dtype="f32"),), (False, True))  # fmt: skip
    buffers = core_machine(load_machine("bwdsp-56", {"memory.buffers.capacity_bytes": "60"}))
    main = core_machine(load_machine("bwdsp-56", {"memory.main.capacity_bytes": "1000"}))
    refused = []
    for core in (buffers, main):
        with pytest.raises(PartitionError) as error:
            programs_of(core, "f32").times({product: "c5"})
        refused.append(error.value.render())
    assert refused == [
        "error: layer c5: no tile of conv2d 1x8x5x5 -> 4, 5x5 s1 p0 fits: the smallest tiles of "
        "'implicit' take 32 bytes of the buffer of results, 32 of them for 'y', the limit is 20\n"
        "  fix: --set memory.buffers.capacity_bytes=96",
        "error: layer c5: implicit of conv2d 1x8x5x5 -> 4, 5x5 s1 p0 takes 4016 bytes of main "
        "memory, 3200 of them for 'w', the limit is 1000\n"
        "  fix: --set memory.main.capacity_bytes=4016",
    ]
