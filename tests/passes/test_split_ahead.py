"""Values made of a constant alone are computed once, by the function that packs it."""

from __future__ import annotations

import pytest

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


TWO_MADE = """\
def two():
    y: tensor("f32", "output", cols=4)
    w: tensor("f32", "constant", cols=4)
    v: tensor("f32", "constant", cols=4)
    u: tensor("f32", "scratch", cols=4)
    t: tensor("f32", "scratch", cols=4)
    copy(u[at(0, 4)]("p"), w[at(0, 4)]("p"))
    copy({made}[at(0, 4)]("p"), {given}[at(0, 4)]("p"))
    barrier()
    copy(y[at(0, 4)]("p"), u[at(0, 4)]("p"))
"""


@pytest.mark.parametrize(("made", "given"), [("t", "w"), ("u", "v"), ("t", "v")])
def test_only_one_tensor_of_one_constant_is_computed_ahead(made, given):
    program = parse(TWO_MADE.format(made=made, given=given))
    assert split_ahead(program) == (None, program)


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
