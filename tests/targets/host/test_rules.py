"""Rules of this computer: which algorithms are left out, how large buffers may be."""

from __future__ import annotations

import pytest
from msgspec import structs

from tilewright.ir.nodes import SCRATCHPAD
from tilewright.machine import load_machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.ops import conv2d, gemm
from tilewright.passes.lowering import lowering_of
from tilewright.targets.host.rules import RULES, _outdone
from tilewright.targets.host.sections import Caches

HOST = load_machine("host_avx2")
LANES, PIXELS = HOST.core.lanes("f32"), HOST.section(GemmPrimitive).register_block_scalars
COPIES, EVERY = {"explicit", "implicit"}, {"explicit", "implicit", "direct", "pointwise"}


@pytest.mark.parametrize(
    ("channels", "out", "groups", "width", "left_out"),
    [
        (LANES, LANES, LANES, 1, EVERY),
        (2 * LANES, 2 * LANES, 2 * LANES, 20, EVERY),
        (LANES - 1, LANES - 1, LANES - 1, 20, set()),
        (LANES, 2 * LANES, LANES, 20, set()),
        (4, 2 * LANES, 1, PIXELS, COPIES),
        (4, 2 * LANES, 1, PIXELS - 1, set()),
        (4, 2 * LANES + 1, 1, PIXELS, set()),
        (4, 2 * LANES, 2, PIXELS, COPIES),
        (4, 2 * LANES, 4, PIXELS, set()),
    ],
)
def test_products_of_one_channel_and_copies_of_pixels_are_left_out(
    channels: int, out: int, groups: int, width: int, left_out: set[str]
) -> None:
    """Where groups fill a vector; where a pixel's results are whole vectors, a row's a block."""
    op = conv2d(
        batch=1, in_channels=channels, out_channels=out, height=3, width=width, kernel=1,
        groups=groups, dtype="f32",
    )  # fmt: skip
    assert _outdone(op, HOST) == left_out


def test_products_have_all_their_algorithms() -> None:
    assert _outdone(gemm(64, 64, 64, dtype="f32"), HOST) == frozenset()


def test_buffers_take_half_of_a_threads_part_of_the_last_cache() -> None:
    last = HOST.section(Caches).l3.capacity_bytes
    for threads in (1, 4):
        machine = load_machine("host_avx2", {"threads.count": str(threads)})
        room = lowering_of(machine).buffer_bytes[SCRATCHPAD]
        assert room == max(machine.spm_available_bytes, last // 2 // threads)
    near = load_machine(
        "host_avx2", {"memory.caches.l3.capacity_bytes": str(HOST.spm_available_bytes)}
    )
    assert RULES.lowering(near).buffer_bytes[SCRATCHPAD] == near.spm_available_bytes


def test_operands_are_used_in_place_behind_caches_and_a_cores_own_copies_overlap_with_nothing() -> (
    None
):
    without = tuple(one for one in HOST.sections if not isinstance(one, Caches))
    plain = structs.replace(HOST, sections=without)
    assert [RULES.lowering(machine).in_place for machine in (HOST, plain)] == [True, False]
    assert HOST.dma.synchronous
    assert not RULES.lowering(HOST).overlap
