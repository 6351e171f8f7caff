"""The descriptions of the CNS-1: variants differ as the report says, contradictions are refused."""

import pytest

from tilewright.common.errors import MachineError
from tilewright.machine import load_machine
from tilewright.targets.cns1.sections import Messages, Rdram


@pytest.mark.parametrize(
    ("name", "nodes", "line_bytes", "open_bytes", "megabytes"),
    [
        ("cns1-128", 128, 1024, 16 << 10, 8),
        ("cns1-128-18mb", 128, 2048, 32 << 10, 32),
        ("cns1-1024", 1024, 1024, 16 << 10, 8),
        ("cns1-1024-18mb", 1024, 2048, 32 << 10, 32),
    ],
)
def test_variants(name, nodes, line_bytes, open_bytes, megabytes):
    machine = load_machine(name)
    rdram = machine.section(Rdram)
    assert machine.cores == nodes
    assert (rdram.chips, rdram.line_bytes, rdram.open_bytes) == (16, line_bytes, open_bytes)
    assert machine.main.capacity_bytes == megabytes << 20
    assert machine.peak_flops_of("i16") == nodes * 2e9  # 1 GMAS a node, section 5.1
    assert machine.scratchpad_bytes == 4096  # the data cache, Table 2.1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "memory.rdram.port_block_bytes",
            "64",
            "memory.rdram.chip_block_bytes: expected ports * port_block_bytes = 256, found 128",
        ),
        (
            "memory.rdram.line_bytes",
            "1000",
            "memory.rdram.line_bytes: expected a multiple of port_block_bytes = 32, found 1000",
        ),
        (
            "memory.rdram.read_hit_ns",
            "2147483648",
            "memory.rdram.read_hit_ns: expected a number <= 10000.0, found 2147483648.0",
        ),
        (
            "messages.hidden_sharers",
            "7",
            "messages.hidden_sharers: expected a divisor of fabrics.torrents.columns = 32, found 7",
        ),
        (
            "core.vectors.length",
            "16",
            "core.vectors.length: expected 32, as the instructions of a Torrent have it, found 16",
        ),
        (
            "core.vectors.registers",
            "4",
            "core.vectors.registers: expected 32, as the instructions of a Torrent have it, "
            "found 4",
        ),
        (
            "core.vectors.multiply_accumulate",
            "7",
            "core.vectors.multiply_accumulate: expected 0 or 1, as the instructions of a Torrent "
            "have it, found 7",
        ),
        (
            "core.vectors.scalar_registers",
            "2",
            "core.vectors.scalar_registers: expected 0 or 32, as the instructions of a Torrent "
            "have it, found 2",
        ),
        (
            "core.registers",
            "8",
            "core.registers: expected 32, as the instructions of a Torrent have it, found 8",
        ),
        (
            "core.arithmetic.i16.vector_lanes",
            "4",
            "core.arithmetic.i16.vector_lanes: expected 8, as the instructions of a Torrent have "
            "it, found 4",
        ),
        (
            "memory.rdram.refresh_ns",
            "2e6",
            "memory.rdram.refresh_ns: expected less than refresh_interval_ns = 1.024e+06, "
            "found 2e+06",
        ),
        ("memory.main.banks", "2", "memory.main.banks: expected memory.rdram.ports = 4, found 2"),
        (
            "memory.caches.data_line_bytes",
            "64",
            "memory.caches.data_line_bytes: expected memory.cache.alignment_bytes = 32, found 64",
        ),
    ],
)
def test_contradictions_are_refused(key, value, message):
    with pytest.raises(MachineError) as caught:
        load_machine("cns1-128", {key: value})
    assert caught.value.message == message


def test_groups_of_hidden_nodes_follow_the_report():
    assert load_machine("cns1-128").section(Messages).hidden_sharers == 8
    assert load_machine("cns1-1024").section(Messages).hidden_sharers == 16
