"""Comments and identifiers in generated C."""

from __future__ import annotations

from contextlib import ExitStack
from textwrap import wrap

from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.codegen.c.writer import CWriter, Names

WORDS = st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=30)


@example(["a" * 40, "b" * 53], 0)  # they fill a line
@example(["a" * 40, "b" * 54], 0)
@example(["a" * 40, "b" * 45], 2)
@example(["a" * 40, "b" * 46], 2)
@given(WORDS, st.integers(0, 3))
def test_lines_of_a_comment_hold_as_many_words_as_fit_100_columns(
    words: list[str], depth: int
) -> None:
    writer = CWriter()
    with ExitStack() as blocks:
        for _ in range(depth):
            blocks.enter_context(writer.deeper())
        writer.comment(" ".join(words))
    rows = wrap(" ".join(words), 94 - 4 * depth)
    rows = [f"{'/* ' if n == 0 else '   '}{row}" for n, row in enumerate(rows)]
    rows[-1] += " */"
    assert writer.text().splitlines() == [f"{'    ' * depth}{row}" for row in rows]


@given(st.lists(st.text("ab_", min_size=1, max_size=3), unique=True, max_size=12))
def test_no_name_is_another_ones_companion(names: list[str]) -> None:
    table = Names()
    suffixes = ("", "_a")
    words = [table.of("buffer", name, suffixes) for name in names]
    every = [word + suffix for word in words for suffix in suffixes]
    assert len({*every}) == len(every)
