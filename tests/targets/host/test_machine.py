"""The machine that is this computer: what it lacks and what it has that others lack."""

import pytest

from tilewright.common.errors import MachineError
from tilewright.machine import load_machine
from tilewright.targets.host.sections import Caches, has_halves


def test_it_has_caches_and_no_engine_of_its_own():
    machine = load_machine("host")
    assert machine.find_section(Caches) is not None
    assert machine.dma.synchronous
    assert machine.dma.limits is None
    assert machine.core.instruction_table is None
    assert machine.cores == 1


def test_single_precision_has_twice_the_lanes_and_twice_the_peak():
    machine = load_machine("host")
    assert machine.core.lanes("f32") == 2 * machine.core.lanes("f64")
    assert (
        machine.peak_flops_of("f32") == 2 * machine.peak_flops_of("f64") == 2 * machine.peak_flops
    )


@pytest.mark.parametrize(
    ("machine", "halves"), [("host", True), ("host_zen5", False), ("host_avx2", False)]
)
def test_half_a_vector_takes_half_the_time_where_one_whole_one_is_multiplied_a_cycle(
    machine, halves
):
    found = load_machine(machine)
    assert {has_halves(found, kind) for kind in ("f32", "f64")} == {halves}
    assert not has_halves(found, "i32")


def test_other_machines_have_one_peak_and_one_width():
    machine = load_machine("sw26010")
    assert machine.find_section(Caches) is None
    assert machine.core.lanes("f32") == machine.core.lanes("f64") == 4
    assert machine.peak_flops_of("f32") == machine.peak_flops


def test_caches_come_nearest_first():
    caches = load_machine("host").find_section(Caches)
    assert caches is not None
    sizes = [cache.capacity_bytes for cache in caches.levels]
    assert sizes == sorted(sizes)


def test_a_flag_is_changed_by_true_or_false():
    assert not load_machine("host", {"dma.synchronous": "false"}).dma.synchronous
    with pytest.raises(MachineError) as caught:
        load_machine("host", {"dma.synchronous": "1"})
    assert str(caught.value) == "--set: dma.synchronous: expected true or false, found '1'"


def test_a_cache_has_no_more_ways_than_bytes():
    with pytest.raises(MachineError) as caught:
        load_machine("host", {"memory.caches.l1.capacity_bytes": "7", "memory.caches.l1.ways": "9"})
    assert str(caught.value) == (
        "host.toml: memory.caches.l1.ways: expected at most capacity_bytes = 7, found 9"
    )


def test_ranges_of_model_numbers_are_ranges(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('base = "host"\nprocessor.models = ["16-31", "97"]\n')
    with pytest.raises(MachineError) as caught:
        load_machine(str(path))
    assert str(caught.value) == (
        f"{path}: processor.models: expected ranges such as 16-31, found '97'"
    )


def test_partial_blocks_need_a_mesh_of_one_core():
    with pytest.raises(MachineError) as caught:
        load_machine("host", {"mesh.rows": "2"})
    assert str(caught.value) == (
        "host.toml: primitives.gemm.partial_blocks: expected a mesh of one core, found 2 x 1"
    )


def test_an_unknown_key_of_an_optional_table_is_refused(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('base = "host"\n[memory.caches.l2]\ncapacity = 3\n')
    with pytest.raises(MachineError) as caught:
        load_machine(str(path))
    assert str(caught.value) == (
        f"{path}: unknown key memory.caches.l2.capacity; did you mean capacity_bytes?"
    )
