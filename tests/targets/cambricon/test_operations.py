"""Results of operations, against the references of operators and exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.cambricon import TABLE, run
from support.examples import examples
from tilewright.machine import load_machine
from tilewright.ops.gemm import gemm
from tilewright.targets.cambricon.operations import OPERATIONS

MACHINE = load_machine("dla-al")
TYPES = "q8.8:q48.16:q8.8"
Elements = NDArray[np.int16]


def elements(seed: int, *shape: int) -> Elements:
    return np.random.default_rng(seed).integers(-2000, 2000, shape).astype(np.int16)


def vector(text: str, a: Elements, b: Elements, size: int) -> Elements:
    """Run one statement on $out = $1 with two vectors at $2 and $3 and the size in $4."""
    main = np.concatenate([a, b, np.zeros(size, np.int16)])
    out = len(a) + len(b)
    found = run(
        f"smove $1, #8000\nsmove $2, #0\nsmove $3, #4000\nsmove $4, #{size}\n"
        f"smove $5, #{len(a)}\nsmove $6, #{len(b)}\n"
        f"vload $2, $5, #0\nvload $3, $6, #{len(a)}\n{text}\nvstore $1, $4, #{out}",
        MACHINE,
        {"main": main},
    )
    return found.memories["main"][out:]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
@examples(25)
def test_products_are_those_of_the_reference(rows: int, columns: int, seed: int) -> None:
    matrix, inputs = elements(seed, rows, columns), elements(seed + 1, columns)
    expected = gemm(rows, 1, columns, dtype=TYPES).reference(matrix, inputs[:, None])[:, 0]
    for statement, stored in (("mmv", matrix), ("vmm", matrix.T)):
        main = np.concatenate([stored.reshape(-1), inputs, np.zeros(rows, np.int16)])
        size, end = matrix.size, matrix.size + columns
        found = run(
            f"smove $1, #0\nsmove $2, #{size}\nsmove $3, #{columns}\nsmove $4, #{rows}\n"
            f"smove $5, #2000\nmload $1, $2, #0\nvload $1, $3, #{size}\n"
            f"{statement} $5, $4, $1, $1, $3\nvstore $5, $4, #{end}",
            MACHINE,
            {"main": main},
        )
        assert np.array_equal(found.memories["main"][end:], expected)


def rounded(value: Fraction) -> int:
    """The nearest integer, ties to even, saturated to 16 bits."""
    return max(-(2**15), min(2**15 - 1, round(value)))


EXACT = {
    "vav": lambda a, b: Fraction(a + b),
    "vsv": lambda a, b: Fraction(a - b),
    "vmv": lambda a, b: Fraction(a * b, 256),
    "vdv": lambda a, b: Fraction(a * 256, b) if b else Fraction(a * 2**15),
    "vgtm": lambda a, b: Fraction(max(a, b)),
    "vgt": lambda a, b: Fraction(256 * (a > b)),
    "ve": lambda a, b: Fraction(256 * (a == b)),
    "vand": lambda a, b: Fraction(256 * bool(a and b)),
    "vor": lambda a, b: Fraction(256 * bool(a or b)),
}


@pytest.mark.parametrize("mnemonic", EXACT)
@given(st.lists(st.tuples(*[st.integers(-(2**15), 2**15 - 1)] * 2), min_size=1, max_size=8))
@examples(15)
def test_elements_are_rounded_once(mnemonic: str, pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, np.int16) for column in zip(*pairs, strict=True))
    found = vector(f"{mnemonic} $1, $4, $2, $3", a, b, len(pairs))
    assert found.tolist() == [rounded(EXACT[mnemonic](*pair)) for pair in pairs]


def test_functions_are_rounded_correctly() -> None:
    a = np.array([-32768, -256, 0, 1, 256, 700, 2000], np.int16)
    exponentials = vector("vexp $1, $4, $2", a, a, len(a))
    logarithms = vector("vlog $1, $4, $2", a, a, len(a))
    assert exponentials.tolist() == [rounded(Fraction(256 * math.exp(x / 256))) for x in a]
    expected = [
        rounded(Fraction(256 * math.log(x / 256))) if x > 0 else -(2**15) for x in a.tolist()
    ]
    assert logarithms.tolist() == expected


def test_statements_on_scalars() -> None:
    text = """
        smove $1, #1000
        smove $2, #7
        sdiv $3, $1, $2
        sgt $4, $1, $2
        se $5, $1, #1000
        snot $6, $5
        smul $7, $1, #-3
        sexp $8, $2
        slog $9, $1
    """
    registers = run(text, MACHINE, values=False).registers
    assert registers[3:10] == (142, 1, 1, 0, -3000, 263, 349)


def test_every_operation_of_the_table_has_a_meaning() -> None:
    named = {spec.operation for spec in TABLE.instructions if spec.operation}
    assert named == set(OPERATIONS.meanings(MACHINE))
