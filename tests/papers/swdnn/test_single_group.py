"""One core group alone: the filters' slowness on four groups is that of sharing them."""

from tilewright.papers.lab import Lab
from tilewright.papers.swdnn.measured import single_group


def test_a_group_alone_is_as_fast_as_logged_and_would_not_be_beside_others() -> None:
    """128 channels hardly read filters; with 384 and one column kept they are most of the data."""
    result = single_group(Lab())
    alone = [r for r in result.rows if r.note.startswith("filters to itself")]
    beside = [r for r in result.rows if r.note.startswith("as if three other groups")]
    assert len(alone) == len(beside) == 4
    assert result.summary == {"rows alone more than 2 % outside of what was logged": 0}
    assert [(r.published, r.note) for r in alone[:1]] == [
        (334.5, "filters to itself; logged 317 to 352")
    ]
    heavy = [r for r in beside if r.name.startswith("Ni 384")]
    assert all(r.ours < 0.92 * 253 for r in heavy)
