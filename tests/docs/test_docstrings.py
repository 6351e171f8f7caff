"""The examples in docstrings are executed, wherever there are any."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import tilewright

PACKAGE = Path(tilewright.__file__).parent
MODULES = [
    ".".join(("tilewright", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert result.attempted > 0
    assert result.failed == 0
