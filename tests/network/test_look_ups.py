"""Look-ups: places that are elements of other operands, on every machine, and their gradient."""

import numpy as np
import pytest

from support.native import NATIVE_HOSTS
from support.networks import quickly_loaded
from support.onnx_models import floats, ints, model, node, saved
from support.plans import GROUP, quick_search
from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.frontends.notation import network_of
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.plans import Search
from tilewright.network.requirements import without_look_ups
from tilewright.ops.gradient import gradient
from tilewright.ops.normal_form import normal_form
from tilewright.ops.notation import operator_of
from tilewright.targets.host.network.generate import generated
from tilewright.targets.sw26010.networks import NETWORKS

EMBEDDING = operator_of("y[b,d] = table[idx[b], d]", b=6, d=8, table=(7, 8), dtype="f32")
PRODUCT = operator_of(
    "y[b,o] += table[idx[b], i] * w[o,i]", b=6, o=4, i=8, table=(7, 8), dtype="f32"
)
INTEGERS = operator_of("y[b,d] = table[idx[b], d]", b=6, d=8, table=(7, 8), dtype="i64,i32:i32")


def numbers(op):
    rng = np.random.default_rng(0)
    pairs = zip(op.tensors[1:], op.input_shapes, op.numerics.operands, strict=True)
    return {
        name: rng.integers(0, 7, shape).astype(kind.numpy) - (0 if name == "idx" else 3)
        for name, shape, kind in pairs
    }


def meaning(op, given):
    table = given["table"][given["idx"]]
    return table @ given["w"].T if op is PRODUCT else table


@pytest.mark.parametrize("op", [EMBEDDING, PRODUCT, INTEGERS])
def test_an_element_is_read_at_the_place_that_another_one_names(op):
    given = numbers(op)
    expected = meaning(op, given)
    assert np.array_equal(op.reference(*given.values()), expected)
    network = simplified(network_of(op))
    loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], Search(keep=1)))
    bound = loaded.bind(loaded.constants({}))
    bound.give(given)
    bound.repeat(1)
    assert np.array_equal(bound.outputs()["y"], expected)
    plain = without_look_ups(network)
    plan = build_plan(plain, GROUP, quick_search(plain))
    for code in (None, NETWORKS):
        found = PlannedNetwork(plain, plan, dict(plain.values), code).run(**given)["y"]
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_a_model_that_counts_places_itself_is_looked_up_in(tmp_path):
    """Ranks of five elements are compared with 0 to 4, and so is an index of one of five."""
    nodes = [node("TopK", "xk", ["top", "i"], axis=1), node("Gather", "xg", ["y"], axis=1)]
    known = {"k": ints(2), "g": ints(4, 0, 4)}
    network = simplified(
        load_onnx(saved(tmp_path, model(nodes, {"x": (3, 5)}, known, ("top", "y"))))
    )
    x = floats(3, 5)
    plain = without_look_ups(network)
    plan = build_plan(plain, GROUP, quick_search(plain))
    found = PlannedNetwork(plain, plan, dict(plain.values)).run(x=x)
    assert np.array_equal(found["top"], np.sort(x, axis=1)[:, :-3:-1])
    assert np.array_equal(found["y"], x[:, [4, 0, 4]])


def test_what_is_looked_up_is_copied_before_anything_else():
    steps = [step.op.describe() for step in normal_form(PRODUCT)]
    assert steps == [
        "y[i0,i1] = x0[x1[i0],i1]; i0=6, i1=8",
        "gemm m6 n4 k8 transpose_b",
    ]


def test_the_gradient_adds_where_elements_were_read():
    (found,) = gradient(EMBEDDING, 1)
    assert found.definition.describe() == "dtable[idx[b],d] += dy[b,d]; b=6, d=8"
    given = numbers(EMBEDDING)
    dy = np.arange(48, dtype=np.float32).reshape(6, 8)
    expected = np.zeros((7, 8), np.float32)
    np.add.at(expected, given["idx"], dy)
    assert np.array_equal(found.definition.reference(dy, given["idx"]), expected)
    network = without_look_ups(simplified(network_of(found.definition)), reads=False)
    plan = build_plan(network, GROUP, quick_search(network))
    run = PlannedNetwork(network, plan, dict(network.values)).run(dy=dy, idx=given["idx"])
    assert np.array_equal(run["dtable"], expected)


def test_an_index_outside_is_refused_where_numbers_are_known():
    given = numbers(EMBEDDING)
    given["idx"][3] = 7
    with pytest.raises(ShapeError) as refused:
        EMBEDDING.reference(*given.values())
    assert str(refused.value) == "index 7 is outside 0..6, dimension 0 of 7x8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "y[b] = table[idx[b]]",
            "'y[b] = table[idx[b]]', character 8: table is looked up and has no shape; give its "
            "shape, table=...",
        ),
        (
            "y[b] = table[idx[idx[b]]]",
            "'y[b] = table[idx[idx[b]]]', character 8: an index is read at places that axes give",
        ),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ShapeError) as refused:
        operator_of(text, b=3)
    assert str(refused.value) == message


def test_a_plan_of_programs_is_refused_as_long_as_there_are_look_ups():
    """Programs address along loops: the place that an element names would be left out."""
    network = simplified(network_of(EMBEDDING))
    with pytest.raises(GraphError) as error:
        build_plan(network, GROUP, quick_search(network))
    assert str(error.value) == (
        "node y: y[i0,i1] = x0[x1[i0],i1]; i0=6, i1=8 reads or adds at places that an operand "
        "names; plan requirements.without_look_ups of the network"
    )
