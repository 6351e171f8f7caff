"""What `explain` says of routines: their names in the code, prices and simulated cycles."""

from __future__ import annotations

import pytest
from msgspec import structs

from support.explicit_programs import GEMM, REPACK
from tilewright.codegen.artifact import ROUTINES
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.sw26010.code import CODE


@pytest.mark.parametrize("name", ["sw26010", "sw26010_measured"])
@pytest.mark.parametrize("text", [GEMM, REPACK], ids=["gemm", "repack"])
def test_every_routine_of_the_code_is_named_and_priced_as_it_runs(text: str, name: str) -> None:
    program, machine = parse(text), load_machine(name)
    files = CODE.emit(program, machine).files
    assembly = "\n".join(code for file, code in files.items() if file.endswith(".S"))
    found = ROUTINES.required(machine).routines(program, machine, simulated=True)
    assert found
    assert sum(code.count(".globl") for code in files.values()) == len(found)
    for routine in found:
        assert f"{routine.name}:" in assembly
        assert routine.priced_cycles == pytest.approx(routine.simulated_cycles, rel=0.08)


def test_a_machine_without_an_instruction_table_has_no_cycles_of_code() -> None:
    plain = load_machine("sw26010")
    machine = structs.replace(plain, core=structs.replace(plain.core, instruction_table=None))
    assert ROUTINES.required(machine).routines(parse(REPACK), machine, simulated=True) == ()
