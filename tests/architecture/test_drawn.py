"""Which cases of a test that tries one in several a run takes."""

from support.examples import FEW, drawn

NAMES = [f"test_it[{i}]" for i in range(90)]


def test_one_in_three_is_a_third_and_the_same_whatever_their_order() -> None:
    found = drawn(NAMES, 3)
    assert len(found) == 30
    assert found < set(NAMES)
    assert drawn(reversed(NAMES), 3) == found


def test_a_few_are_never_left_out() -> None:
    assert drawn(NAMES[:FEW], 3) == set(NAMES[:FEW])
    assert len(drawn(NAMES[: FEW + 2], 3)) == FEW


def test_one_in_one_is_all() -> None:
    assert drawn(NAMES, 1) == set(NAMES)
