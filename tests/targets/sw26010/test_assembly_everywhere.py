"""The list of elementwise work that is assembly, priced by its own text.

The exceptions are those of the last tests: loops of C that the vendor's compiler translates, at a
price that is an assumption.
"""

from __future__ import annotations

from itertools import product

import pytest

from support.every_operator import named_classes
from support.examples import one_in
from support.expressions import TANGLED
from support.scalars import OF_FLOATS
from tilewright.compiler.explanation import stage_routines
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network, Node
from tilewright.ir.scalar import FUNCTIONS, Apply, Element, Scalar, operand_count, parse_scalar
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.planning.epilogues import expressed
from tilewright.network.plans import Search
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    LocalResponseNorm,
    Op,
    Pool2d,
    Reduce,
    Softmax,
    Unary,
    average_pool2d,
    max_pool2d,
)
from tilewright.ops.elementwise import binary_functions, unary_functions
from tilewright.targets.sw26010.elementwise.lie import Lie
from tilewright.targets.sw26010.elementwise.maps import MOST_SOURCES, map_routine
from tilewright.targets.sw26010.elementwise.reduce import reduce_routine

pytestmark = one_in(3)


SHAPE = (2, 8, 6, 6)
PARAMETERS = {"clip": [(0.0, 6.0), (0.0, float("inf")), (float("-inf"), float("inf"))]}
POINTWISE: list[Op] = [
    *(
        Unary(name, SHAPE, alpha, beta, "f32")
        for name in unary_functions()
        for alpha, beta in PARAMETERS.get(name, [(0.2, 0.5)])
    ),
    *(Binary(name, SHAPE, SHAPE, "f32") for name in binary_functions()),
    Bias(SHAPE, 1, dtype="f32"),
    Bias(SHAPE, 1, scale=0.5, dtype="f32"),
    BatchNorm(SHAPE, 1e-5, "f32"),
]
"""Every operator that is an expression over elements."""
AXES = ((1,), (2, 3), (1, 3), (0, 2), (0, 1, 2, 3))
GATHERING: list[Op] = [
    max_pool2d(SHAPE, 3, stride=2, padding=1, dtype="f32"),
    max_pool2d(SHAPE, 2, stride=1, dtype="f32"),
    average_pool2d(SHAPE, 3, stride=2, padding=1, dtype="f32"),
    average_pool2d(SHAPE, 6, stride=1, dtype="f32"),
    *(Softmax(SHAPE, axis, "f32") for axis in (1, 3)),
    *(LocalResponseNorm(SHAPE, 3, beta=beta, dtype="f32") for beta in (0.5, 0.6, 0.75, 1.0, 2.0)),
    *(Reduce(name, SHAPE, axes, "f32") for name in ("max", "sum") for axes in AXES),
    *(Reduce(name, SHAPE, AXES[0], "f32") for name in ("mean", "min")),
]
"""Every operator that gathers elements."""
LIES = [
    *(Lie(step, taps, loops) for step, taps, loops in product((1, 2, 0), (1, 2, 3), (False, True))),
    *(Lie(0, loops=loops, along=True) for loops in (False, True)),
]
"""Every way in which a reduction's operands may lie."""


def of_one_element() -> list[Scalar]:
    """Every function of expressions over x0, pow with some exponents, and what operators are."""
    found: list[Scalar] = [
        Apply(name, (Element(0),) * function.arity)
        for name, function in FUNCTIONS.items()
        if name in OF_FLOATS
    ]
    found += [parse_scalar(f"pow(abs(x0), {e})") for e in (0.25, 0.6, 1.0, 2.2, 4.0, -1.0, -0.5)]
    for op in POINTWISE:
        scalar = parse_scalar(expression_of(op))
        if operand_count(scalar) == 1:
            found.append(scalar)
    return [*found, parse_scalar("x0"), parse_scalar("x0 * x0")]


def expression_of(op: Op) -> str:
    names = tuple(f"x{i}" for i in range(len(op.input_shapes)))
    return str(expressed([Node("only", op, names, "y")]).scalar)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: f"{op.kind}: {expression_of(op)}")
def test_every_operator_of_elements_is_a_routine(op: Op, dtype: str) -> None:
    expression = expression_of(op)
    for still in product((False, True), repeat=operand_count(parse_scalar(expression))):
        assert map_routine(expression, still, dtype) is not None, still


@pytest.mark.parametrize("scalar", of_one_element(), ids=str)
def test_every_function_is_a_routine_also_where_it_is_gathered(scalar: Scalar) -> None:
    assert map_routine(str(scalar), (False,), "f64") is not None
    for function, lie in product(("sum", "max"), LIES):
        assert reduce_routine(function, str(scalar), lie, "f64") is not None, lie


def test_the_list_has_every_operator_that_gathers() -> None:
    modules = ("gathering", "normalize")
    gathering = {kind for kind in named_classes() if kind.__module__.endswith(modules)}
    assert gathering == {Pool2d, Reduce, Softmax, LocalResponseNorm, BatchNorm}


def whole_list() -> Network:
    """An output for each operator of the lists, and for a sum of as many tensors as fit."""
    net = NetworkBuilder("list", "f32")
    tensors = [net.input(f"x{number}", SHAPE) for number in range(MOST_SOURCES)]
    outputs = []
    for number, op in enumerate([*POINTWISE, *GATHERING]):
        shapes = op.input_shapes[1:]
        beside = [net.weight(f"w{number}_{i}", shape) for i, shape in enumerate(shapes)]
        outputs.append(net.apply(op, tensors[0], *beside, name=f"op{number}"))
    total = tensors[0]
    for number, tensor in enumerate(tensors[1:]):
        total = net.apply(Binary("add", SHAPE, SHAPE, "f32"), total, tensor, name=f"s{number}")
    return net.build((*outputs, total))


def test_no_stage_of_any_operator_is_priced_by_assumption() -> None:
    """On the machine whose branches cost cycles; the other one has the same routines."""
    plan = build_plan(whole_list(), load_machine("sw26010_measured"), Search(keep=1))
    for stage, routines in zip(plan.stages, stage_routines(plan), strict=True):
        assert routines, stage.label
        for routine in routines:
            assert "compiled C" not in routine.call, (stage.label, routine)
            if routine.name.startswith(("tw_map", "tw_reduce")):
                assert routine.priced_cycles == routine.simulated_cycles, (stage.label, routine)


@pytest.mark.parametrize(
    ("expression", "operands", "dtype"),
    [
        (TANGLED, 1, "f64"),  # more values at a time than registers
        (" + ".join(f"x{i}" for i in range(MOST_SOURCES + 1)), MOST_SOURCES + 1, "f64"),
        ("x0 + x1", 2, "i32"),  # the core has no vectors of integers
    ],
)
def test_maps_that_stay_loops_of_c(expression: str, operands: int, dtype: str) -> None:
    assert map_routine(expression, (False,) * operands, dtype) is None


def test_reductions_that_stay_loops_of_c() -> None:
    """Others have more than two loops that gather around the innermost one, or six around them."""
    assert reduce_routine("sum", TANGLED, Lie(1), "f64") is None
