"""A reason that is known stands beside a published number that ours is far from."""

from tilewright.papers.model import compare


def test_an_explanation_is_said_where_it_is_needed():
    near = compare("x", 10.0, 10.9, "model", note="a", explanation="b")
    far = compare("x", 10.0, 11.5, "model", note="a", explanation="b")
    assert (near.note, far.note) == ("a", "a; b")
    assert compare("x", 10.0, 5.0, "model", explanation="b").note == "b"
    assert compare("x", None, 5.0, "model", explanation="b").note == ""
