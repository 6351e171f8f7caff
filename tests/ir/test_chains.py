"""Which products one call takes: the longest chains, as far as a machine's rules go."""

from __future__ import annotations

import pytest

from tilewright.ir.chains import ANY_CHAIN, Chain, ChainRules, with_chains
from tilewright.ir.nodes import Call, For
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
    """What the statements are, chains by their links, loops with what is in them."""
    text = TAPS.replace("OF", "5").replace("MORE", more).replace("W,", "(3, 5, 16, 8),")
    body = parse(text).body
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


def test_a_product_that_packs_is_no_link_where_one_workspace_is_not_enough():
    more = ', workspace="space"'
    apart = ["fill", "for i", "for j", "chain of 1"]
    assert links(ChainRules(overwrites=False, packs=False), more=more) == apart
    assert links(ChainRules(overwrites=False), more=more) == ["fill", "chain of 15"]
