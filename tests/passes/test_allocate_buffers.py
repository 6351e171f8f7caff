"""Addresses of buffers: apart while both are alive, shared where a barrier parts them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import CapacityError
from tilewright.common.expr import Const
from tilewright.ir.nodes import Barrier, Buffer, Program, Stmt, Wait
from tilewright.passes.allocate_buffers import AllocateBuffers, bytes_on_a_core

UNIT_BYTES = 8


def placed(sizes: list[int], uses: list[set[int]], limit_bytes: int) -> Program:
    """Buffers of so many bytes, with addresses; each part waits for the buffers that it names."""
    buffers = tuple(Buffer(f"b{i}", "i8", Const(size)) for i, size in enumerate(sizes))
    body: list[Stmt] = []
    for number, part in enumerate(uses):
        body += [Barrier()] if number else []
        body += (Wait(f"b{i}", Const(0)) for i in sorted(part))
    program = Program("p", (), (), buffers, tuple(body))
    return AllocateBuffers({"spm": limit_bytes}, {"spm": UNIT_BYTES}).apply(program)


def addresses(program: Program) -> dict[str, int | None]:
    return {b.name: b.offset_bytes for b in program.buffers}


def test_buffers_of_one_part_follow_each_other_and_start_anew_behind_a_barrier() -> None:
    found = placed([16, 20, 40], [{0, 1}, {2}], 40)
    assert addresses(found) == {"b0": 0, "b1": 16, "b2": 0}


def test_a_buffer_keeps_its_address_across_barriers() -> None:
    """It is alive in the part between those that use it; what needs less room goes below it."""
    found = placed([8, 16, 24, 4, 16], [{0, 1}, {2, 3}, {1, 4}], 48)
    assert addresses(found) == {"b0": 0, "b1": 8, "b2": 24, "b3": 0, "b4": 24}
    with pytest.raises(CapacityError) as error:
        placed([8, 16, 24, 4, 16], [{0, 1}, {2, 3}, {1, 4}], 47)
    assert str(error.value) == (
        "the buffers take 48 bytes of scratchpad, the limit is 47; the largest is 'b2' with 24 "
        "bytes; free 1 bytes: a smaller tile or a single copy of 'b2'"
    )


@given(st.data(), st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 4))
def test_buffers_that_are_alive_together_are_apart(
    data: st.DataObject, sizes: list[int], parts: int
) -> None:
    numbers = st.sets(st.integers(0, len(sizes) - 1))
    uses = data.draw(st.lists(numbers, min_size=parts, max_size=parts))
    program = placed(sizes, uses, 1 << 20)
    for one, other in combinations(program.buffers, 2):
        lives = []
        for buffer in (one, other):
            own = [n for n, part in enumerate(uses) if int(buffer.name[1:]) in part]
            lives.append({*range(own[0], own[-1] + 1)})
        if lives[0] & lives[1]:
            low, high = sorted((one, other), key=lambda b: b.offset_bytes or 0)
            assert (low.offset_bytes or 0) + bytes_on_a_core(low) <= (high.offset_bytes or 0)
    assert all((b.offset_bytes or 0) % UNIT_BYTES == 0 for b in program.buffers)
