"""Bytes of buffers: near a core, and those that may wait in the last cache."""

from __future__ import annotations

import pytest

from support.packed_product import PRODUCT
from tilewright.cost.buffers import scratchpad_bytes
from tilewright.cost.prices import prices_of
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.host.cost.buffers import waiting_bytes

HOST, SCRATCHPADS = load_machine("host_avx2"), load_machine("sw26010")
A, PANEL = 64 * 256 * 4, 16 * 256 * 4


def test_all_panels_but_one_may_wait_where_there_are_caches() -> None:
    program = parse(PRODUCT)
    assert scratchpad_bytes(program, {"n": 1024}) == A + 64 * PANEL
    assert waiting_bytes(program, HOST, {"n": 1024}) == 63 * PANEL


@pytest.mark.parametrize(("n", "fits"), [(256, True), (4096, True), (2**15, False)])
def test_panels_that_wait_have_room_in_half_of_the_last_cache(n: int, fits: bool) -> None:
    program = parse(PRODUCT)
    assert bool(prices_of(HOST).has_room(program, HOST, {"n": n})) == fits
    assert not prices_of(SCRATCHPADS).has_room(program, SCRATCHPADS, {"n": n})
