"""Figures of a machine description: rates, numbers of parts, memories, by hand."""

from __future__ import annotations

import pytest
from msgspec import NODEFAULT, Struct, structs

from tilewright.common.errors import MachineError
from tilewright.machine import describe, load_machine, model, parts
from tilewright.machine.load import fitted_variant
from tilewright.machine.parts import Direction, Engine


def test_rates_are_of_all_cores_threads_and_groups():
    machine = load_machine("sw26010")
    assert machine.cores == 64
    assert machine.peak_flops == 4 * 64 * 8 * 1.45e9
    assert load_machine("sw26010_cg").peak_flops == 64 * 8 * 1.45e9
    threads = load_machine("host", {"threads.count": 3})
    assert threads.peak_flops_of("f32") == 3 * 32 * threads.clock_hz
    assert threads.thread_count == 3
    assert machine.thread_count == 1


def test_parts_are_counted_by_what_has_them():
    machine = load_machine("sw26010")
    assert [machine.instances(scope) for scope in ("core", "group", "machine")] == [256, 4, 1]
    dma = machine.dma
    assert machine.bytes_per_cycle(dma, dma.get) == pytest.approx(
        4 * dma.get.peak_bytes_per_second / 1.45e9
    )


def test_the_memories_of_a_core_are_added_up_without_a_main_memory_of_its_own():
    assert load_machine("sw26010").scratchpad_bytes == 65536
    node = load_machine("cns1-128")
    assert node.scratchpad_bytes == 4096
    assert (node.cores, node.of_one_program.cores) == (128, 1)
    assert load_machine("sw26010").of_one_program.cores == 64


def test_doubles_stand_in_for_single_precision_alone():
    core = load_machine("sw26010").core
    doubles = structs.replace(core, arithmetic={"f64": core.of("f64")})
    assert doubles.of("f32") == core.of("f64")
    with pytest.raises(MachineError) as caught:
        doubles.of("i8")
    assert str(caught.value) == "the cores do not compute in i8; take one of their types: f64"


def test_types_are_those_of_the_file_and_floats_of_half_the_size():
    node, group = load_machine("cns1-128").core, load_machine("sw26010_cg").core
    assert (node.usual_type, group.usual_type) == ("i16", "f64")
    assert "f32" in group.types
    assert "f32" not in node.types
    assert (group.lanes("f64"), group.lanes("f32"), group.lanes("i8")) == (4, 4, 32)
    assert (node.lanes("i16"), node.lanes("i8")) == (8, 32)


def test_a_vector_holds_one_element_at_least_of_a_type_that_is_only_moved():
    scalar = model.Core({"i8": model.Arithmetic(vector_lanes=1, flops_per_cycle=2)})
    assert [scalar.lanes(kind) for kind in ("i8", "i16", "f64", "bf16")] == [1, 1, 1, 1]
    wide = {**scalar.arithmetic, "f32": model.Arithmetic(vector_lanes=4, flops_per_cycle=8)}
    assert [model.Core(wide).lanes(kind) for kind in ("i8", "i16", "f64")] == [1, 8, 2]


def test_what_is_not_there_is_said_with_what_is():
    machine = load_machine("cns1-128")
    for kind, find in (("memory", machine.space), ("engine", machine.engine)):
        with pytest.raises(MachineError) as caught:
            find("spm")
        assert caught.value.message == f"machine 'cns1-128' has no {kind} 'spm'"
    assert machine.transfer_engine_name("cache") == "ports"
    joined = {None: "between main memory and", "get": "from main memory to"}
    for way, words in {**joined, "put": "to main memory from"}.items():
        with pytest.raises(MachineError) as caught:
            machine.transfer_engine_name("spm", way)
        assert caught.value.message == f"machine 'cns1-128' has no engine {words} 'spm'"
    assert list(machine.transfer_engines) == ["ports"]
    with pytest.raises(MachineError) as caught:
        _ = machine.direct_bytes_per_second
    assert caught.value.message == ("memory.main.direct_bytes_per_second of 'cns1-128' is missing")
    assert load_machine("sw26010").direct_bytes_per_second == 8e9


def test_transfers_take_the_engine_that_goes_their_way_or_the_only_one():
    ports, dma = load_machine("cns1-128"), load_machine("sw26010")
    assert ports.dma is ports.engines["ports"]
    several = structs.replace(dma, engines={**ports.engines, **dma.engines})
    assert several.dma is dma.engines["dma"]
    assert [several.transfer_engine_name(space) for space in ("cache", "spm")] == ["ports", "dma"]
    for machine, space in ((ports, "cache"), (dma, "spm")):
        assert {machine.transfer_engine_name(space, way) for way in (None, "get", "put")} == {
            "ports" if machine is ports else "dma"
        }


def test_a_description_says_numbers_with_their_sources_and_texts_that_are_given():
    said = {key: (value, source) for key, value, source in describe(load_machine("sw26010"))}
    assert said["mesh.rows"][0] == 8
    assert said["mesh.rows"][1]
    assert said["target"] == ("sw26010", "")
    assert "memory.spm.scope" not in said  # as usual
    assert all(source or isinstance(value, bool | str) for value, source in said.values())


def test_the_fitted_description_is_that_of_the_machine_as_it_comes():
    ideal = load_machine("sw26010")
    fitted = fitted_variant(ideal)
    assert fitted == load_machine("sw26010_measured")
    assert fitted_variant(fitted) is None
    assert fitted_variant(load_machine("sw26010_cg")) is None
    assert fitted_variant(load_machine("host")) is None
    assert fitted_variant(load_machine("sw26010", {"clock_hz": 1_000_000_000})) is None


def test_an_engine_of_which_nothing_is_said_adds_nothing_to_its_transfers():
    engine = Engine()
    overheads = engine.shared_block_overhead_transactions
    assert (engine.latency_cycles, engine.issue_cycles, overheads) == (0, 0, 0)
    assert (engine.transaction_bytes, engine.count, engine.limits) == (1, 1, None)


def test_what_a_description_leaves_out(golden):
    """The value of each key of a machine that may be left out."""
    kinds = [k for k in (*vars(parts).values(), *vars(model).values())
             if isinstance(k, type) and issubclass(k, Struct)]  # fmt: skip
    lines = [
        f"{kind.__name__}.{field.name} = {field.default!r}"
        for kind in sorted(set(kinds), key=lambda kind: kind.__name__)
        for field in structs.fields(kind)
        if field.default is not NODEFAULT
    ]
    golden("defaults.txt", "\n".join([*lines, ""]))


@pytest.mark.parametrize("ways", [(), ("get", "put")])
def test_a_direction_that_an_engine_lacks_is_refused_with_those_that_it_has(ways):
    engine = Engine(directions={way: Direction("main", "buffers", 1.0) for way in ways})
    with pytest.raises(MachineError) as refused:
        engine.direction("swap")
    known = ", ".join(ways) if ways else "none"
    assert str(refused.value) == f"the engine has no direction 'swap'; it has: {known}"
