"""Digests: stable for one text, different wherever any part differs."""

import tokenize
from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.digest import (
    PACKAGE,
    digest,
    digest_of_code,
    names_below,
    own_sources,
    without_comments,
)

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
    found = digest_of_code(tmp_path, names)
    assert digest_of_code(tmp_path, reversed(names)) == found
    assert digest_of_code(tmp_path, ["one"]) != found
    one.write_text("2")
    other.write_text("1")
    assert digest_of_code(tmp_path, names) != found


def test_the_sources_of_tilewright_have_a_digest():
    assert len(own_sources()) == 64


def test_code_is_digested_without_docstrings_and_comments(tmp_path):
    module, said = tmp_path / "module.py", '"""It\'s."""\n\n# One\n{}'
    module.write_text("A = '# text'\n\n\ndef f():\n    return A\n")
    found = digest_of_code(tmp_path, [module.name])
    for other in ('A = \'# text\'  # it\'s\nr"""A\'s \\""" #\n\nis."""\n', "A = '# text'\n"):
        body = 'def f():\n    """Return `A`."""  # here\n    return A\n'
        module.write_text(said.format(other + body))
        assert digest_of_code(tmp_path, [module.name]) == found
    module.write_text("A = '# other'\n\n\ndef f():\n    return A\n")
    assert digest_of_code(tmp_path, [module.name]) != found


def _tokens(source: bytes) -> list[str]:
    """Tokens of a module but its docstrings, comments and line ends."""
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    kept = [t for t in tokenize.tokenize(BytesIO(source).readline) if t.type not in silent]
    ends = (tokenize.ENCODING, tokenize.NEWLINE)
    return [
        own.string
        for before, own, after in zip(kept, kept[1:], kept[2:], strict=False)
        if own.type != tokenize.NEWLINE
        and not (own.type == tokenize.STRING and before.type in ends and after.type in ends)
    ]


def test_sources_without_comments_are_the_same_program():
    for path in PACKAGE.rglob("*.py"):
        source = path.read_bytes()
        assert _tokens(without_comments(source)) == _tokens(source), path
