"""ONNX's control flow: branches with known conditions, and unrolled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer, converting
from tilewright.graph.frontends.onnx.model import Subgraph
from tilewright.graph.frontends.onnx.operators.windows import listed
from tilewright.graph.names import quoted
from tilewright.ops import Concat
from tilewright.ops.definitions import access, along

_MOST_PASSES = 4096


def _chosen(at: Importer) -> None:
    """If: append the branch that a known condition selects."""
    branch = at.node.graph("then_branch" if _truth(at, at.node.input(0)) else "else_branch")
    for output, name in zip(at.node.outputs, at.run(branch), strict=False):
        _called(at, output, name)


def _truth(at: Importer, name: str) -> bool:
    if name not in at.constants or at.constants[name].size != 1:
        raise at.wrong(f"the condition {quoted(name)} must be a constant")
    return bool(at.constants[name].item())


def _called(at: Importer, output: str, name: str) -> None:
    """Give a tensor another name."""
    if output and name in at.constants:
        at.constants[output] = at.constants[name]
    elif output:
        kind = at.element_type(name)
        op = converting(at.builder.shape(name), kind, kind)
        at.builder.apply(op, name, name=at.node.name or at.node.kind, output=output)


def _loop(at: Importer) -> None:
    """Loop: append passes while the condition holds, which must be a constant in each pass."""
    body, carried = at.node.graph("body"), list(at.node.inputs[2:])
    _require(at, body, 2 + len(carried), 1 + len(carried))
    most = at.scalar(0, _MOST_PASSES + 1)
    holds = not at.node.has_input(1) or _truth(at, at.node.input(1))
    passes: list[Sequence[str]] = []
    while holds and len(passes) < most:
        if len(passes) == _MOST_PASSES:
            raise at.wrong(f"makes more than {_MOST_PASSES} passes")
        number, prefix = len(passes), body.outputs[0]
        count = at.new_constant(f"{prefix}/pass{number}", np.array(number, np.int64))
        going = at.new_constant(f"{prefix}/going{number}", np.array(1, np.bool_))
        test, *made = at.run(body.instance((count, going, *carried), number))
        holds, carried = _truth(at, test), made[: len(carried)]
        passes.append(made[len(carried) :])
    _name_outputs(at, carried, passes, [(0, 0)] * (len(body.outputs) - 1 - len(carried)))


def _require(at: Importer, body: Subgraph, inputs: int, outputs: int) -> None:
    """Refuse a body with another number of inputs or with fewer outputs."""
    own = (len(body.inputs), len(body.outputs))
    if own[0] != inputs or own[1] < outputs:
        raise at.wrong(f"its body has {own} inputs and outputs, expected ({inputs}, {outputs})")


def _name_outputs(
    at: Importer, carried: Sequence[str], passes: Sequence[Sequence[str]],
    ways: Sequence[tuple[int, int]],
) -> None:  # fmt: skip
    """Name the carried values of the last pass, and stack the other values of all passes; `ways`
    holds (reversed, axis) for each.
    """
    for output, name in zip(at.node.outputs, carried, strict=False):
        _called(at, output, name)
    more = zip(at.node.outputs[len(carried) :], ways, strict=False)
    for place, (output, (turned, axis)) in enumerate(more):
        stack = [made[place] for made in passes]
        _stacked(at, output, stack[:: -1 if turned else 1], axis)


def _scan(at: Importer) -> None:
    """Scan: append one pass for each slice of the scanned tensors."""
    body, scanned = at.node.graph("body"), at.node.integer("num_scan_inputs")
    if not 0 < scanned <= len(at.node.inputs):
        raise at.wrong(f"scans {scanned} of {len(at.node.inputs)} inputs")
    states = list(at.node.inputs[: len(at.node.inputs) - scanned])
    _require(at, body, len(at.node.inputs), len(states))
    slices = [at.use(n, EVERY_TYPE) for n in at.node.inputs[len(states) :]]
    shapes = [at.builder.shape(name) for name in slices]
    given = listed(at.node, "scan_input_axes", scanned, 0)
    axes = [at.axis(a, len(own)) for a, own in zip(given, shapes, strict=True)]
    back = listed(at.node, "scan_input_directions", scanned, 0)
    counts = {own[a] for own, a in zip(shapes, axes, strict=True)}
    if len(counts) != 1:
        raise at.wrong(f"scans {sorted(counts)} slices, expected one number")
    if (count := counts.pop()) > _MOST_PASSES:
        raise at.wrong(f"makes more than {_MOST_PASSES} passes")
    passes: list[Sequence[str]] = []
    for number in range(count):
        parts = [_slice(at, name, axis, count - 1 - number if turned else number)
                 for name, axis, turned in zip(slices, axes, back, strict=True)]  # fmt: skip
        made = at.run(body.instance((*states, *parts), number))
        states = list(made[: len(states)])
        passes.append(made[len(states) :])
    stacked = len(body.outputs) - len(states)
    ways = (listed(at.node, f"scan_output_{w}", stacked, 0) for w in ("directions", "axes"))
    _name_outputs(at, states, passes, list(zip(*ways, strict=True)))


def _slice(at: Importer, name: str, axis: int, place: int) -> str:
    """One slice of a tensor, without its axis; a constant's slice is a constant."""
    if name in at.constants:
        return at.new_constant(f"{name}/{place}", np.take(at.constants[name], place, axis))
    shape, axes = at.builder.shape(name), iter(range(len(at.builder.shape(name)) - 1))
    extents = (*shape[:axis], *shape[axis + 1 :])
    places = (((), place) if d == axis else along(next(axes))[0] for d in range(len(shape)))
    kind = at.builder.element_type(name)
    op = at.define(extents, (access(shape, *places),), name, computed=kind)
    return at.step(op, name, suffix=f"_slice{place}")


def _stacked(at: Importer, output: str, names: Sequence[str], axis: int) -> None:
    """Stack tensors along a new axis."""
    if not output:
        return
    if not names:
        raise at.wrong(f"output {quoted(output)} of no pass has no element")
    if all(name in at.constants for name in names):
        at.constants[output] = np.stack([at.constants[name] for name in names], axis)
        return
    names = [at.use(name, EVERY_TYPE) for name in names]
    shape, kind = at.builder.shape(names[0]), at.builder.element_type(names[0])
    axis = at.axis(axis, len(shape) + 1)
    one = (*shape[:axis], 1, *shape[axis:])
    parts = [at.reshaped(name, one) for name in names]
    op = Concat((one,) * len(parts), axis, kind)
    at.builder.apply(op, *parts, name=at.node.name or at.node.kind, output=output)


READ = (
    Operator("If", _chosen, known="cond", many=True),
    Operator(
        "Loop", _loop, known="M cond", many=True,
        limits=f"at most {_MOST_PASSES} passes, whose number does not depend on data",
    ),
    Operator("Scan", _scan, "any", since=9, many=True, limits="from version 9 on"),
)  # fmt: skip
