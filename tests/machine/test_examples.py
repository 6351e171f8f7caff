"""The example machines: descriptions of machines that no family generates code for."""

import json
from pathlib import Path

import msgspec
import pytest

from tilewright.common.errors import MachineError
from tilewright.machine import describe, load_machine
from tilewright.machine.build import changed, stored_machine
from tilewright.machine.family import Capability
from tilewright.machine.model import document_of

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "machines").glob("*.toml"))

each = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def example(name: str, **overrides: object):
    file = next(file for file in EXAMPLES if file.stem == name)
    return load_machine(str(file), {key.replace("__", "."): v for key, v in overrides.items()})


def refusal(name: str, **overrides: object) -> str:
    with pytest.raises(MachineError) as caught:
        example(name, **overrides)
    return str(caught.value).partition(".toml: ")[2]


@each
def test_it_says_that_it_is_an_example_and_where_its_numbers_come_from(file):
    machine = load_machine(str(file))
    assert machine.name == file.stem
    assert machine.description.startswith("example, not validated: ")
    assert all(
        source for _, value, source in describe(machine) if not isinstance(value, str | bool)
    )


@each
def test_what_is_stored_of_it_is_the_machine(file):
    machine = load_machine(str(file))
    stored = stored_machine(json.loads(msgspec.json.encode(document_of(machine))))
    assert stored == machine
    assert stored.content_hash() == machine.content_hash()


@each
def test_it_has_no_family_and_lacks_what_a_family_brings_by_name(file):
    machine = load_machine(str(file))
    emits = Capability("code", ("emit",), "code generator")
    assert emits.of(machine) is None
    with pytest.raises(Exception, match=f"machine '{machine.name}' has no code generator"):
        emits.required(machine)


def test_the_published_peaks():
    assert example("xdna1").peak_flops_of("i8") == 16 * 512e9
    assert example("wormhole").peak_flops_of("bf16_lofi") == 64 * 4096e9
    assert example("gemmini").peak_flops_of("i8") == 512e9
    assert example("neuroncore_v2").peak_flops_of("bf16") / 2 == pytest.approx(92e12, rel=0.01)


def test_what_each_core_each_group_and_the_machine_have():
    machine = example("xdna1")
    assert [machine.instances(space.scope) for space in machine.memory.values()] == [1, 4, 16]
    shim, core = machine.engine("shim"), machine.engine("core_dma")
    assert machine.bytes_per_cycle(shim, shim.get) == 4 * 2 * 4
    assert machine.bytes_per_cycle(core, core.put) == 16 * 2 * 4


def test_bytes_per_cycle_follow_the_clock():
    fast = changed(example("xdna1"), {"clock_hz": 2_000_000_000})
    assert fast.engine("shim").get.peak_bytes_per_second == 2 * 4 * 2e9
    assert fast.engine("dram").get.peak_bytes_per_second == 15e9


def test_a_machine_without_a_part_names_those_that_it_has():
    with pytest.raises(MachineError) as caught:
        example("gemmini").space("spm")
    assert str(caught.value) == (
        "machine 'gemmini' has no memory 'spm'; it has: main, scratchpad, accumulator"
    )
    with pytest.raises(MachineError) as caught:
        example("gemmini").engine("dma")
    assert str(caught.value) == "machine 'gemmini' has no engine 'dma'; it has: load, store"
    with pytest.raises(MachineError) as caught:
        example("gemmini").core.of("f64")
    assert str(caught.value) == "the cores do not compute in f64; take one of their types: i8"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "memory.scratchpad.capacity_bytes",
            0,
            "memory.scratchpad.capacity_bytes: expected an integer >= 1, found 0",
        ),
        (
            "memory.accumulator.alignment_bytes",
            48,
            "memory.accumulator.alignment_bytes: expected a power of two, found 48",
        ),
        (
            "memory.main.scope",
            "chip",
            "memory.main.scope: expected one of core, group, machine, found 'chip'",
        ),
        (
            "engines.load.factors.reads",
            "dram",
            "engines.load.factors.reads: expected one of the memories main, scratchpad, "
            "accumulator, found 'dram'",
        ),
        (
            "core.arithmetic.i8.sums",
            "i33",
            "core.arithmetic.i8.sums: expected one of f64, f32, f16, bf16, i8, u8, i16, "
            "u16, i32, u32, i64, u64, bool or fixed "
            "point, as q8.8, found 'i33'",
        ),
        (
            "issue.rule",
            "magic",
            "issue.rule: expected one of waits, window, found 'magic'",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_key_expectation_and_finding(key, value, message):
    assert refusal("gemmini", **{key: value}) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "[engines.load.factors]",
            "engines.load.factors.bytes_per_cycle: expected it or "
            "engines.load.factors.peak_bytes_per_second, found both",
        ),
        (
            "[memory.scratchpad]",
            "unknown key memory.scratchpad.peak_bytes_per_second; "
            "did you mean direct_bytes_per_second?",
        ),
    ],
)
def test_a_line_too_many_is_refused(tmp_path, line, message):
    text = next(file for file in EXAMPLES if file.stem == "gemmini").read_text()
    path = tmp_path / "gemmini.toml"
    path.write_text(text.replace(line, f"{line}\npeak_bytes_per_second = 1e9"))
    with pytest.raises(MachineError) as caught:
        load_machine(str(path))
    assert str(caught.value) == f"{path}: {message}"


def test_a_memory_holds_factors_sums_or_anything(tmp_path):
    text = next(file for file in EXAMPLES if file.stem == "gemmini").read_text()
    path = tmp_path / "gemmini.toml"
    path.write_text(text.replace('["sums"]', '["results"]'))
    with pytest.raises(MachineError) as caught:
        load_machine(str(path))
    assert str(caught.value) == (
        f"{path}: memory.accumulator.holds: expected some of factors, sums, found 'results'"
    )
