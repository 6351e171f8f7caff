"""Digests: stable for one text, different wherever any part differs."""

from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.digest import digest, digest_of_files, names_below, own_sources

PARTS = st.lists(st.text("a\n\0", max_size=3), min_size=1, max_size=3)


def test_one_part_gives_its_sha256():
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest("abc") == digest(b"abc") == expected


@given(PARTS, PARTS)
def test_other_parts_give_another_digest(one: list[str], other: list[str]):
    assert (digest(*one) == digest(*other)) == (one == other)


def test_files_count_by_content_and_place(tmp_path):
    one, other = tmp_path / "one", tmp_path / "below" / "other"
    other.parent.mkdir()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "one.pyc").write_text("")
    one.write_text("1")
    other.write_text("2")
    names = sorted(names_below(tmp_path))
    assert names == ["below/other", "one"]
    found = digest_of_files(tmp_path, names)
    assert digest_of_files(tmp_path, reversed(names)) == found
    assert digest_of_files(tmp_path, ["one"]) != found
    one.write_text("2")
    other.write_text("1")
    assert digest_of_files(tmp_path, names) != found


def test_the_sources_of_tilewright_have_a_digest():
    assert len(own_sources()) == 64
