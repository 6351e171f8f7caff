"""`host` is the computer at hand: its calibration, the shipped description that was measured on a
processor like it, or that for its vectors with the rates of a short probe."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.common.errors import ToolError
from tilewright.graph.weights import random_weights
from tilewright.machine import find_machine, load_machine
from tilewright.targets.host import location as this_computer
from tilewright.targets.host.calibrating import probe as probing
from tilewright.targets.host.calibrating.description import calibration_path
from tilewright.targets.host.calibrating.measure import Bandwidth
from tilewright.targets.host.calibrating.probe import Rates, probed_text
from tilewright.targets.host.detect import CacheLevel, HostDescription
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.location import description_of_host
from tilewright.targets.host.sections import Caches
from tilewright.targets.host.vectors.instruction_sets import (
    AVX2,
    AVX512,
    INSTRUCTION_SETS,
    PORTABLE,
)

CACHES = (
    CacheLevel(1, 49152, 12, 1),
    CacheLevel(2, 2**21, 16, 1),
    CacheLevel(3, 2**25, 15, 8),
)
UNKNOWN = HostDescription("Some Xeon", "GenuineIntel", "6", "143", 2, 2**34, CACHES, AVX512, ())
_READ = {2**14: 90.0, 2**20: 40.0, 2**24: 10.0, 2**27: 4.0}
READS = tuple(Bandwidth(size, rate, 0.0) for size, rate in _READ.items())
RATES = Rates(3e9, {"f32": 63.2, "f64": 31.7}, READS, (0.005, 0.06, 0.09), 0.5)
"""Twice the multiply-adds of the shipped machine `host`, its L2, half its L3 and main memory."""


@pytest.fixture
def configuration(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calibration_path()


def on(monkeypatch, host):
    monkeypatch.setattr(this_computer, "detect_host", lambda: host)


@pytest.mark.parametrize(
    ("isa", "vendor", "family", "model", "name"),
    [
        (AVX2, "AuthenticAMD", "25", "1", "host_avx2"),
        (AVX2, "AuthenticAMD", "25", "80", "host_avx2"),
        (AVX512, "AuthenticAMD", "25", "17", "host"),
        (AVX512, "AuthenticAMD", "25", "97", "host"),
        (AVX512, "AuthenticAMD", "26", "2", "host_zen5"),
    ],
)
def test_a_processor_like_one_that_was_measured_has_its_description(
    monkeypatch, configuration, isa, vendor, family, model, name
):
    on(
        monkeypatch,
        replace(UNKNOWN, vendor=vendor, family=family, model=model, instruction_set=isa),
    )
    assert description_of_host() == name
    assert instruction_set_of(find_machine("host")) == isa


@pytest.mark.parametrize("isa", INSTRUCTION_SETS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("model", ["143", "", "0xd0c"])
def test_another_one_is_probed_once_with_the_vectors_that_it_has(
    monkeypatch, configuration, isa, model
):
    on(monkeypatch, replace(UNKNOWN, model=model, instruction_set=isa))
    probes = []
    monkeypatch.setattr(probing, "probe", lambda host: probes.append(host) or RATES)
    machine = find_machine("host")
    assert (machine.name, machine.clock_hz) == ("host", 3e9)
    assert instruction_set_of(machine) == isa
    assert find_machine("host") == machine
    assert len(probes) == 1


def test_the_probed_description_is_the_shipped_one_at_the_rates_found(configuration, tmp_path):
    shipped, file = load_machine("host"), tmp_path / "host.toml"
    file.write_text(probed_text(UNKNOWN, shipped, RATES))
    machine = load_machine(str(file))
    assert machine.description == (
        "Some Xeon, probed at first use, load 0.5; `tilewright calibrate host` measures more"
    )
    assert machine.core.arithmetic["f32"].flops_per_cycle == 64
    assert machine.core.arithmetic["f64"].flops_per_cycle == 32
    after = machine.section(Caches)
    assert [level.capacity_bytes for level in after.levels] == [49152, 2**21, 2**25]
    assert [level.fill_bytes_per_cycle for level in after.levels] == [40.0, 10.0, 4.0]
    assert [level.exposed_cycles_per_byte for level in after.levels] == [0.005, 0.06, 0.09]
    assert machine.memory["spm"].capacity_bytes == 3 * 2**19
    slower = 3e9 * 10 / (3.64e9 * 20)
    get = machine.engines["dma"].directions["get"].peak_bytes_per_second
    assert get == pytest.approx(40e9 * slower, rel=1e-4)


def test_the_probe_finds_the_rates_of_this_computer(configuration):
    host = this_computer.detect_host()
    rates = probing.probe(host)
    lanes = host.instruction_set.vector_bytes // 4
    assert 1e8 < rates.clock_hz < 1e10
    assert rates.peaks["f32"] > lanes / 2
    assert rates.reads[0].bytes_per_cycle > rates.reads[-1].bytes_per_cycle
    assert len(rates.exposed) == len(host.caches)
    assert all(0 <= wait < 1 for wait in rates.exposed)


def test_without_a_compiler_the_shipped_description_is_taken_and_said(
    monkeypatch, configuration, caplog
):
    def no_compiler(host, base):
        raise ToolError("no C compiler is found")

    monkeypatch.setattr(this_computer, "probed_description", no_compiler)
    on(monkeypatch, replace(UNKNOWN, instruction_set=PORTABLE))
    with caplog.at_level(logging.WARNING):
        assert description_of_host() == "host_portable"
    assert caplog.messages == ["Some Xeon is taken as host_portable: no C compiler is found"]


def test_the_calibration_goes_first(configuration):
    configuration.parent.mkdir(parents=True)
    configuration.write_text(
        'base = "host_portable"\nname = "host"\nclock_hz = 1000000000\n'
        '[sources]\n"clock_hz" = "measured"\n'
    )
    assert find_machine("host").clock_hz == 1e9
    assert find_machine("host", {"clock_hz": 2e9}).clock_hz == 2e9


def test_other_names_are_what_they_are():
    assert find_machine("sw26010") == load_machine("sw26010")


def test_code_for_larger_caches_is_warned_of_once_with_what_it_costs(monkeypatch, caplog):
    on(monkeypatch, UNKNOWN)
    larger = {"memory.caches.l2.capacity_bytes": 2**22, "memory.caches.l1.capacity_bytes": 2**14}
    machine = load_machine("host", larger)
    level = machine.section(Caches).l2
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            this_computer.warn_of_smaller_caches(machine)
        this_computer.warn_of_smaller_caches(load_machine("host"))
    assert caplog.messages == [
        "host describes a level 2 cache of 4194304 bytes, this processor has 2097152: of what is "
        "blocked for it up to 2097152 bytes come from behind again and again, at most "
        f"{level.fill_bytes_per_cycle:g} a cycle and each for {level.exposed_cycles_per_byte:g} "
        "cycles of waiting; take --machine host, or `tilewright calibrate host`"
    ]


def test_what_runs_for_larger_caches_is_warned_of(caplog):
    machine = load_machine("host_portable", {"memory.caches.l2.capacity_bytes": 2**30})
    product, network = tw.ops.gemm(m=8, n=8, k=8, dtype="f32"), tw.load("perceptron", dtype="f32")
    ones = {name: np.ones((8, 8), np.float32) for name in "ab"}
    inputs = {t.name: np.ones(t.shape, np.float32) for t in network.inputs}
    weights = {"weights": random_weights(network)}
    for compiled, given in ((product, ones), (network, inputs | weights)):
        this_computer._warn_once.cache_clear()
        caplog.clear()
        tw.compile(compiled, machine=machine, measure=False).run(**given)
        (message,) = caplog.messages
        assert message.startswith("host_portable describes a level 2 cache of 1073741824 bytes")
