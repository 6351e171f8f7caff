"""Which products one call takes: the longest chains, as far as a machine's rules go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.ir.chains import ANY_CHAIN, Chain, ChainRules, chain_of_single, with_chains
from tilewright.ir.nodes import Call, For, Stmt
from tilewright.ir.parser import parse

TAPS = """\
def taps():
    x_tile: buffer("f64", 2048)
    w_tile: buffer("f64", 2048)
    y_tile: buffer("f64", 512)
    space: buffer("f64", 512)
    fill(y_tile[0](shape=(16, 32), roles="mn"), value=0.0)
    for i in range(3):
        for j in range(OF):
            gemm(
                y_tile[0](shape=(16, 32), roles="mn"),
                w_tile[0](at(i, 1), at(j, 1), at(0, 16), at(0, 8), shape=W, roles="..mk"),
                x_tile[0](at(i * 2 + j, 8), at(0, 32), shape=(16, 32), roles="kn"),
                vector="n"MORE,
            )
"""


def links(rules: ChainRules, more: str = "") -> list[str]:
    """Statements as texts: chains by their links, loops with their bodies."""
    return links_of(taps(more), rules)


def taps(more: str = "") -> tuple[Stmt, ...]:
    """A fill and the loops over three times five taps."""
    text = TAPS.replace("OF", "5").replace("MORE", more).replace("W,", "(3, 5, 16, 8),")
    return parse(text).body


def links_of(body: tuple, rules: ChainRules) -> list[str]:
    """Texts of a statement list."""
    found: list[str] = []
    while body:
        inside: tuple = ()
        for stmt in with_chains(body, rules):
            match stmt:
                case Chain():
                    found.append(f"chain of {stmt.links}")
                case For(var, _, inside):
                    found.append(f"for {var}")
                case Call(primitive):
                    found.append(primitive.name)
        body = inside
    return found


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (ANY_CHAIN, ["chain of 15"]),
        (ChainRules(overwrites=False), ["fill", "chain of 15"]),
        (ChainRules(overwrites=False, most_links=15), ["fill", "chain of 15"]),
        (ChainRules(overwrites=False, most_links=14), ["fill", "for i", "chain of 5"]),
        (ChainRules(overwrites=False, most_links=4), ["fill", "for i", "for j", "chain of 1"]),
    ],
)
def test_a_chain_is_as_long_as_the_rules_allow(rules, found):
    assert links(rules) == found


def test_a_loop_of_several_statements_is_in_no_chain():
    fill, nest = taps()
    inner = nest.body[0]
    twice = replace(inner, body=2 * inner.body)
    ends = ["chain of 1", "chain of 1"]
    assert links_of((replace(nest, body=(twice,)),), ANY_CHAIN) == ["for i", "for j", *ends]
    beside = replace(nest, body=(inner, fill, inner))
    assert links_of((beside,), ANY_CHAIN) == ["for i", "chain of 5", "chain of 5"]


def test_a_product_that_packs_is_no_link_where_one_workspace_is_not_enough():
    more = ', workspace="space"'
    apart = ["fill", "for i", "for j", "chain of 1"]
    assert links(ChainRules(overwrites=False, packs=False), more=more) == apart
    assert links(ChainRules(overwrites=False), more=more) == ["fill", "chain of 15"]


ROWS = """\
def rows():
    x_tile: buffer("f64", 2048)
    w_tile: buffer("f64", 2048)
    y_tile: buffer("f64", 1024)
    for j in range(3):
        for row in range(n // 8):
            gemm(
                y_tile[0](at(row, 1), at(0, 16), at(0, 32), shape=(2, 16, 32), roles=".mn"),
                w_tile[0](at(j, 1), at(0, 16), at(0, 8), shape=(3, 16, 8), roles=".mk"),
                x_tile[0](at(row, 1), at(0, 8), at(j, 32), shape=(2, 8, 34), roles=".kn"),
                vector="n",
            )
"""


def test_products_of_one_row_are_a_chain_which_those_of_several_are_not():
    rules = ChainRules(overwrites=False, most_links=9)
    (nest,) = parse(ROWS).body
    assert links_of((nest,), rules) == ["for j", "for row", "chain of 1"]
    found = chain_of_single(nest, rules)
    assert found is not None
    _, chain, loops = found
    assert (str(chain.links), [f.var for f in loops]) == ("3", ["row"])
    assert [str(o.ranges[0].start) for o in chain.call.operands] == ["0", "j", "0"]


@pytest.mark.parametrize("extent", ["2", "4"])
def test_loops_of_known_length_are_as_they_are(extent):
    (nest,) = parse(ROWS.replace("n // 8", extent)).body
    assert chain_of_single(nest, ChainRules(overwrites=False, most_links=9)) is None


def test_loops_that_are_all_of_unknown_length_are_as_they_are():
    """A chain has links: one product in such loops is called for each turn."""
    (nest,) = parse(ROWS.replace("range(3)", "range(n // 4)")).body
    assert chain_of_single(nest, ChainRules(overwrites=False, most_links=9)) is None
