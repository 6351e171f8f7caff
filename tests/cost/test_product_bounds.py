"""Tiles of a product against memories, and rooflines, by arithmetic done by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import CapacityError, MachineError
from tilewright.cost.product_bounds import Product, ProductTile, product_roofline, require_tile
from tilewright.machine import list_machines, load_machine

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "machines").glob("*.toml"))
MACHINES = {file.stem: load_machine(str(file)) for file in EXAMPLES} | {
    name: load_machine(name) for name in list_machines()
}
every_type = pytest.mark.parametrize(
    ("name", "element"),
    [(name, element) for name, m in MACHINES.items() for element in m.core.arithmetic],
)


def refusal(name: str, element: str, tile: ProductTile, memory: str | None = None) -> str:
    with pytest.raises(CapacityError) as caught:
        require_tile(MACHINES[name], element, tile, memory)
    return str(caught.value)


def test_a_refusal_names_the_memory():
    assert refusal("xdna1", "i8", ProductTile(128, 128, 128)) == (
        "tile m=128, n=128, k=128 needs 98,304 bytes of memory 'l1' (16,384 for a, 16,384 for b, "
        "65,536 for c), it has 64,512; a smaller tile, or --set memory.l1.capacity_bytes=99328"
    )


def test_sums_lie_beside_the_factors_where_a_memory_is_for_them():
    require_tile(MACHINES["gemmini"], "i8", ProductTile(128, 128, 1024))
    assert refusal("gemmini", "i8", ProductTile(256, 128, 64)) == (
        "tile m=256, n=128, k=64 needs 131,072 bytes of memory 'accumulator' (131,072 for c), it "
        "has 65,536; a smaller tile, or --set memory.accumulator.capacity_bytes=131072"
    )


def test_a_tile_of_one_memory_only():
    require_tile(MACHINES["xdna1"], "bf16", ProductTile(256, 256, 256), "memory_tile")
    assert "memory 'memory_tile'" in refusal(
        "xdna1", "bf16", ProductTile(512, 512, 512), "memory_tile"
    )
    with pytest.raises(MachineError, match="has no memory 'l9'"):
        require_tile(MACHINES["xdna1"], "bf16", ProductTile(1, 1, 1), "l9")


def test_one_request_is_no_more_than_a_descriptor_holds():
    machine = load_machine("sw26010", {"dma.limits.size_bytes": "8192"})
    with pytest.raises(CapacityError) as caught:
        require_tile(machine, "f64", ProductTile(32, 16, 64))
    assert str(caught.value) == (
        "operand a of a tile is one request of 16,384 bytes, a descriptor of engine 'dma' holds "
        "at most 8,192; a smaller tile"
    )


def test_each_core_fetches_its_own_tiles():
    tiles = {None: ProductTile(64, 64, 64), "memory_tile": ProductTile(256, 512, 64)}
    found = product_roofline(Product(512, 1024, 256, "bf16"), MACHINES["xdna1"], tiles)
    a, b, c = 512 * 256 * 2, 256 * 1024 * 2, 512 * 1024 * 2
    moved = {(level.reads, level.writes): level.bytes for level in found.levels}
    assert moved == {
        ("main", "memory_tile"): 2 * a + 2 * b,
        ("memory_tile", "l1"): 16 * a + 8 * b,
        ("l1", "memory_tile"): c,
        ("memory_tile", "main"): c,
    }


@every_type
def test_the_bound_is_the_slowest_and_the_rate_is_that_of_its_time(name, element):
    machine, product = MACHINES[name], Product(300, 200, 100, element)
    found = product_roofline(product, machine, {})
    times = {level.engine: level.cycles for level in found.levels} | {
        "compute": found.compute_cycles
    }
    assert found.cycles == max(found.compute_cycles, *(level.cycles for level in found.levels))
    assert found.bound in times
    assert found.flops_per_second * found.cycles == pytest.approx(product.flops * machine.clock_hz)
    assert found.flops_per_second <= found.peak_flops_per_second * (1 + 1e-12)


@given(st.sampled_from(sorted(MACHINES)), st.tuples(*[st.integers(1, 64)] * 3))
def test_a_larger_tile_never_needs_more_time(name, sizes):
    machine = MACHINES[name]
    product = Product(500, 400, 300, machine.core.usual_type)
    small, large = ProductTile(*sizes), ProductTile(*(2 * size for size in sizes))
    times = [product_roofline(product, machine, {None: tile}).cycles for tile in (small, large)]
    assert times[1] <= times[0]
