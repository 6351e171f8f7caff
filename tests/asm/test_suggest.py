"""Did you mean: near words are found, far ones are not."""

from __future__ import annotations

import pytest

from tilewright.asm.suggest import closest, did_you_mean
from tilewright.isa import load_table

WORDS = load_table("sw26010_cpe").mnemonics


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("vmda", "vmad"),
        ("VMAD", "vmad"),
        ("adl", "addl"),
        ("vldx", "vldc"),
        ("lddecc", "lddec"),
        ("hatl", "halt"),
        ("br", "br"),
        ("completely", None),
        ("q" * 100, None),
    ],
)
def test_closest(word: str, found: str | None) -> None:
    assert closest(word, WORDS) == found


def test_the_fix_is_a_question_or_nothing() -> None:
    assert did_you_mean("lop", ["loop", "pool"]) == "did you mean 'loop'?"
    assert did_you_mean("lop", ["elsewhere"]) == ""


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("vloda", "vload"),
        ("vlod", "vload"),
        ("vloadd", "vload"),
        ("vlaoda", "vloada"),
        ("mlaod", "mload"),
        ("vstro", "vstore"),
        ("vtsorea", "vstorea"),
        ("jmup", "jump"),
    ],
)
def test_the_fewest_edits_count(word: str, found: str) -> None:
    """An exchange of neighbours is one edit, and a longer word is no better for its length."""
    assert closest(word, load_table("cambricon").mnemonics) == found


@pytest.mark.parametrize(("word", "known"), [("ad", "a"), ("a", "ad"), ("da", "ad"), ("add", "ad")])
def test_short_words_are_near_with_one_letter_more_or_less(word: str, known: str) -> None:
    assert closest(word, [known, "multiply"]) == known


def test_long_words_and_what_is_far_down_a_vocabulary_are_not_looked_at() -> None:
    """Words of up to 24 letters, the first thousand of a vocabulary."""
    for letters, found in ((23, True), (24, True), (25, False)):
        known = "abcdefghijklmnopqrstuvwxyz"[:letters]
        assert (closest(known[:-1], [known]) == known) == found
        assert (closest(known, [known[:-1]]) == known[:-1]) == found
    others = [f"other{number}" for number in range(1000)]
    assert closest("vlod", [*others[:999], "vload"]) == "vload"
    assert closest("vlod", [*others, "vload"]) is None
