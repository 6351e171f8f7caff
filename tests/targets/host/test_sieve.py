"""The parts of `benchmarks/model_on_silicon.py` that need no clock."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.ops import conv2d, gemm

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def sieve(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("host.sieve")


@pytest.fixture
def spaces(sieve: ModuleType) -> ModuleType:
    return importlib.import_module("host.spaces")


def file(block: str) -> str:
    """Two functions as a generated file has them: one calls the other."""
    return (
        f"static void tw_block(float *x)\n{{\n    x[0] = {block};\n}}\n"
        "static void tw_product(float *x)\n{\n    tw_block(x);\n}\n"
    )


def test_functions_that_files_share_are_there_once(sieve: ModuleType) -> None:
    functions = sieve.Functions()
    assert functions.shared(file("1")) == functions.shared(file("1"))


def test_functions_of_one_name_and_two_texts_get_two_names_and_so_do_their_callers(
    sieve: ModuleType,
) -> None:
    functions = sieve.Functions()
    functions.shared(file("1"))
    (block, product), renamed = functions.shared(file("2"))
    assert renamed == {"tw_block": "tw_block_v1", "tw_product": "tw_product_v1"}
    assert block.startswith("static void tw_block_v1(float *x)")
    assert "    tw_block_v1(x);" in product
    assert sieve.with_names("tw_product(y); tw_product2(y);", renamed) == (
        "tw_product_v1(y); tw_product2(y);"
    )


def test_the_least_operations_of_an_algorithm(spaces: ModuleType) -> None:
    """Of 21 pairs of a row and a tap two lie in the border at 7 pixels; F(4x4) takes 8 for 7."""
    op = conv2d(batch=1, in_channels=16, out_channels=32, height=7, width=7, kernel=3, padding=1)
    assert spaces.least_flops(op, "direct") == pytest.approx(op.flops * (19 / 21) ** 2)
    assert spaces.least_flops(op, "winograd4") == 2 * 36 * 4 * 16 * 32
    product = gemm(8, 9, 10)
    assert spaces.least_flops(product, "gemm") == product.flops


def test_rank_correlation(sieve: ModuleType) -> None:
    script = importlib.import_module("model_on_silicon")
    assert script.rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert script.rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
