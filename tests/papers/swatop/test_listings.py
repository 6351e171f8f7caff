"""The lists of parameters: how many cases each reading has."""

from collections import Counter

from tilewright.machine import load_machine
from tilewright.papers.swatop.listings import (
    BATCHES,
    CHANNELS,
    PRINTED_SIZES,
    listing1,
    listing1_as_printed,
    listing2_aligned,
    listing2_unaligned,
)


def test_listing1_has_the_225_cases_of_the_text():
    assert Counter(op.batch for op in listing1()) == {1: 75, 32: 75, 128: 75}
    assert len(set(listing1())) == 225
    assert {op.out_height for op in listing1()} == {32, 64, 128}


def test_listing1_as_printed_has_180():
    printed = listing1_as_printed()
    assert Counter(op.batch for op in printed) == {1: 60, 32: 60, 128: 60}
    assert all(op.in_channels >= op.out_channels for op in printed)
    assert len(BATCHES) * len(CHANNELS) ** 2 * len(PRINTED_SIZES) == 300


def test_only_the_sizes_of_the_225_fit_main_memory():
    machine = load_machine("sw26010")
    capacity = machine.groups.count * machine.main.capacity_bytes

    def image_bytes(op):
        return 8 * op.batch * (op.in_channels + op.out_channels) * op.height * op.width

    assert (
        max(map(image_bytes, listing1())) < capacity < max(map(image_bytes, listing1_as_printed()))
    )


def test_listing2_has_the_cases_that_table_2_counts():
    assert len(set(listing2_unaligned())) == 216 == 207 + 9
    assert len(set(listing2_aligned())) == 343 == 250 + 93
