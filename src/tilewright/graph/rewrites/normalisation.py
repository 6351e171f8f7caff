"""Folds a normalisation by weights into the weights of the product before it.

`conv, bias, batch_norm` becomes `conv, bias`, with nodes that compute the weights of these two from
the weights of the three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.graph.graph import Network, Node
from tilewright.ops import Bias
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.op import Shape

_FACTOR = "x1 / sqrt(x2 + {epsilon!r})"


def folded_normalisation(network: Network) -> Network:
    """The network with normalisations folded into products: the biases and normalisations that
    alone use a product's result become one bias.
    """
    weights = {t.name: t.shape for t in network.weights}
    taken, nodes = set[str](), list[Node]()
    for node in network.nodes:
        if node.name not in taken:
            behind = _affine_behind(node, network, weights)
            taken.update(n.name for n in behind)
            nodes += _folded(node, behind, weights) if behind else [node]
    return replace(network, nodes=tuple(nodes)) if taken else network


def _affine_behind(product: Node, network: Network, weights: Mapping[str, Shape]) -> list[Node]:
    """Biases and normalisations by weights after a product by weights, up to the last
    normalisation.
    """
    matrix = product.op.matrix_product
    plain = product.op.convolution is not None or (matrix is not None and matrix.beta == 0.0)
    if not plain or product.inputs[1] not in weights:
        return []
    found, last = list[Node](), product
    while last.output not in network.outputs and len(network.readers(last.output)) == 1:
        (last,) = network.readers(last.output)
        bias = last.op.bias_addition
        adds = bias is not None and (bias.axis, bias.scale) == (1, 1.0)
        if not (adds or last.op.normalisation) or not weights.keys() >= set(last.inputs[1:]):
            break
        found.append(last)
    while found and found[-1].op.bias_addition is not None:
        found.pop()
    return found


def _folded(product: Node, behind: Sequence[Node], weights: Mapping[str, Shape]) -> list[Node]:
    """The nodes that compute the new weights and the new addend, the product, its bias."""
    image, weight, *others = product.inputs
    op, shape, addend = product.op, weights[weight], ""
    matrix = op.matrix_product
    axis = 0 if matrix is None or matrix.transpose_b else 1
    made = list[Node]()
    for node in behind:
        vectors = node.inputs[1:]
        if (norm := node.op.normalisation) is not None:
            scale, shift, mean, variance = vectors
            factor = _FACTOR.format(epsilon=norm.epsilon)
            name = f"{node.name}.weight"
            scaled = _mapped(shape, (axis,), 2, f"x0 * {factor}", op.dtype)
            made.append(Node(name, scaled, (weight, scale, variance), name))
            weight = name
            before, vectors = "x4 - x0" if addend else "-x0", (mean, scale, variance, shift)
            expression = f"x3 + ({before}) * {factor}"
        else:
            expression = "x0 + x1" if addend else "x0"
        vectors += (addend,) * bool(addend)
        addend = f"{node.name}.addend"
        size = (node.op.out_shape[1],)
        moved = _mapped(size, (0,), len(vectors) - 1, expression, op.dtype)
        made.append(Node(addend, moved, vectors, addend))
    last, inner = behind[-1], f"{behind[-1].output}.product"
    bias = Bias(op.out_shape, 1, dtype=op.dtype)
    product = replace(product, inputs=(image, weight, *others), output=inner)
    return [*made, product, replace(last, op=bias, inputs=(inner, addend))]


def _mapped(
    shape: Shape, axes: tuple[int, ...], vectors: int, expression: str, dtype: str
) -> InMemory:
    """An expression over the elements of a tensor and of `vectors` vectors along `axes`."""
    whole, vector = straight(shape), straight(tuple(shape[axis] for axis in axes), axes)
    return InMemory(shape, whole, (whole, *[vector] * vectors), expression, dtype=dtype)
