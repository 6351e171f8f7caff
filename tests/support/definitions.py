"""Definitions for tests: of named operators, random ones, and their meaning by explicit indices."""

import itertools
from dataclasses import replace
from math import prod

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.ir.scalar import parse_scalar
from tilewright.ops import conv2d
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition

GATHERED = {
    "sum": np.add, "max": np.fmax, "min": np.fmin, "prod": np.multiply, "any": np.maximum,
}  # fmt: skip


CONVOLUTION = "y[n,o,r,c] += x[n,i,2*r+u-1,2*c+v-1] * w[o,i,u,v]"
_TEXTS = (CONVOLUTION, "y[n] += x[n,m] * w[m]", "s[n] += x[n,m]; y[n,m] = x[n,m] / s[n]",
          "n = 4\nfill = 0\ny[n] max= x[n+m-1]", "y[n,m] = w[i[n],m]")  # fmt: skip
_PIECES = ("y[n]", "x[n]", "[", "]", "(", ")", "+=", "=", "max=", "*", "+", "-", "/", "n", "2", ",",
           "w[m,n]", "if", "else", "lambda", "'", '"', "\\", "é", "\0", "#", ":", "1e999", "inf",
           "exp(", "**", "@", "x[n/2]", "x[-n]", "_", "{", "}", "not", "99999999999", ";", "\n",
           "fill", "i[n]", "prod", "any=", "3x4", "__import__")  # fmt: skip


def mutated_text(rng):
    """A text of definitions with up to four changes, and sizes of the axes that it may name."""
    text = list(_TEXTS[int(rng.integers(len(_TEXTS)))])
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(text) + 1))
        text[at : at + int(rng.integers(0, 3))] = [str(rng.choice(_PIECES))]
    return "".join(text), {a: 3 for a in "norciuvm" if a in "".join(text)}


def window_place(rng, axes, extents):
    """A place of up to two axes with steps of either sign, and where it may begin."""
    chosen = rng.permutation(axes)[: int(rng.integers(1, 3))] if axes else []
    terms = tuple((int(a), int(rng.choice([1, 1, 1, 2, 3, -1]))) for a in chosen)
    return terms, int(rng.integers(-2, 3))


def random_access(rng, axes, extents):
    """An access whose dimensions each move along one or two of `axes`, padded or just inside."""
    places, free = [], list(axes)
    while free:
        terms, offset = window_place(rng, free, extents)
        free = [a for a in free if a not in dict(terms)]
        places.append((terms, offset))
    filled, shape, offsets = bool(rng.integers(2)), [], []
    for terms, offset in places:
        low = sum(min(0, s * (extents[a] - 1)) for a, s in terms)
        high = sum(max(0, s * (extents[a] - 1)) for a, s in terms)
        first = offset if filled else int(rng.integers(0, 2)) - low
        more = int(rng.integers(-2, 2)) if filled else int(rng.integers(0, 2))
        offsets.append(first)
        shape.append(max(1, first + high + 1 + more))
    terms = tuple(t for t, _ in places)
    return Access(tuple(shape), terms, tuple(offsets), 0.0 if filled else None)


def result_access(rng, kept, extents):
    """A result: each axis a dimension, or two axes in one."""
    terms, shape, free = [], [], [int(a) for a in rng.permutation(kept)]
    while free:
        outer = free.pop()
        if free and rng.integers(3) == 0:
            inner = free.pop()
            terms.append(((outer, extents[inner]), (inner, 1)))
            shape.append(extents[outer] * extents[inner])
        else:
            terms.append(((outer, 1),))
            shape.append(extents[outer])
    return Access(tuple(shape), tuple(terms), (0,) * len(shape))


BODIES = ("x0 * x1", "x0", "x0 + x1", "x0 * x1 * x2", "abs(x0 - x1)")
GATHERS = (None, "sum", "sum", "max", "min", "prod", "any")


def random_definition(rng, bodies=BODIES, gathers=GATHERS, *, look_ups=False):
    """Up to seven axes and three operands: padding, steps, joint axes, any gather, look-ups."""
    rank = int(rng.integers(1, 8))
    extents = tuple(int(n) for n in rng.integers(1, 5 if rank < 5 else 4, rank))
    body = str(rng.choice(bodies))
    gather = gathers[int(rng.integers(len(gathers)))]
    axes = list(range(rank))
    kept = axes if gather is None else [a for a in axes if rng.integers(3)]
    count = sum(f"x{i}" in body for i in range(3))
    operands = []
    for i in range(count):
        own = [a for a in axes if rng.integers(4) or (i == 0 and a not in kept)]
        operands.append(random_access(rng, own, extents))
    result = result_access(rng, kept, extents)
    op = Definition(extents, result, tuple(operands), body, gather)
    return with_look_up(rng, op) if look_ups and rng.integers(4) == 0 else op


_UNARY = ("-{}", "abs({})", "max({}, 0)", "relu({})", "{} + 1", "2 * {}", "clip({}, -2, 3)")
_BINARY = ("{} + {}", "{} - {}", "{} * {}", "max({}, {})", "min({}, {})", "abs({} - {})")
_TESTS = ("{} < {}", "{} >= {}", "{} == {}", "not {} < {}", "{} > 0 and {} < 2", "{} < 1 or {} > 1")


def random_expression(rng, operands, depth=3):
    """An expression over x0, x1, ... with every operand in it, exact on small integers."""
    leaves = [f"x{i}" for i in range(operands)]
    parts = leaves + [str(rng.choice(leaves)) for _ in range(int(rng.integers(0, depth)))]
    while len(parts) > 1 or rng.integers(2):
        picked = [parts.pop(int(rng.integers(len(parts)))) for _ in range(min(len(parts), 2))]
        picked = [f"({x})" for x in picked]
        if len(picked) == 1 or rng.integers(4) == 0:
            text = str(rng.choice(_UNARY)).format(picked[0])
            parts += [f"({text})", *picked[1:]]
        elif rng.integers(4) == 0:
            test = str(rng.choice(_TESTS)).format(*picked)
            parts.append(f"({picked[0]} if {test} else {picked[1]})")
        else:
            parts.append(str(rng.choice(_BINARY)).format(*picked))
    return parts[0]


def random_stage(rng):
    """A definition of a random expression and random accesses, of f64, f32 or i32: its sums, small
    integers, are exact in each.
    """
    gathers = (None, None, None, "sum", "max", "min")
    bodies = [random_expression(rng, int(rng.integers(1, 4))) for _ in range(2)]
    op = random_definition(rng, bodies, gathers, look_ups=True)
    kind = str(rng.choice(["f64", "f32", "i32"] if op.gather is None else ["f64", "f32"]))
    finish = "x0" if op.gather is None else random_expression(rng, 1, 1)
    dtype = op.dtype.replace("f64", kind)
    return replace(op, finish=finish, dtype=dtype)


def with_look_up(rng, op):
    """The definition with one dimension of its first operand read at places that integers name."""
    free = [d for d, terms in enumerate(op.operands[0].terms) if terms]
    if op.operands[0].fill is not None or not free:
        return op
    d = int(rng.choice(free))
    first = op.operands[0]
    axes = [int(a) for a, _ in first.terms[d]]
    index = straight(tuple(op.extents[a] for a in axes), tuple(axes))
    read = tuple(len(op.operands) if i == d else None for i in range(len(first.shape)))
    terms = tuple(() if i == d else t for i, t in enumerate(first.terms))
    offsets = tuple(0 if i == d else o for i, o in enumerate(first.offsets))
    table = Access(first.shape, terms, offsets, None, read)
    kinds = [*["f64"] * len(op.operands), "i64"]
    return replace(op, operands=(table, *op.operands[1:], index), dtype=f"{','.join(kinds)}:f64")


def convolution(op):
    """The definition of a convolution."""
    g, i, o = op.groups, op.in_channels // op.groups, op.out_channels // op.groups
    extents = (op.batch, g, o, op.out_height, op.out_width, i, *op.kernel)
    top, left, *_ = op.padding
    (down, right), (below, beside) = op.stride, op.dilation
    out, into = ((1, o), (2, 1)), ((1, i), (5, 1))
    rows, columns = ((3, down), (6, below)), ((4, right), (7, beside))
    images, weights = op.input_shapes
    y = Access(op.out_shape, (((0, 1),), out, ((3, 1),), ((4, 1),)), (0,) * 4)
    x = Access(images, (((0, 1),), into, rows, columns), (0, 0, -top, -left), 0.0)
    w = Access(weights, (out, ((5, 1),), ((6, 1),), ((7, 1),)), (0,) * 4)
    names = tuple("ngorciuv"), ("y", "x", "w")
    return Definition(extents, y, (x, w), "x0 * x1", "sum", "x0", op.dtype, *names)


def random_convolution(rng):
    groups = int(rng.choice([1, 1, 2, 3]))
    pair = lambda most: tuple(map(int, rng.integers(1, most + 1, 2)))  # noqa: E731
    kernel, stride, dilation, image = pair(4), pair(3), pair(3), pair(11)
    padding = tuple(map(int, rng.integers(0, 4, 4)))
    channels = [groups * int(n) for n in rng.integers(1, 4, 2)]
    dtype = str(rng.choice(["f64", "f32", "i8:i32", "i16:i32:i16"]))
    try:
        return conv2d(
            batch=int(rng.integers(1, 4)), in_channels=channels[0], out_channels=channels[1],
            height=image[0], width=image[1], kernel=kernel, stride=stride, padding=padding,
            dilation=dilation, groups=groups, dtype=dtype,
        )  # fmt: skip
    except ShapeError:
        return random_convolution(rng)


def network_of(op, name="network"):
    """A network of one node, whose inputs are x0, x1, ... and whose output is y."""
    pairs = zip(op.input_shapes, op.operand_dtypes, strict=True)
    inputs = tuple(Tensor(f"x{i}", s, kind) for i, (s, kind) in enumerate(pairs))
    node = Node("node", op, tuple(t.name for t in inputs), "y")
    return Network(name, inputs, (), (node,), ("y",))


def random_network(rng, most=4):
    """Up to so many random definitions; each but the first reads a result of another, where it has
    an operand that is neither a table nor its places.
    """
    nodes, inputs = [], []
    for number in range(int(rng.integers(1, most + 1))):
        op = random_definition(rng, look_ups=True)
        last = "finish" if op.gather else "body"
        op = replace(op, **{last: f"clip({getattr(op, last)}, -3, 3)"})  # so that all is exact
        reads = [f"x{number}_{i}" for i in range(len(op.operands))]
        tables = {i for i, access in enumerate(op.operands) if access.read_from}
        tables |= {k for access in op.operands for k in access.looked_up.values()}
        free = [i for i in range(len(op.operands)) if i not in tables]
        if nodes and free:
            i, before = int(rng.choice(free)), nodes[int(rng.integers(len(nodes)))]
            reads[i] = before.output
            own = reading(rng, op.operands[i], before.op.out_shape)
            op = replace(op, operands=(*op.operands[:i], own, *op.operands[i + 1 :]))
        pairs = zip(reads, op.input_shapes, op.operand_dtypes, strict=True)
        inputs += [Tensor(*own) for own in pairs if own[0].startswith("x")]
        nodes.append(Node(f"node{number}", op, tuple(reads), f"y{number}"))
    read = {name for node in nodes for name in node.inputs}
    outputs = tuple(node.output for node in nodes if node.output not in read)
    return Network("network", tuple(inputs), (), tuple(nodes), outputs)


def reading(rng, access, shape):
    """An access of the same axes to a tensor of this shape, with a border of zeros."""
    places = [[] for _ in shape]
    for axis in sorted(access.axes):
        if places:
            step = int(rng.choice([1, 1, 1, 2, -1]))
            places[int(rng.integers(len(places)))].append((axis, step))
    offsets = tuple(int(rng.integers(0, n)) if not p else int(rng.integers(-1, 2))
                    for p, n in zip(places, shape, strict=True))  # fmt: skip
    return Access(shape, tuple(map(tuple, places)), offsets, 0.0)


def network_by_index(rng, network):
    """(integers for the inputs of a network of definitions, its outputs by explicit indices)."""
    inputs, values = {}, {}
    for node in network.nodes:
        drawn = zip(node.inputs, integers_for(rng, node.op), strict=True)
        inputs |= {name: x for name, x in drawn if name not in values}
        given = {**inputs, **values}
        values[node.output] = by_index(node.op, *(given[name] for name in node.inputs))
    return inputs, {name: values[name] for name in network.outputs}


def by_index(op, *operands):
    """The meaning by explicit index arrays, step by step, sharing nothing with `evaluated`."""
    steps = list(itertools.product(*map(range, op.extents)))
    values = []
    for access, x in zip(op.operands, operands, strict=True):
        own = []
        for step in steps:
            place = _looked_up(op, operands, access, step)
            inside = all(0 <= i < n for i, n in zip(place, access.shape, strict=True))
            own.append(x[place] if inside else access.fill)
        values.append(np.array(own, np.float64))
    each = np.broadcast_to(parse_scalar(op.body).value(values), (prod(op.extents),))
    if op.gather == "any":
        each = (each != 0).astype(float)
    result, seen = np.zeros(op.out_shape), set()
    for step, value in zip(steps, each, strict=True):
        place = _place(op.result, step)
        first = place not in seen
        seen.add(place)
        result[place] = value if first else GATHERED[op.gather](result[place], value)
    with np.errstate(all="ignore"):
        return np.asarray(parse_scalar(op.finish).value([result]), np.float64)


def _looked_up(op, operands, access, step):
    place = list(_place(access, step))
    for d, k in access.looked_up.items():
        place[d] = int(operands[k][_place(op.operands[k], step)])
    return tuple(place)


def _place(access, step):
    return tuple(
        offset + sum(step[a] * s for a, s in terms)
        for terms, offset in zip(access.terms, access.offsets, strict=True)
    )


def integers_for(rng, op):
    """Small integers for each operand, in its own type; of places those that there are."""
    every = (op.result, *op.operands) if hasattr(op, "result") else ()
    sizes = {k: x.shape[d] for x in every for d, k in x.looked_up.items()}
    found = []
    for i, (shape, kind) in enumerate(zip(op.input_shapes, op.numerics.operands, strict=True)):
        low, high = (0, sizes[i]) if i in sizes else (-3, 4)
        found.append(rng.integers(low, high, shape).astype(kind.numpy))
    return tuple(found)
