"""ONNX's control flow: the branch of a known condition, loops pass after pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer, converting
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.names import quoted
from tilewright.ops import Concat, Reshape
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition

_MOST_PASSES = 4096


def _chosen(importer: Importer, node: OnnxNode) -> None:
    """The branch of a condition that is known."""
    holds = _truth(importer, node, node.input(0))
    names = importer.run(node.graph("then_branch" if holds else "else_branch"))
    for output, name in zip(node.outputs, names, strict=True):
        _called(importer, node, output, name)


def _truth(importer: Importer, node: OnnxNode, name: str) -> bool:
    if name not in importer.constants or importer.constants[name].size != 1:
        raise GraphError(f"{node.title()}: the condition {quoted(name)} must be a constant")
    return bool(importer.constants[name].item())


def _called(importer: Importer, node: OnnxNode, output: str, name: str) -> None:
    """A tensor under another name."""
    if output and name in importer.constants:
        importer.constants[output] = importer.constants[name]
    elif output:
        kind = importer.builder.element_type(name)
        op = converting(importer.builder.shape(name), kind, kind)
        importer.builder.apply(op, name, name=node.name or node.kind, output=output)


def _loop(importer: Importer, node: OnnxNode) -> None:
    """Passes as long as a condition holds that each pass computes from constants."""
    body, carried = node.graph("body"), list(node.inputs[2:])
    most = int(importer.constant(node, 0).item()) if node.has_input(0) else _MOST_PASSES + 1
    holds = not node.has_input(1) or _truth(importer, node, node.input(1))
    stacks: list[list[str]] = [[] for _ in body.outputs[1 + len(carried) :]]
    number = 0
    while holds and number < most:
        if number == _MOST_PASSES:
            raise GraphError(f"{node.title()}: makes more than {_MOST_PASSES} passes")
        count = importer.new_constant(f"{body.outputs[0]}/pass{number}", np.array(number, np.int64))
        going = importer.new_constant(f"{body.outputs[0]}/going{number}", np.array(1, np.bool_))
        passed = body.instance((count, going, *carried), number)
        test, *made = importer.run(passed)
        holds = _truth(importer, node, test)
        carried = made[: len(carried)]
        for stack, name in zip(stacks, made[len(carried) :], strict=True):
            stack.append(name)
        number += 1
    for output, name in zip(node.outputs, carried, strict=False):
        _called(importer, node, output, name)
    for output, stack in zip(node.outputs[len(carried) :], stacks, strict=False):
        _stacked(importer, node, output, stack, 0)


def _scan(importer: Importer, node: OnnxNode) -> None:
    """One pass for each slice of the scanned tensors."""
    if node.version < 9:
        raise GraphError(f"{node.title()}: is read from operator set 9 on")
    body, scanned = node.graph("body"), node.integer("num_scan_inputs")
    states = list(node.inputs[: len(node.inputs) - scanned])
    slices = [importer.use(n, node.title(), EVERY_TYPE) for n in node.inputs[len(states) :]]
    ranks = [len(importer.builder.shape(name)) for name in slices]
    stacked = len(body.outputs) - len(states)
    given = _each(node, "scan_input_axes", scanned)
    axes = [importer.axis(node, a, rank) for a, rank in zip(given, ranks, strict=True)]
    back = _each(node, "scan_input_directions", scanned)
    passes = {importer.builder.shape(n)[a] for n, a in zip(slices, axes, strict=True)}
    if len(passes) != 1:
        raise GraphError(f"{node.title()}: scans {sorted(passes)} slices, expected one number")
    if (count := passes.pop()) > _MOST_PASSES:
        raise GraphError(f"{node.title()}: makes more than {_MOST_PASSES} passes")
    stacks: list[list[str]] = [[] for _ in range(stacked)]
    for number in range(count):
        parts = [_slice(importer, node, name, axis, count - 1 - number if turned else number)
                 for name, axis, turned in zip(slices, axes, back, strict=True)]  # fmt: skip
        made = importer.run(body.instance((*states, *parts), number))
        states = list(made[: len(states)])
        for stack, name in zip(stacks, made[len(states) :], strict=True):
            stack.append(name)
    for output, name in zip(node.outputs, states, strict=False):
        _called(importer, node, output, name)
    turns, places = (_each(node, f"scan_output_{w}", stacked) for w in ("directions", "axes"))
    for output, stack, turned, axis in zip(
        node.outputs[len(states) :], stacks, turns, places, strict=False
    ):
        _stacked(importer, node, output, stack[:: -1 if turned else 1], axis)


def _each(node: OnnxNode, name: str, count: int) -> tuple[int, ...]:
    """A number for each of so many tensors, 0 where the node gives none."""
    found = node.integers(name) if name in node.attributes else (0,) * count
    if len(found) != count:
        raise GraphError(f"{node.title()}: {name} must be {count} integers, found {found}")
    return found


def _slice(importer: Importer, node: OnnxNode, name: str, axis: int, at: int) -> str:
    """One slice, without its axis; a constant of a constant."""
    if name in importer.constants:
        part = np.take(importer.constants[name], at, axis)
        return importer.new_constant(f"{name}/{at}", part)
    shape, kind = importer.builder.shape(name), importer.builder.element_type(name)
    extents = (*shape[:axis], *shape[axis + 1 :])
    others = iter(range(len(extents)))
    terms = tuple(() if d == axis else ((next(others), 1),) for d in range(len(shape)))
    place = Access(shape, terms, tuple(at if d == axis else 0 for d in range(len(shape))))
    op = Definition(extents, straight(extents), (place,), dtype=kind)
    return importer.step(node, op, name, suffix=f"_slice{at}")


def _stacked(
    importer: Importer, node: OnnxNode, output: str, names: Sequence[str], axis: int
) -> None:
    """Tensors side by side along a new axis."""
    if not output:
        return
    if not names:
        raise GraphError(f"{node.title()}: output {quoted(output)} of no pass has no element")
    if all(name in importer.constants for name in names):
        stack = np.stack([importer.constants[name] for name in names], axis)
        importer.constants[output] = stack
        return
    names = [importer.use(name, node.title(), EVERY_TYPE) for name in names]
    shape, kind = importer.builder.shape(names[0]), importer.builder.element_type(names[0])
    axis = importer.axis(node, axis, len(shape) + 1)
    one = (*shape[:axis], 1, *shape[axis:])
    parts = [importer.step(node, Reshape(shape, one, kind), name) for name in names]
    op = Concat((one,) * len(parts), axis, kind)
    importer.builder.apply(op, *parts, name=node.name or node.kind, output=output)


_VERSIONS = (11, 13, 16, 19, 21, 23, 24, 25)
_AXES = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")

CONTROL = (
    Operator(
        "If",
        (1, *_VERSIONS),
        (Input("cond", "constant", "bool"),),
        (
            Attribute("else_branch", "graph", required=True),
            Attribute("then_branch", "graph", required=True),
        ),
        _chosen,
        many=True,
    ),
    Operator(
        "Loop",
        (1, *_VERSIONS),
        (
            Input("M", "constant", "integer", optional=True),
            Input("cond", "constant", "bool", optional=True),
            Input("v_initial", elements="any"),
        ),
        (Attribute("body", "graph", required=True),),
        _loop,
        variadic=True,
        many=True,
        limits=f"at most {_MOST_PASSES} passes, whose number does not depend on data",
    ),
    Operator(
        "Scan",
        (8, 9, *(v for v in _VERSIONS if v != 13)),
        (
            Input("sequence_lens", "constant", "integer", optional=True, until=8),
            Input("initial_state_and_scan_inputs", elements="any"),
        ),
        (
            Attribute("body", "graph", required=True),
            Attribute("num_scan_inputs", "integer", required=True),
            Attribute("directions", "integers", until=8),
            *(Attribute(name, "integers", since=9) for name in _AXES),
        ),
        _scan,
        variadic=True,
        many=True,
        limits="from version 9 on",
    ),
)
