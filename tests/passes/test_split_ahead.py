"""Values made of a constant alone are computed once, by the function that packs it."""

from __future__ import annotations

from tilewright.ir.parser import parse
from tilewright.passes.split_ahead import split_ahead

PROGRAM = """\
def scaled():
    y: tensor("f32", "output", cols=4)
    w: tensor("f32", "{kind}", cols=4)
    u: tensor("f32", "scratch", cols=4)
    copy(u[at(0, 4)]("p"), w[at(0, 4)]("p"))
    barrier()
    copy(y[at(0, 4)]("p"), {later}[at(0, 4)]("p"))
"""


def split(kind="constant", later="u"):
    return split_ahead(parse(PROGRAM.format(kind=kind, later=later)))


def test_the_rest_takes_what_is_made_as_a_constant():
    ahead, rest = split()
    assert (ahead.given.name, ahead.made.name, len(ahead.body)) == ("w", "u", 1)
    assert [(t.name, t.kind) for t in rest.tensors] == [("y", "output"), ("u", "constant")]
    assert len(rest.body) == 1


def test_what_changes_from_call_to_call_is_not_computed_ahead():
    assert split(kind="input")[0] is None


def test_a_constant_that_is_needed_as_it_is_stays():
    ahead, rest = split(later="w")
    assert ahead is None
    assert len(rest.body) == 3
