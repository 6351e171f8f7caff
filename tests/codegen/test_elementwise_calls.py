"""Calls as C compute what the program means: random views, all in one file, compiled and run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from tilewright.codegen.c.compiler import compile_into, loaded_library
from tilewright.codegen.c.elementwise_calls import (
    ELEMENTWISE,
    CallContext,
    check_element_types,
    emitter_of,
)
from tilewright.codegen.c.elementwise_text import integer_arithmetic, static_primitives
from tilewright.codegen.c.expression import Scope
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS
from tilewright.codegen.c.writer import CWriter
from tilewright.common.digest import digest
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Call, Program
from tilewright.ir.parser import parse
from tilewright.ir.primitives import MultiplyAccumulate
from tilewright.ir.visit import walk

F64 = dtype("f64")
TURNS = 2
POINTS = ("0 1 -1", "0 1 -1 2 -2")
EMITTERS = {**ELEMENTWISE, **SCALAR_CALLS}


@dataclass(frozen=True)
class Operand:
    """The text of a view and the elements of its tile."""

    text: str
    elements: int


def operand(chance: Random, buffer: str, axes: Sequence[tuple[str, Sequence[int]]]) -> Operand:
    """A view of axes in this order, each of one dimension or more; between them some of one index,
    around all of them room, steps between their indices.
    """
    dims = [(letter, extent) for letter, extents in axes for extent in extents]
    if chance.random() < 0.3:
        dims.insert(chance.randint(0, len(dims)), (".", 1))
    ranges, shape = [], []
    for _, extent in dims:
        start, step = chance.randint(0, 1), chance.choice([1, 1, 2])
        turns = chance.random() < 0.3
        ranges.append(f"at({start}{' + turn' if turns else ''}, {extent}, {step})")
        shape.append(start + turns * (TURNS - 1) + (extent - 1) * step + 1 + chance.randint(0, 1))
    roles = "".join(letter for letter, _ in dims)
    text = f"{buffer}[turn]({', '.join(ranges)}, shape=({', '.join(map(str, shape))},), "
    return Operand(f'{text}roles="{roles}")', int(np.prod(shape)))


def split(chance: Random, extent: int) -> list[int]:
    """An extent as one dimension, or two where it is no prime."""
    parts = [n for n in range(2, extent) if extent % n == 0]
    if parts and chance.random() < 0.5:
        outer = chance.choice(parts)
        return [outer, extent // outer]
    return [extent]


def shuffled(chance: Random, axes: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
    return sorted(axes.items(), key=lambda _: chance.random())


def elementwise(chance: Random, name: str) -> tuple[str, list[Operand]]:
    axes = {letter: split(chance, chance.choice([1, 2, 3, 4, 6])) for letter in "abc"}
    y = operand(chance, "y", shuffled(chance, axes))
    whole = {letter: [int(np.prod(own))] for letter, own in axes.items()}
    others = []
    for _ in range({"fill": 0, "copy": 1, "map": 2}.get(name, 1)):
        own = dict(whole if chance.random() < 0.5 else axes)
        if name != "copy" and chance.random() < 0.5:
            del own[chance.choice("abc")]
        others.append(operand(chance, "x", shuffled(chance, own)))
    return name, [y, *others]


def reduction(chance: Random) -> tuple[str, list[Operand]]:
    axes = {letter: split(chance, chance.choice([1, 2, 4])) for letter in "ab"}
    y = operand(chance, "y", shuffled(chance, axes))
    x = operand(chance, "x", shuffled(chance, {**axes, "k": split(chance, 6)}))
    return "reduce", [y, x]


def windows(chance: Random) -> tuple[str, list[Operand]]:
    rows, cols, tiles = chance.randint(1, 3), chance.randint(1, 3), chance.randint(1, 4)
    stride, down, right = (chance.randint(1, 2) for _ in range(3))
    points = [rows, cols] if chance.random() < 0.5 else [rows * cols + chance.randint(0, 2)]
    channel = {"a": [chance.randint(1, 3)]}
    y = operand(chance, "y", shuffled(chance, {"x": points, "t": [tiles], **channel}))
    width = (tiles - 1) * stride + (cols - 1) * right + 1
    height = (rows - 1) * down + 1
    x = operand(chance, "x", shuffled(chance, {"r": [height], "c": [width], **channel}))
    numbers = f"rows={rows}, cols={cols}, stride={stride}, row_step={down}, col_step={right}"
    return f"windows {numbers}", [y, x]


def winograd(chance: Random, name: str) -> tuple[str, list[Operand]]:
    tile, tiles = chance.choice([2, 4]), chance.randint(1, 3)
    points, further = tile + 2, {"a": split(chance, 4)}
    flat = {"x": [points * points] if chance.random() < 0.5 else [points, points]}
    space = {"r": [points], "c": [(tiles - 1) * tile + points]}
    if name == "winograd_filter":
        space = {"r": [3], "c": [3]}
    else:
        flat["t"] = [tiles]
        if name == "winograd_output":
            space = {"r": [tile], "c": [tiles * tile]}
    axes = [{**flat, **further}, {**space, **further}]
    y, x = axes[::-1] if name == "winograd_output" else axes
    found = [operand(chance, "y", shuffled(chance, y)), operand(chance, "x", shuffled(chance, x))]
    return f"{name} output_tile={tile}", found


ATTRIBUTES = {
    "fill": ["value=2.5", 'value=float("-inf")'],
    "scale_add": ["alpha=3.0, beta=-2.0", ""],
    "map": ['expression="x0 * 2 - x1"', 'expression="max(x1, x0)"'],
    "reduce": [f'function="{name}", expression="x0 + 1"' for name in ("sum", "max", "product")],
}
KINDS = ("fill", "copy", "scale_add", "map")
TRANSFORMS = ("winograd_input", "winograd_filter", "winograd_output")


def call(chance: Random, kind: str) -> tuple[str, int]:
    """The text of a random call, and the elements of a slot that holds its tiles."""
    if kind in KINDS:
        made, operands = elementwise(chance, kind)
    elif kind in TRANSFORMS:
        made, operands = winograd(chance, kind)
    else:
        made, operands = {"reduce": reduction, "windows": windows}[kind](chance)
    name, _, attributes = made.partition(" ")
    attributes = attributes or chance.choice(ATTRIBUTES.get(name, [""]))
    text = ", ".join([one.text for one in operands] + [attributes] * bool(attributes))
    return f"{name}({text})", max(one.elements for one in operands)


def repack(chance: Random) -> tuple[str, int]:
    shapes = [tuple(chance.randint(1, 4) for _ in range(3)) for _ in range(2)]
    views = [
        f'y[turn]({", ".join(f"at(0, {n})" for n in shape)}, shape={shape}, roles="abc")'
        for shape in shapes
    ]
    return f"repack({', '.join(views)})", max(int(np.prod(shape)) for shape in shapes)


def program(text: str, slot: int) -> Program:
    lines = [
        "def p():",
        f'    x: tensor("f64", "input", n={TURNS * slot})',
        f'    y: tensor("f64", "updated", n={TURNS * slot})',
        f'    x_tile: buffer("f64", {slot}, copies={TURNS})',
        f'    y_tile: buffer("f64", {slot}, copies={TURNS})',
    ]
    for turn in range(TURNS):
        for name in "xy":
            lines.append(f"    get({name}[at({turn * slot}, {slot})], {name}_tile[{turn}])")
            lines.append(f"    wait({name}_tile[{turn}])")
    body = text.replace("y[", "y_tile[").replace("x[", "x_tile[")
    lines += [f"    for turn in range({TURNS}):", f"        {body}"]
    for turn in range(TURNS):
        lines.append(f"    put(y_tile[{turn}], y[at({turn * slot}, {slot})])")
        lines.append(f"    wait(y_tile[{turn}])")
    return parse("\n".join(lines) + "\n")


def written(made: Program) -> str:
    """Its call as C, on pointers `x` and `y`, in a turn."""
    (stmt,) = (stmt for stmt in walk(made.body) if isinstance(stmt, Call))
    scope = Scope({"turn": "turn"}, {"turn": (0, TURNS - 1)})
    naming = Naming("p", {}, {"x_tile": "x", "y_tile": "y"}, {"turn": "turn"})
    context = CallContext(made, naming, scope, CWriter())
    emitter_of(stmt.primitive, EMITTERS, "c")(stmt.primitive, stmt.operands, context)
    return context.writer.text()


@pytest.fixture(scope="module")
def cases() -> list[Program]:
    chance = Random(1)
    every = [call(chance, kind) for kind in (*KINDS, *TRANSFORMS, "reduce", "windows") * 6]
    return [program(*one) for one in [*every, *(repack(chance) for _ in range(6))]]


@pytest.fixture(scope="module")
def library(cases: list[Program]) -> ctypes.CDLL:
    functions = [
        f"void case{number}(double *y, const double *x)\n{{\n    long turn;\n"
        f"    for (turn = 0; turn < {TURNS}; turn++)\n{written(made)}}}\n"
        for number, made in enumerate(cases)
    ]
    own = [integer_arithmetic(), static_primitives((F64,), winograd=POINTS)]
    files = {"calls.c": "\n".join(["#include <math.h>", *own, *functions])}
    flags = ["-shared", "-fPIC", "-O0", "-w", "-lm"]

    def make(folder):
        compile_into(folder, "elementwise calls", files, flags)

    return loaded_library("elementwise calls", "host-tests", digest(*files.values()), make)


def test_every_call_computes_what_the_program_means(
    cases: list[Program], library: ctypes.CDLL
) -> None:
    draw = np.random.default_rng(0)
    for number, made in enumerate(cases):
        size = int(made.tensor("x").shape[0].value)
        given = {name: draw.integers(-9, 9, size).astype(float) for name in "xy"}
        expected = interpret(made, given, (1, 1))["y"]
        found, source = given["y"].copy(), given["x"]
        library[f"case{number}"](*(ctypes.c_void_p(a.ctypes.data) for a in (found, source)))
        np.testing.assert_array_equal(found, expected, err_msg=written(made))


VIEW = 'y[turn](at(0, 2), at(0, 2), shape=(2, 2), roles="ab")'


@pytest.mark.parametrize(
    ("call_text", "message"),
    [
        (f'copy({VIEW}, x[turn](shape=(2,), roles="a"))',
         "the operands of copy disagree about axis 'b'"),
        (f'copy({VIEW}, x[turn](shape=(2, 3), roles="ab"))',
         "the operands of copy disagree about axis 'b'; give its dimensions the same extents in "
         "every operand"),
        (f'scale_add({VIEW}, x[turn](shape=(2, 2), roles="bz"))',
         "scale_add: operand 1 has axis 'z', the result has not"),
        (f'scale_add({VIEW}, {VIEW}, alpha=float("inf"))',
         "scale_add: alpha is inf; give a finite number"),
        (f'fill({VIEW}, value=float("nan"))', "fill: value is nan; give a finite number"),
        ('repack(y[turn](shape=(2, 2), roles="ab"), y[turn](shape=(4,), roles="a"))',
         "repack changes the shape of one tile in its slot: two shapes of one rank"),
        ('repack(y[turn](shape=(2, 2), roles="ab"), x[turn](shape=(2, 2), roles="ab"))',
         "repack changes the shape of one tile in its slot: two shapes of one rank"),
        ('fill(y[turn](at(0, 2), at(0, 2), shape=(2, 2), roles="a."))',
         "dimension 1 of a view of 'y_tile' has no role and extent 2; give it a role or extent 1"),
        ('winograd_filter(y[turn](shape=(16,), roles="x"), x[turn](shape=(4, 3), roles="rc"), '
         "output_tile=2)", "winograd_filter: 'x_tile' must have 3 rows and one column axis"),
        ('winograd_filter(y[turn](shape=(15,), roles="x"), x[turn](shape=(3, 3), roles="rc"), '
         "output_tile=2)", "winograd_filter: axis 'x' must have 4 x 4 points"),
        ('winograd_output(y[turn](shape=(3, 2), roles="rc"), x[turn](shape=(16, 1), roles="xt"), '
         "output_tile=2)", "winograd_output: 'y_tile' must have 2 rows and one column axis"),
        ('windows(y[turn](shape=(4, 2), roles="xt"), x[turn](shape=(3, 3), roles="rc"), '
         "rows=2, cols=2)", "windows: 'x_tile' must have 2 rows and one column axis"),
    ],
)  # fmt: skip
def test_operands_that_do_not_go_together_are_refused(call_text: str, message: str) -> None:
    with pytest.raises(ProgramError) as refused:
        written(program(call_text, 64))
    assert str(refused.value) == message


@pytest.mark.parametrize("types", [("f64", "f64"), ("f64", "f32")])
def test_a_call_has_one_element_type(types: tuple[str, str]) -> None:
    buffers = "".join(
        f'    {name}: buffer("{kind}", 4)\n' for name, kind in zip("yx", types, strict=True)
    )
    view = '[0](at(0, 4), shape=(4,), roles="a")'
    made = parse(f"def p():\n{buffers}    copy(y{view}, x{view})\n")
    (stmt,) = made.body
    context = CallContext(made, Naming("p", {}, {"x": "x", "y": "y"}, {}), Scope(), CWriter())
    if types[0] == types[1]:
        check_element_types(stmt.primitive, stmt.operands, context)
        return
    with pytest.raises(ProgramError, match=r"^copy mixes element types f32, f64$"):
        check_element_types(stmt.primitive, stmt.operands, context)


def test_a_call_that_a_target_has_not_names_those_that_it_has() -> None:
    (stmt,) = (s for s in walk(program(f"fill({VIEW})", 4).body) if isinstance(s, Call))
    with pytest.raises(ProgramError) as refused:
        emitter_of(stmt.primitive, SCALAR_CALLS, "mine", (MultiplyAccumulate,))
    assert str(refused.value) == (
        "target mine has no primitive 'fill'; it has map, multiply_accumulate, reduce"
    )
