"""Numbers of a machine file that the code of the cores does not follow are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.common.errors import MachineError
from tilewright.machine import load_machine
from tilewright.machine.build import stored_machine
from tilewright.machine.model import document_of

TIMING = ("call", "row", "block", "sweep", "row_sweep")


def refusal(machine: str, settings: dict[str, str] | None = None) -> str:
    with pytest.raises(MachineError) as caught:
        load_machine(machine, settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            "primitives.gemm.register_block_vectors",
            "2",
            "primitives.gemm.register_block_vectors: expected 4, the register block of the cores' "
            "matrix routine, found 2",
        ),
        (
            "primitives.gemm.register_block_scalars",
            "8",
            "primitives.gemm.register_block_scalars: expected 4, the register block of the cores' "
            "matrix routine, found 8",
        ),
        (
            "core.registers",
            "16",
            "core.registers: expected 32, which core.instruction_table = 'sw26010_cpe' has, "
            "found 16; another takes a table of its own",
        ),
        (
            "core.instruction_cache_bytes",
            "4096",
            "core.instruction_cache_bytes: expected 16384, which core.instruction_table = "
            "'sw26010_cpe' has, found 4096; another takes a table of its own",
        ),
        *(
            (
                "core.instruction_table",
                name,
                "core.instruction_table: expected one of sw26010_cpe, sw26010_cpe_measured, for "
                f"whose instructions the routines are written, found '{name}'",
            )
            for name in ("cambricon", "nothing")
        ),
    ],
)
def test_what_the_routines_have_a_copy_of_is_no_other_number(
    key: str, text: str, message: str
) -> None:
    assert refusal("sw26010", {key: text}) == f"sw26010.toml: {message}"


def test_vectors_have_the_lanes_of_the_routines() -> None:
    eight = {"core.vector_lanes": "8", "primitives.gemm.lanes": "8"}
    assert refusal("sw26010", eight) == (
        "sw26010.toml: core.vector_lanes: expected 4 lanes, as the routines have, found 8"
    )


def test_partial_blocks_are_refused_on_one_core_too() -> None:
    one = {"mesh.rows": "1", "mesh.columns": "1", "primitives.gemm.partial_blocks": "true"}
    assert refusal("sw26010", one) == (
        "sw26010.toml: primitives.gemm.partial_blocks: expected false, since the matrix routine of "
        "the cores takes a product of whole blocks a call, found true"
    )


def test_a_file_does_not_say_what_the_routine_of_the_cores_takes(tmp_path: Path) -> None:
    keys = [f"{name}_cycles" for name in TIMING] + ["cycles_per_k"]
    values = "\n".join(f"{key} = 1" for key in keys)
    sources = "\n".join(f'"primitives.gemm.f64.{key}" = "a guess"' for key in keys)
    path = tmp_path / "own.toml"
    path.write_text(
        f'base = "sw26010"\nname = "own"\ndescription = ""\n[primitives.gemm.f64]\n{values}\n'
        f"[sources]\n{sources}\n"
    )
    assert refusal(str(path)) == (
        f"{path}: primitives.gemm.f64: expected none, since the cycles of the matrix routine are "
        "those of its code with core.instruction_table = 'sw26010_cpe', found a table"
    )


def test_what_an_older_version_stored_is_read_as_it_is() -> None:
    document = document_of(load_machine("sw26010"))
    document["core"] = {**document["core"], "registers": 16}  # type: ignore[dict-item]  # a table
    assert stored_machine(document).core.registers == 16
