"""A published number that ours is far from has a reason beside it."""

import pytest

from tilewright.papers.discovery import load_experiment
from tilewright.papers.lab import Lab
from tilewright.papers.model import WORTH_EXPLAINING, compare


def test_an_explanation_is_said_where_it_is_needed():
    near = compare("x", 10.0, 10.9, "model", note="a", explanation="b")
    far = compare("x", 10.0, 11.5, "model", note="a", explanation="b")
    assert (near.note, far.note) == ("a", "a; b")
    assert compare("x", 10.0, 5.0, "model", explanation="b").note == "b"
    assert compare("x", None, 5.0, "model", explanation="b").note == ""


@pytest.mark.parametrize("name", ["swdnn/figure2", "swdnn/table2", "swatop/figure11"])
def test_what_is_far_off_has_a_reason(name):
    result = load_experiment(name).run(Lab(quick=True))
    far = [r for r in result.rows if r.deviation and abs(r.deviation) > WORTH_EXPLAINING]
    assert [row.name for row in far if not row.note] == []
