"""What no schedule of a layer goes below, as the page on a Cambricon derives it."""

from functools import cache
from math import ceil, inf

import pytest

from tilewright.machine import Machine, load_machine
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.dla_al.versions import AUTOMATIC, Version, version_cycles
from tilewright.targets.cambricon.instructions import instruction_cycles
from tilewright.targets.cambricon.sections import Units

MACHINE = load_machine(PAPER_MACHINE)
ELEMENT = 2
"""Bytes of an element."""


def least_cycles(machine: Machine, inputs: int, outputs: int) -> tuple[int, int]:
    """(what a layer of one image takes at least, what its weights alone do without latency).

    Of n loads of weights two neighbours have the scratchpad at most, or the product on what the
    second overwrites stands between them: n * room >= 2 * weights - room - overwritten. Besides,
    the input comes, and behind the last weights one product and the last results.
    """
    units, room = machine.section(Units), machine.space("matrix").capacity_bytes
    weights = inputs * outputs * ELEMENT
    latency = _cycles("mload", size=0)
    rate = (_cycles("mload", size=room // ELEMENT) - latency) / room
    product = 1 / (units.matrix_rows * units.matrix_columns * ELEMENT)
    assert latency / room < product, "overwriting saves less latency than its product takes"
    loads = ceil(2 * weights / room - 1)
    ends = _cycles("vload", size=inputs) + _cycles("mmv", out_size=1, in_size=1) + latency
    return int(weights * rate + loads * latency + ends), int(weights * rate)


def _cycles(mnemonic: str, **sizes: int) -> int:
    return int(instruction_cycles(MACHINE, mnemonic, **sizes))


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "least", "seen"),
    [
        ("fc1", 9216, 4096, 1.065, 1.069),
        ("fc2", 4096, 4096, 1.067, 1.070),
        ("fc3", 4096, 1024, 1.071, 1.083),
    ],
)
def test_fully_connected_layers_are_near_the_bound(
    name: str, inputs: int, outputs: int, least: float, seen: float
) -> None:
    bound, transfer = least_cycles(MACHINE, inputs, outputs)
    cycles = version_cycles(Version(name, AUTOMATIC))
    assert bound / transfer == pytest.approx(least, abs=1e-3)
    assert bound <= cycles
    assert cycles / transfer == pytest.approx(seen, abs=1e-3)


def test_a_response_norm_is_near_what_its_vector_instructions_take() -> None:
    """A square, and of its sum with neighbours two steps before the logarithm, one between that and
    the exponential, and the product behind: each takes all elements.
    """
    elements, lanes = 27 * 27 * 256, MACHINE.core.lanes("i16")
    steps = ("vmv", "vmv", "vas", "vlog", "vmv", "vexp", "vmv")
    bound = sum(_cycles(step, size=elements) for step in steps)
    cycles = version_cycles(Version("lrn", AUTOMATIC))
    assert bound * lanes / elements == pytest.approx(37.0, abs=0.01)
    assert bound <= cycles
    assert cycles * lanes / elements == pytest.approx(42.05, abs=0.01)


def least_cycles_of_tiles(outputs: int, depth: int, pixels: int) -> int:
    """Cycles that a product for each pixel on each tile of weights takes at least, where the
    weights of a tile come in one load: of all tiles of whole blocks of outputs.

    Two neighbouring tiles have to fit for a load to have products beside it, and then has two: one
    in flight before it, and one behind it, whose slot is freed in order.
    """
    rows, room = MACHINE.section(Units).matrix_rows, MACHINE.space("matrix").capacity_bytes
    most, count = room // (depth * ELEMENT * rows), outputs // rows
    load = [_cycles("mload", size=blocks * rows * depth) for blocks in range(most + 1)]
    product = [_cycles("mmv", out_size=n * rows, in_size=depth) for n in range(most + 1)]

    @cache
    def least(left: int, before: int) -> float:
        if left == 0:
            return 0
        found = inf
        for own in range(1, min(left, most) + 1):
            beside = 2 * product[before] if before and before + own <= most else 0
            cycles = max(load[own] - beside, 0) + pixels * product[own]
            found = min(found, cycles + least(left - own, own))
        return found

    return int(least(count, 0))


def test_weights_in_parts_take_fewer_cycles_than_any_in_one_load_for_a_tile() -> None:
    """The first layer of Table 2: 49 pixels of 512 channels, 2,048 outputs."""
    matrix = 49 * 512 * 2048 // MACHINE.section(Units).matrix_rows ** 2
    bound, cycles = (
        least_cycles_of_tiles(2048, 512, 49),
        version_cycles(Version("conv1", AUTOMATIC)),
    )
    assert bound / matrix == pytest.approx(1.190, abs=1e-3)
    assert cycles < bound
    assert cycles / matrix == pytest.approx(1.144, abs=1e-3)


def least_cycles_of_pools(side: int, channels: int, parts: int) -> int:
    """Cycles that the largest of windows of 2 x 2 take at least, where a row of an image comes in
    so many parts, two rows of which one instruction takes, and then one each window.

    Two instructions at most run beside a transfer: one in flight before it, and one behind it,
    whose slot is freed in order. One on two rows is behind a transfer and before the next, or
    longer than the one beside it. Nothing is beside the first two loads and the last store. Where
    there is no room for a result beside two rows, no transfer is beside the instruction on these,
    and windows alone are beside transfers.
    """
    part = side // parts * channels
    loads, stores, windows = side * parts, side // 2 * parts, (side // 2) ** 2
    load, store = _cycles("vload", size=part), _cycles("vstore", size=part // 2)
    on_rows, on_window = (_cycles("vgtm", size=size) for size in (part, channels))
    beside = 2 * (loads + stores - 3)
    if (2 * part + part // 2) * ELEMENT > MACHINE.space("vector").capacity_bytes:
        return loads * load + stores * (store + on_rows) + (windows - beside) * on_window
    alone = (windows + stores - beside) * on_window
    return loads * load + stores * store + alone + stores * min(on_window, on_rows - load)


@pytest.mark.parametrize(
    ("name", "side", "channels", "least", "seen"),
    [
        ("pool1", 28, 512, (1.787, 1.501, 1.778), 1.519),
        ("pool2", 56, 256, (1.932, 1.670, 2.031), 1.680),
    ],
)
def test_pools_are_near_what_two_operations_in_flight_allow(
    name: str, side: int, channels: int, least: tuple[float, ...], seen: float
) -> None:
    """In whole rows, halves and thirds, and more parts have more transfers; halves are taken."""
    vector = 3 * (side // 2) ** 2 * channels // MACHINE.core.lanes("i16")
    bounds = [least_cycles_of_pools(side, channels, parts) for parts in (1, 2, 3)]
    cycles = version_cycles(Version(name, AUTOMATIC))
    assert [bound / vector for bound in bounds] == pytest.approx(least, abs=1e-3)
    assert bounds[1] <= cycles
    assert cycles / vector == pytest.approx(seen, abs=1e-3)


@pytest.mark.parametrize(("name", "side", "channels"), [("pool1", 28, 512), ("pool2", 56, 256)])
def test_pools_take_what_the_bound_says_behind_their_first_part(
    name: str, side: int, channels: int
) -> None:
    """Left are 200 cycles at most, whatever the size: the instructions of the first part, whose
    rows come before all else, and of the last one, beside which nothing is loaded.
    """
    cycles = version_cycles(Version(name, AUTOMATIC))
    assert 0 <= cycles - least_cycles_of_pools(side, channels, 2) <= 200
