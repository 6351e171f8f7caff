"""Texts, numbers and names of just the size that is read, and of one more."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase

import pytest

from tilewright.common.errors import ShapeError
from tilewright.graph.frontends.notation import read_notes
from tilewright.graph.names import quoted
from tilewright.ops.notation import operator_of, parse_statement


def statement(characters: int) -> str:
    return f"y[i] ={' ' * (characters - 10)}x[i]"


def copied(axes: int) -> object:
    names = ascii_lowercase[:axes]
    index = ",".join(names)
    return operator_of(f"y[{index}] = x[{index}]", **dict.fromkeys(names, 1))


@pytest.mark.parametrize(
    ("read", "most", "message"),
    [
        (
            lambda n: parse_statement(statement(n)),
            16_384,
            "a statement of 16,385 characters, at most 16,384 are read",
        ),
        (
            lambda n: operator_of("y[i] = x[i]", i=n),
            2**31 - 1,
            "i must be from 1 to 2,147,483,647, found 2147483648",
        ),
        (
            lambda n: operator_of(f"y[i] = x[{n}*i]", i=1),
            2**31 - 1,
            "'y[i] = x[2147483648*i]', character 21: a step of 2147483648, at most 2,147,483,647",
        ),
        (
            copied,
            16,
            "'y[a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q] = x[a,b,c,d,e,f,g,h,i,j': definition: 17 axes, "
            "at most 16 are taken",
        ),
        (
            lambda n: read_notes(f"y[i] = x[i] # {'.' * (n - 14)}"),
            65_536,
            "a text of 65,537 characters, at most 65,536 are read",
        ),
        (lambda n: read_notes("y[i] = x[i]\n" * n), 256, "more than 256 statements"),
    ],
    ids=["statement", "extent", "step", "axes", "text", "statements"],
)
def test_limits(read: Callable[[int], object], most: int, message: str) -> None:
    assert read(most) is not None
    with pytest.raises(ShapeError) as error:
        read(most + 1)
    assert str(error.value) == message


def test_a_text_of_a_message_has_at_most_forty_characters() -> None:
    assert quoted("a" * 38) == repr("a" * 38)
    assert quoted("a" * 39) == f"'{'a' * 36}..."
