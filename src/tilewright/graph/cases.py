"""One network of several, for inputs of several shapes.

In: networks that differ in the shapes of their inputs. Out: one network that has the nodes of all
and each weight once, and in `cases` which of its inputs and outputs belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.graph import Case, Network, Tensor
from tilewright.graph.names import quoted
from tilewright.ops.op import Array, Shape, show_shape


def shapes_in_turn(
    shapes: Mapping[str, Shape | Sequence[Shape]],
) -> list[dict[str, Shape]]:
    """The shapes of each case: the first ones of all inputs, then the second ones; an input with
    one shape has it in all cases. Raises GraphError for other counts and for a case named twice.
    """
    every = {name: _several(own) for name, own in shapes.items()}
    count = max(map(len, every.values()), default=1)
    for name, own in every.items():
        if len(own) not in (1, count):
            raise GraphError(f"input {quoted(name)} has {len(own)} shapes, another one {count}",
                             fix="one shape for all cases, or one for each")  # fmt: skip
    found = [{n: own[i % len(own)] for n, own in every.items()} for i in range(count)]
    for number, case in enumerate(found):
        if case in found[:number]:
            shown = ", ".join(f"{n}={show_shape(s)}" for n, s in case.items())
            raise GraphError(f"the shapes {shown} are given twice", fix="give each once")
    return found


def _several(own: Shape | Sequence[Shape]) -> Sequence[Shape]:
    shapes: list[Shape] = [e for e in own if not isinstance(e, int)]
    return shapes or [tuple(e for e in own if isinstance(e, int))]


def with_cases(parts: Sequence[Network]) -> Network:
    """The networks as one, whose cases they are. A tensor of a part is called after the shapes of
    its inputs; a weight that others have, too, with the same numbers keeps its name.
    """
    first, tags = parts[0], [_tag(part) for part in parts]
    common = [_common(first, part) for part in parts]
    names = [
        {n: n if n in shared else f"{tag}/{n}" for n in part.tensors}
        for part, tag, shared in zip(parts, tags, common, strict=True)
    ]
    whole = side_by_side(first.name, parts, names, tags)
    cases = tuple(
        Case(tag, tuple((t.name, own[t.name]) for t in part.inputs),
             tuple((name, own[name]) for name in part.outputs))
        for part, own, tag in zip(parts, names, tags, strict=True)
    )  # fmt: skip
    return replace(whole, cases=cases)


def side_by_side(
    name: str,
    parts: Sequence[Network],
    names: Sequence[Mapping[str, str]],
    tags: Sequence[str],
) -> Network:
    """One network of all nodes, with the tensors called by `names` and the nodes after `tags`."""
    weights, values = dict[str, Tensor](), dict[str, Array]()
    for part, own in zip(parts, names, strict=True):
        weights |= {own[t.name]: replace(t, name=own[t.name]) for t in part.weights}
        values |= {own[n]: array for n, array in part.values.items()}
    pairs = list(zip(parts, names, tags, strict=True))
    return Network(
        name,
        tuple(replace(t, name=own[t.name]) for part, own, _ in pairs for t in part.inputs),
        tuple(weights.values()),
        tuple(
            replace(node, name=f"{tag}/{node.name}", output=own[node.output],
                    inputs=tuple(own[n] for n in node.inputs))
            for part, own, tag in pairs for node in part.nodes
        ),
        tuple(own[n] for part, own, _ in pairs for n in part.outputs),
        values,
    )  # fmt: skip


def _tag(part: Network) -> str:
    return "_".join(show_shape(t.shape) for t in part.inputs)


def _common(first: Network, part: Network) -> set[str]:
    """The weights of a part that the first one has, too."""
    known = {t.name: t for t in first.weights}
    return {
        t.name
        for t in part.weights
        if known.get(t.name) == t and np.array_equal(part.values[t.name], first.values[t.name])
    }
