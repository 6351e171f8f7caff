"""Networks as text, for cases that show a rewrite.

    input x f64 (1, 4)
    weight w f64 (4,) = [1, 2, 3, 4]
    y = Bias((1, 4)) x w
    output y

Operators are written as Python calls without the fields that have their default, fused nodes with
their members behind them.
"""

from __future__ import annotations

import ast
from dataclasses import MISSING, fields

import numpy as np

from tilewright import ops
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.rewrites.fusion import Fused
from tilewright.ops import Op


def parse_network(text: str) -> Network:
    """The network that lines of text declare; comments begin with #."""
    declared: dict[str, list[Tensor]] = {"input": [], "weight": []}
    nodes, outputs, values = [], list[str](), {}
    for line in (line for line in text.splitlines() if line and not line.startswith("#")):
        word, rest = line.split(" ", 1)
        if word in declared:
            head, _, numbers = rest.partition(" = ")
            name, kind, shape = head.split(" ", 2)
            declared[word].append(Tensor(name, ast.literal_eval(shape), kind))
            if numbers:
                shape = declared[word][-1].shape
                values[name] = np.array(ast.literal_eval(numbers), np.float64).reshape(shape)
        elif word == "output":
            outputs += rest.split()
        else:
            call, _, inputs = rest.removeprefix("= ").rpartition(")")
            nodes.append(Node(word, _operator(f"{call})"), tuple(inputs.split()), word))
    given = (tuple(declared["input"]), tuple(declared["weight"]))
    return Network("case", *given, tuple(nodes), tuple(outputs), values)


def _operator(text: str) -> Op:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    named = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    made: Op = getattr(ops, call.func.id)(*map(ast.literal_eval, call.args), **named)
    return made


def print_network(network: Network) -> str:
    """The text that means the network."""
    lines = [f"input {t.name} {t.dtype} {t.shape}" for t in network.inputs]
    for t in network.weights:
        known = network.values.get(t.name)
        numbers = "" if known is None else f" = {[f'{x:g}' for x in known.reshape(-1)]}"
        lines.append(f"weight {t.name} {t.dtype} {t.shape}{numbers}".replace("'", ""))
    for node in network.nodes:
        if isinstance(node.op, Fused):
            lines.append(f"{node.name} = fused {' '.join(node.inputs)}")
            lines += [f"    {_line(member)}" for member in node.op.nodes]
        else:
            lines.append(_line(node))
    return "\n".join([*lines, f"output {' '.join(network.outputs)}", ""])


def _line(node: Node) -> str:
    given = []
    for f in fields(node.op):  # type: ignore[arg-type]  # operators are dataclasses
        value = getattr(node.op, f.name)
        if f.default is MISSING:
            given.append(repr(value))
        elif value != f.default:
            given.append(f"{f.name}={value!r}")
    return f"{node.name} = {type(node.op).__name__}({', '.join(given)}) {' '.join(node.inputs)}"
