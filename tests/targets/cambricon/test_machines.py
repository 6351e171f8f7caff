"""The machines of the family: what their sources state, and what is a parameter."""

from __future__ import annotations

import pytest

from tilewright.common.errors import MachineError
from tilewright.isa import load_table
from tilewright.machine import describe, load_machine

PARAMETERS = {
    "memory.main.capacity_bytes", "memory.main.alignment_bytes", "engines.io.latency_cycles",
    "engines.io.get.bytes_per_cycle", "engines.io.put.bytes_per_cycle",
    "engines.io.get_matrix.bytes_per_cycle", "units.matrix_start", "units.vector_start",
    "units.divide_cycles", "units.transcendental_cycles",
    "units.fraction_bits",
}  # fmt: skip
"""Numbers that no source states."""


@pytest.mark.parametrize(("name", "in_flight"), [("cambricon-acc", 32), ("dla-al", 2)])
def test_the_machines_differ_in_what_is_in_flight(name: str, in_flight: int) -> None:
    issue = load_machine(name).issue
    assert issue is not None
    assert (issue.rule, issue.width, issue.in_flight, issue.freed) == (
        "window",
        2,
        in_flight,
        "in_order",
    )


def test_what_no_source_states_is_a_parameter_with_a_reason() -> None:
    sources = {key: source for key, _, source in describe(load_machine("cambricon-acc"))}
    assert {key for key, text in sources.items() if text.startswith("parameter: ")} == PARAMETERS


def test_the_scratchpads_of_machine_and_table_are_the_same() -> None:
    machine, table = load_machine("cambricon-acc"), load_table("cambricon")
    for memory in table.memories:
        assert machine.space(memory.name).capacity_bytes == memory.capacity_bytes


def test_a_matrix_unit_computes_what_the_core_is_said_to() -> None:
    with pytest.raises(MachineError) as caught:
        load_machine("dla-al", {"units.matrix_rows": 16})
    assert str(caught.value) == (
        "dla-al.toml: core.arithmetic.i16.flops_per_cycle: expected 2 * units.matrix_rows * "
        "units.matrix_columns = 1024, found 2048"
    )
