"""One core group alone: the filters' slowness on four groups is that of sharing them."""

from tilewright.papers.lab import Lab
from tilewright.papers.swdnn import single_group


def test_a_group_alone_is_as_fast_as_logged_and_would_not_be_beside_others() -> None:
    """128 channels hardly read filters; with 384 and one column kept they are most of the data."""
    result = single_group.run(Lab())
    by_note = {
        note: [r for r in result.rows if r.note == note] for note in {r.note for r in result.rows}
    }
    alone, beside = (
        by_note["filters to itself"],
        by_note["as if three other groups read the filters"],
    )
    assert len(alone) == len(beside) == 4
    assert all(abs(row.deviation) < 0.03 for row in alone)
    assert all(row.deviation < -0.08 for row in beside if row.name.startswith("Ni 384"))
