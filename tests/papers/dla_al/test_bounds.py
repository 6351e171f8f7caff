"""What no schedule of a layer goes below, as the page on a Cambricon derives it."""

from math import ceil

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
