"""Effects of instructions, against NumPy and Python integers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import CoreRun
from tilewright.simulate.units.layout import core_dtype

Assemble = Callable[..., AssembledProgram]
int64 = st.integers(-(2**63), 2**63 - 1)
X, Y, Z = [1.5, -2.0, 0.1, 1e300], [3.0, 0.25, -7.0, 1e-3], [0.5, 8.0, 1 / 3, -1.0]


def _run(assemble: Assemble, text: str, **registers: object) -> CoreRun:
    given = {f"${name[1:]}": value for name, value in registers.items()}
    return simulate_core(assemble(text), registers=given, trace=False)  # type: ignore[arg-type]


def _wrap(value: int, bits: int) -> int:
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


INTEGER = {
    "addl": lambda a, b: _wrap(a + b, 64),
    "subl": lambda a, b: _wrap(a - b, 64),
    "addw": lambda a, b: _wrap(a + b, 32),
    "subw": lambda a, b: _wrap(a - b, 32),
    "mull": lambda a, b: _wrap(a * b, 64),
    "mulw": lambda a, b: _wrap(a * b, 32),
    "s4addl": lambda a, b: _wrap(4 * a + b, 64),
    "s8addl": lambda a, b: _wrap(8 * a + b, 64),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "sll": lambda a, b: _wrap(a << (b & 63), 64),
    "srl": lambda a, b: _wrap((a % 2**64) >> (b & 63), 64),
    "sra": lambda a, b: a >> (b & 63),
    "cmpeq": lambda a, b: int(a == b),
    "cmplt": lambda a, b: int(a < b),
    "cmple": lambda a, b: int(a <= b),
}


@examples(60)
@given(a=int64, b=st.one_of(int64, st.integers(-3, 70)))
def test_integers_wrap_like_two_complement(assemble: Assemble, a: int, b: int) -> None:
    text = "\n".join(f"{m} $28, $29, ${i}" for i, m in enumerate(INTEGER, 1))
    run = _run(assemble, text, r28=a, r29=b)
    results = run.integer_registers[1 : len(INTEGER) + 1, 0].tolist()
    assert results == [function(a, b) for function in INTEGER.values()]


def test_literals_and_addresses(assemble: Assemble) -> None:
    run = _run(assemble, "addl $1, 255, $2\nldi $3, -8($1)\nldih $4, -2($1)\nmov $4, $5", r1=100)
    assert run.integer_registers[2:6, 0].tolist() == [355, 92, 100 - 2 * 65536, 100 - 2 * 65536]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vaddd $1, $2, $4", np.add(X, Y)),
        ("vsubd $1, $2, $4", np.subtract(X, Y)),
        ("vmuld $1, $2, $4", np.multiply(X, Y)),
        ("vdivd $1, $2, $4", np.divide(X, Y)),
        ("vadds $2, $3, $4", np.add(Y, Z).astype("f4")),
    ],
)
def test_vectors_work_lane_by_lane(assemble: Assemble, line: str, expected: np.ndarray) -> None:
    run = _run(assemble, line, r1=X, r2=Y, r3=Z)
    assert run.registers[4].tolist() == np.asarray(expected, float).tolist()


def test_multiply_add_rounds_once_and_its_signs(assemble: Assemble) -> None:
    # 0.1 * 10 - 1 is 2**-54 with one rounding, 0 with two.
    lines = ["vmad", "vmsd", "vnmad", "vnmsd"]
    text = "\n".join(f"{m} $1, $2, $3, ${i}" for i, m in enumerate(lines, 4))
    run = _run(assemble, text, r1=[0.1, 2.0], r2=[10.0, 3.0], r3=[-1.0, 1.0])
    assert run.registers[4:8, 0].tolist() == [2.0**-54, 2.0, -2.0, -(2.0**-54)]
    assert run.registers[4:8, 1].tolist() == [7.0, 5.0, -5.0, -7.0]


def test_square_root_and_division_by_zero(assemble: Assemble) -> None:
    run = _run(assemble, "vsqrtd $1, $2\nvdivd $1, $31, $3", r1=[4.0, -1.0, 0.0, math.inf])
    assert run.registers[2, 0] == 2.0
    assert math.isnan(run.registers[2, 1])
    assert run.registers[3, [0, 1, 3]].tolist() == [math.inf, -math.inf, math.inf]
    assert math.isnan(run.registers[3, 2])


def test_comparisons_give_a_mask_that_selections_take(assemble: Assemble) -> None:
    """2.0 where it holds, 0.0 where it does not, as where something is no number."""
    a, b = [1.0, 2.0, 3.0, math.nan], [2.0, 2.0, 2.0, 2.0]
    compared = {"vfcmpeq": [0, 2, 0, 0], "vfcmplt": [2, 0, 0, 0], "vfcmple": [2, 2, 0, 0]}
    text = "\n".join(f"{m} $1, $2, ${i}" for i, m in enumerate(compared, 4))
    run = _run(assemble, text, r1=a, r2=b)
    assert run.registers[4:7].tolist() == list(compared.values())
    selected = {"vseleq": [3, 1, 3, 3], "vsellt": [1, 3, 3, 3], "vselle": [1, 1, 3, 3]}
    text = "\n".join(f"{m} $1, $2, $3, ${i}" for i, m in enumerate(selected, 4))
    run = _run(assemble, text, r1=[-1.0, -0.0, 1.0, math.nan], r2=[1.0] * 4, r3=[3.0] * 4)
    assert run.registers[4:7].tolist() == list(selected.values())


def test_lanes_are_inserted_extracted_and_shuffled(assemble: Assemble) -> None:
    text = """
        vinsf $1, $2, 2, $3
        vextf $2, 3, $4
        vshff $1, $2, 27, $5
        vinsw $6, $31, 5, $7
        vextw $7, 5, $8
    """
    run = _run(assemble, text, r1=X, r2=Y, r6=-5)
    assert run.registers[3].tolist() == [Y[0], Y[1], X[0], Y[3]]
    assert run.registers[4, 0] == Y[3]
    # 27 = 0b00_01_10_11: lanes 3, 2 of the second operand, then lanes 1, 0 of the first.
    assert run.registers[5].tolist() == [Y[3], Y[2], X[1], X[0]]
    assert run.integer_registers[8, 0] == -5


def test_loads_and_stores(assemble: Assemble) -> None:
    text = """
        ldw $1, 4($31)
        ldl $2, 8($31)
        ldde $3, 16($31)
        vldd $4, 32($31)
        vlds $5, 64($31)
        ldse $6, 68($31)
        vstd $4, 96($31)
        vsts $4, 128($31)
        stw $1, 144($31)
        stl $2, 152($31)
    """
    memory = np.zeros(80, "u1")
    memory[4:8].view("i4")[:] = -7
    memory[8:16].view("i8")[:] = 2**40
    memory[16:64].view("f8")[:] = [2.5, 0, 1, 2, 3, 0.1]
    memory[64:80].view("f4")[:] = [1, 2, 3, 0.1]
    run = simulate_core(assemble(text), local_memory=memory)
    assert run.integer_registers[[1, 2], 0].tolist() == [-7, 2**40]
    assert run.registers[3].tolist() == [2.5] * 4
    assert run.registers[5].tolist() == [1.0, 2.0, 3.0, float(np.float32(0.1))]
    assert run.registers[6].tolist() == [2.0] * 4
    stored = run.local_memory
    assert stored[96:128].view("f8").tolist() == [1, 2, 3, 0.1]
    assert stored[128:144].view("f4").tolist() == [1.0, 2.0, 3.0, float(np.float32(0.1))]
    assert stored[144:148].view("i4")[0] == -7
    assert stored[152:160].view("i8")[0] == 2**40


@pytest.mark.parametrize(
    ("branch", "taken_for"),
    [
        ("beq", (0,)),
        ("bne", (-1, 1)),
        ("blt", (-1,)),
        ("ble", (-1, 0)),
        ("bgt", (1,)),
        ("bge", (0, 1)),
    ],
)
def test_branches(assemble: Assemble, branch: str, taken_for: tuple[int, ...]) -> None:
    text = f"{branch} $1, end\nldi $2, 1($31)\nend:\nnop"
    taken = [v for v in (-1, 0, 1) if _run(assemble, text, r1=v).integer_registers[2, 0] == 0]
    assert tuple(taken) == taken_for


def test_views_of_a_core_s_bytes_share_all_of_them() -> None:
    """What is stored as one kind of number is loaded as another, up to the last byte."""
    sizes: dict[int, set[int]] = {}
    for kind, offset, *_ in core_dtype(40, 4, 2, 4, 1000, 1).fields.values():
        sizes.setdefault(offset, set()).add(kind.itemsize)
    assert all(len(own) == 1 for own in sizes.values())
    ends = [offset + max(own) for offset, own in sorted(sizes.items())]
    assert ends[:-1] == sorted(sizes)[1:]


def test_cores_of_alike_sizes_share_a_record_with_room_for_each() -> None:
    """Code compiled for the shipped core runs smaller ones, with other caches or none."""
    shipped = core_dtype(34, 4, 2, 4, 65536, 1024)
    assert core_dtype(26, 4, 1, 1, 4096, 0) == core_dtype(64, 4, 2, 16, 65536, 1) == shipped
    larger = core_dtype(65, 4, 3, 17, 65537, 1025)
    rooms = {"ready": 65, "busy": 3, "memory_byte": 65537, "tags": 1025}
    assert all(larger[name].shape[0] >= room for name, room in rooms.items())
    assert larger["arrival"].shape[1] >= 17
