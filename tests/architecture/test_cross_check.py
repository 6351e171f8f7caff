"""The cross-check of the SW26010 shares no price, nor anything that reaches one."""

import ast
from pathlib import Path

import grimp
import pytest

CHECK = Path(__file__).parents[1] / "support" / "cross_check"
PRICES = (
    "tilewright.cost",
    "tilewright.passes",
    "tilewright.schedule",
    "tilewright.simulate.kernel",
    "tilewright.tune",
)


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("tilewright")


def imported(graph):
    """Modules of the package that the cross-check imports."""
    nodes = [node for path in CHECK.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    named = {node.module for node in froms}
    named |= {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    return named & graph.modules


@pytest.mark.parametrize("price", PRICES)
def test_the_cross_check_knows_no_price(graph, price):
    modules = imported(graph)
    assert "tilewright.codegen.artifact" in modules
    inside = {price, *graph.find_descendants(price)}
    assert modules & inside == set()
    chains = [graph.find_shortest_chain(module, other) for module in modules for other in inside]
    assert [chain for chain in chains if chain] == []
