"""Time of plans, and tiles that do not fit."""

import pytest

from tilewright.common.errors import PartitionError
from tilewright.graph import network
from tilewright.machine import load_machine
from tilewright.partition.capacity import buffer_values, check_fits
from tilewright.partition.layers import layers_of
from tilewright.partition.plan import fixed_plan
from tilewright.partition.timing import layer_times, route

MACHINE = load_machine("bwdsp-56")
VGG = layers_of(network("vgg16", 1, dtype="f32"))


@pytest.mark.parametrize(
    ("source", "target", "links"),
    [
        (0, 3, [(0, 1), (1, 2), (2, 3)]),
        (17, 8, [(17, 16), (16, 8)]),
        (9, 9, []),
    ],
)
def test_messages_go_along_rows_first(source, target, links):
    assert route(MACHINE.fabrics["grid"], source, target) == links


def test_the_time_of_a_layer_by_hand():
    """conv1_2 in strips of four rows: both halos of a core, 2 x 224 x 64 values of 4 bytes, go
    through its port at 8 bytes a cycle; strips of neighbouring rows of cores are 8 links apart.
    """
    plan = fixed_plan(VGG[:2], 56, "output_tiles")
    _, second = layer_times(plan, MACHINE, "f32")
    assert second.compute_cycles == 2 * 64 * 64 * 9 * 4 * 224 / 32
    assert second.busiest_link_bytes == 2 * 224 * 64 * 4
    assert second.exchange_cycles == 20 + 8 * 2 + second.busiest_link_bytes / 8
    assert second.weights_cycles == 200 + 56 * (64 * 64 * 9 + 64) * 4 / 16
    assert second.messages == 110
    assert second.overlapped_cycles == second.compute_cycles
    assert second.steps_cycles == 2064384 + 14372 + 517192


def test_a_tile_that_does_not_fit_is_refused_with_the_smallest_grid_that_does():
    plan = fixed_plan(VGG, 56, "output_tiles")
    check_fits(plan, buffer_values(MACHINE, "f32"), "f32")
    with pytest.raises(
        PartitionError,
        match=r"^layer conv1_1: a core's part of a 1x1x56x1 grid takes 229376 bytes, a buffer has "
        r"131072; the smallest grid that fits is 1x1x14x7: 98 cores$",
    ):
        check_fits(plan, 32_768, "f32")
