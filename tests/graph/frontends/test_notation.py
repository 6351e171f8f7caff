"""Networks as text: statements in sequence, sizes beside them, refusals."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.common.errors import TilewrightError
from tilewright.graph.graph import Network

ATTENTION = """
# one head, the largest of each row taken off
q = 5x8; k = 7x8; v = 7x6
s[i,j] += q[i,d] * k[j,d]
m[i] max= s[i,j]
e[i,j] = exp(s[i,j] - m[i])
z[i] += e[i,j]
y[i,c] += e[i,j] * v[j,c]
out[i,c] = y[i,c] / z[i]
"""


def test_statements_in_sequence_make_a_network():
    network = tw.define(ATTENTION)
    assert [t.name for t in network.inputs] == ["q", "k", "v"]
    assert network.outputs == ("out",)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(t.shape) for t in network.inputs)
    scores = np.exp(q @ k.T - (q @ k.T).max(1, keepdims=True))
    expected = scores @ v / scores.sum(1, keepdims=True)
    found = network.evaluate({"q": q, "k": k, "v": v})["out"]
    assert np.allclose(found, expected, rtol=1e-14)


def test_types_of_fixed_point_are_those_of_products():
    """All else computes in real numbers, in elements of the products' results."""
    text = "x = 4x8; w = 5x8; h[m,n] += x[m,k] * w[n,k]; y[m,n] = max(h[m,n], 0.0)"
    network = tw.define(text, dtype="q8.8:q48.16:q8.8")
    assert [node.op.dtype for node in network.nodes] == ["q8.8:q48.16:q8.8", "q8.8:f64:q8.8"]
    assert {tensor.dtype for tensor in network.tensors.values()} == {"q8.8"}
    product, distances = "y[m,n] += x[m,k] * w[n,k]", "y[m,n] += abs(x[m,k] - w[n,k])"
    for single, types in ((product, "q8.8:q48.16:q8.8"), (distances, "q8.8:f64:q8.8")):
        op = tw.define(single, dtype="q8.8:q48.16:q8.8", m=4, n=5, k=8)
        assert not isinstance(op, Network)
        assert op.dtype == types


def test_one_statement_is_an_operator():
    op = tw.define("n = 4; fill = 0\ny[n] += x[n+t-1] * w[t]", t=3, x=(4,))
    assert (op.kind, op.input_shapes) == ("contraction", ((4,), (3,)))


def test_the_length_of_a_tensor_of_one_dimension_is_its_shape():
    op = tw.define("x = 8; r = 4; t = 3; fill = 0; y[r] max= x[2*r+t-1]")
    assert op.input_shapes == ((8,),)


def test_sizes_may_be_numbers_of_numpy():
    op = tw.define("y[n] += x[n,k]", n=np.int64(4), x=(np.int64(4), np.int32(3)))
    assert op == tw.define("y[n] += x[n,k]", n=4, x=(4, 3))


def test_a_definition_is_read_as_it_is_shown():
    op = tw.define("y[n,o] += x[n,i] * w[o,i]", n=8, o=4, i=16)
    assert tw.define(f"y[n,o] += x[n,i] * w[o,i]; {op.describe().partition('; ')[2]}") == op


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        (
            "x = 8; y[i,j] = x[i,j]",
            {},
            "'y[i,j] = x[i,j]', character 10: x has 1 dimensions, 8, and 2 indices",
        ),
        ("", {}, "no statement; write RESULT[axes] += BODY, or =, *=, max=, min="),
        ("n = 4", {}, "no statement; write RESULT[axes] += BODY, or =, *=, max=, min="),
        ("n = 4; n = 5; y[n] = x[n]", {}, "n is given as 4 and as 5"),
        ("n = 4; y[n] = x[n]", {"n": 5}, "n is 4 in the text and 5 beside it"),
        (
            "a[n] = x[n]; b[n] = a[n]",
            {"n": 4, "q": 5},
            "no statement names 'q'; they name a, b, n, x",
        ),
        (
            "a[n] = b[n]; b[n] = x[n]",
            {"n": 4},
            "'b' is made or read before 'b[n] = x[n]' makes it",
        ),
        (
            "a[n] = x[n]; b[m] = x[m]; c[n] = a[n]",
            {"n": 4, "m": 5},
            "'b[m] = x[m]', character 8: index 1 of x runs from 0 to 4, outside 0..3; give "
            "fill=... for what lies beyond the border, or another x=...",
        ),
        ("x" * 70_000, {}, "a text of 70,000 characters, at most 65,536 are read"),
        ("y[n] = x[n];" * 300, {"n": 4}, "more than 256 statements"),
    ],
)
def test_what_makes_no_network(text, sizes, message):
    with pytest.raises(TilewrightError) as refused:
        tw.define(text, **sizes)
    assert str(refused.value) == message
