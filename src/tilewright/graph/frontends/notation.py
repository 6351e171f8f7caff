"""Operators and networks that users write as text: statements in sequence, sizes, a fill.

In: lines such as `n = 8`, `x = 8x16x5` (a shape), `fill = 0`, `fill x = 0`, and statements
(`ops.notation`). Out: the operator of a single statement, or the network of several. Its inputs are
the tensors that no statement computes, its outputs the tensors that no statement reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.fixed_point import FixedPoint, is_fixed
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import Fill, Size, Statement, defined, parse_statement
from tilewright.ops.op import Shape, show_shape

_LONGEST, _MOST_STATEMENTS = 1 << 16, 256
_SIZE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<size>\d+(x\d+)*)")
_FILL = re.compile(r"fill(?P<name>\s+[A-Za-z_]\w*)?\s*=\s*(?P<number>-?(inf|\d+(\.\d*)?))")


@dataclass
class _Notes:
    """Statements, and the sizes and fills given with them."""

    statements: list[Statement] = field(default_factory=list)
    sizes: dict[str, Size] = field(default_factory=dict)
    fills: dict[str, float] = field(default_factory=dict)
    fill: float | None = None


def define(
    text: str, *, name: str = "defined", dtype: str = "f64", fill: Fill = None, **sizes: Size
) -> Definition | Assembly | Network:
    """The operator of one statement, or the network of several, called `name`.

    Sizes and fills are arguments or lines of the text. Raises ShapeError as
    `ops.notation.operator_of` does, GraphError for statements that form no network.

    >>> define("s[n] += x[n,k]; y[n,k] = x[n,k] / s[n]", n=4, k=3).outputs
    ('y',)
    """
    notes, sizes = read_notes(text), {name: _plain(size) for name, size in sizes.items()}
    clash = next((n for n in sizes if notes.sizes.get(n, sizes[n]) != sizes[n]), None)
    if clash is not None:
        raise ShapeError(
            f"{clash} is {notes.sizes[clash]} in the text and {sizes[clash]} beside it"
        )
    every = {**notes.sizes, **sizes}
    beyond = fill if fill is not None else notes.fills or notes.fill
    fixed = FixedPoint(dtype) if is_fixed(dtype) else None
    if len(notes.statements) == 1:
        (only,) = notes.statements
        if fixed and not only.is_product:
            dtype = fixed.types_of(defined(only, every, fill=beyond))
        return defined(only, every, dtype=dtype, fill=beyond)
    if fixed:
        return fixed.apply(_network(name, notes.statements, every, "f64", beyond))
    return _network(name, notes.statements, every, dtype, beyond)


def _plain(size: Any) -> Any:
    """A size in Python's numbers, where it may have been taken from NumPy's."""
    if isinstance(size, tuple):
        return tuple(map(_plain, size))
    return int(size) if isinstance(size, np.integer) else size


def network_of(op: Definition | Assembly, name: str = "defined") -> Network:
    """The network of one definition; a tensor that is read twice becomes one input."""
    builder = NetworkBuilder(name, op.out_dtype)
    for tensor, shape, kind in zip(op.tensors[1:], op.input_shapes, op.operand_dtypes, strict=True):
        if not builder.has(tensor):
            builder.input(tensor, shape, kind)
    result = op.tensors[0]
    return builder.build((builder.apply(op, *op.tensors[1:], name=result, output=result),))


def read_notes(text: str) -> _Notes:
    """Statements, sizes and fills of a text, one per line or separated by semicolons; `#` begins a
    comment. Raises ShapeError for any other line.
    """
    if not isinstance(text, str):
        raise ShapeError(f"statements are given as text, found {quoted(text)}")
    if len(text) > _LONGEST:
        raise ShapeError(f"a text of {len(text):,} characters, at most {_LONGEST:,} are read")
    found = _Notes()
    for words in _lines(text):
        if fill := _FILL.fullmatch(words):
            number, tensor = float(fill.group("number")), (fill.group("name") or "").strip()
            if tensor:
                found.fills[tensor] = number
            else:
                found.fill = number
        elif size := _SIZE.fullmatch(words):
            _add_size(found, size.group("name"), size.group("size"))
        elif words:
            found.statements.append(parse_statement(words))
        if len(found.statements) > _MOST_STATEMENTS:
            raise ShapeError(f"more than {_MOST_STATEMENTS} statements")
    if not found.statements:
        raise ShapeError("no statement", fix="write RESULT[axes] += BODY, or =, *=, max=, min=")
    tensors = {element.tensor for own in found.statements for element in own.elements}
    for name in tensors & found.sizes.keys():
        given = found.sizes[name]
        found.sizes[name] = (given,) if isinstance(given, int) else given
    return found


def _lines(text: str) -> Iterator[str]:
    """The statements, sizes and fills; sizes in a row may stand between commas."""
    for line in re.split(r"[\n;]", text):
        words = line.partition("#")[0].strip()
        parts = [part.strip() for part in words.split(",")]
        yield from parts if all(map(_SIZE.fullmatch, parts)) else [words]


def _add_size(notes: _Notes, name: str, text: str) -> None:
    numbers = tuple(int(n[:12]) for n in text.split("x"))
    size = numbers if "x" in text else numbers[0]
    if notes.sizes.setdefault(name, size) != size:
        raise ShapeError(f"{name} is given as {notes.sizes[name]} and as {text[:40]}")


def _network(
    name: str, statements: list[Statement], sizes: Mapping[str, Size], dtype: str, fill: Fill
) -> Network:
    builder = NetworkBuilder(name, dtype)
    made = {s.result.tensor for s in statements}
    named = {n for s in statements for n in (*s.axes, *(e.tensor for e in s.elements))}
    unknown = next((n for n in sizes if n not in named), None)
    if unknown is not None:
        known = ", ".join(sorted(named))
        raise ShapeError(f"no statement names {unknown!r}", fix=f"they name {known}")
    shapes: dict[str, Shape] = {}
    read: set[str] = set()
    for statement in statements:
        result = statement.result.tensor
        if result in shapes:
            raise GraphError(f"{result!r} is made or read before {statement.text[:60]!r} makes it")
        own = {e.tensor for e in statement.elements}
        given: dict[str, Size] = {n: s for n, s in sizes.items() if n in (*own, *statement.axes)}
        given |= {n: shape for n, shape in shapes.items() if n in own}
        op = defined(statement, given, dtype=dtype, fill=fill)
        for tensor, shape in zip(op.tensors[1:], op.input_shapes, strict=True):
            if tensor not in shapes and tensor not in made:
                builder.input(tensor, shape)
            if shapes.setdefault(tensor, shape) != shape:
                raise GraphError(
                    f"{statement.text[:60]!r} reads {tensor} as {show_shape(shape)}, it is "
                    f"{show_shape(shapes[tensor])}"
                )
            read.add(tensor)
        shapes[result] = op.out_shape
        builder.apply(op, *op.tensors[1:], name=result, output=result)
    return builder.build(tuple(s.result.tensor for s in statements if s.result.tensor not in read))
