"""Texts are parsed right whatever other threads parse meanwhile."""

from __future__ import annotations

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tilewright.common.syntax import expression_tree, module_tree

DEEP = "+".join(f"(a{i} * (b + c * (d + {i})))" for i in range(60))


@pytest.fixture
def eager_switches():
    """The garbage collector runs Python code, in which threads are switched at once."""
    interval = sys.getswitchinterval()

    def work(_phase: str, _info: object) -> None:
        sum(range(50))

    gc.callbacks.append(work)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.callbacks.remove(work)


@pytest.mark.usefixtures("eager_switches")
def test_threads_parse_beside_each_other():
    def shown(_: int) -> str:
        return ast.unparse(expression_tree(DEEP)) + ast.unparse(module_tree(f"    x = {DEEP}"))

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(shown, range(200)))
    assert found == {ast.unparse(ast.parse(DEEP)) + ast.unparse(ast.parse(f"x = {DEEP}"))}
