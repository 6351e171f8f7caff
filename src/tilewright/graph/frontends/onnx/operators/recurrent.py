"""ONNX's recurrent layers, unrolled: one product of all steps' inputs with the weights, then steps.

Each step is a product of the state with its weights, and maps over the gates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.ops import Bias, Concat, Reshape, Transpose, gemm
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.op import Op, Shape, show_shape

_ACTIVATIONS = {
    "affine": "{a:1.0} * {x} + {b:0.0}", "elu": "elu({x}, {a:1.0})",
    "hardsigmoid": "min(max({a:0.2} * {x} + {b:0.5}, 0), 1)",
    "leakyrelu": "leaky_relu({x}, {a:0.01})", "relu": "relu({x})",
    "scaledtanh": "{a:1.0} * tanh({b:1.0} * {x})", "sigmoid": "sigmoid({x})",
    "softplus": "softplus({x})", "softsign": "softsign({x})", "tanh": "tanh({x})",
    "thresholdedrelu": "thresholded_relu({x}, {a:1.0})",
}  # fmt: skip
"""Expression of each activation, with default values of alpha and beta."""
_MOST_STEPS = 4096
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass
class _Map:
    """A map under construction, over (batch, hidden units), that reads parts of tensors."""

    layer: _Layer
    names: list[str] = field(default_factory=list)
    places: list[Access] = field(default_factory=list)

    def part(self, name: str, row: int = 0, column: int = 0) -> str:
        """Read a tensor from `row` and `column` on; a vector has one number per row."""
        rank = len(self.layer.at.builder.shape(name))
        return self.read(name, (((0, 1),), ((1, 1),))[:rank], (row, column)[:rank])

    def read(self, name: str, terms: Sequence[tuple[tuple[int, int], ...]], first: Shape) -> str:
        """Add an operand; returns its name in the expression."""
        self.names.append(name)
        self.places.append(Access(self.layer.at.builder.shape(name), tuple(terms), first))
        return f"x{len(self.names) - 1}"

    def gate(self, step: int, product: str, gate: int, column: int) -> str:
        """The sum of one gate's products, with the input and with the state."""
        layer = self.layer
        first = self.part(layer.gates, step * layer.batch, gate * layer.hidden)
        return f"{first} + {self.part(product, 0, column * layer.hidden)}"

    def peephole(self, gate: int, cell: str) -> str:
        """The peephole term of a gate, the cell times its weights; empty without peepholes."""
        layer = self.layer
        if not layer.at.node.has_input(7):
            return ""
        place = (layer.direction, gate * layer.hidden)
        return f" + {self.read(layer.at.operand(7), ((), ((1, 1),)), place)} * {cell}"

    def made(self, body: str, suffix: str) -> str:
        """Append the map with this body; returns its result."""
        at, extents = self.layer.at, (self.layer.batch, self.layer.hidden)
        op = at.define(extents, self.places, *self.names, body=body)
        return at.step(op, *self.names, suffix=suffix)


@dataclass
class _Layer:
    """One direction of a layer while it is unrolled, with its current state and cell."""

    at: Importer
    direction: int
    steps: int
    batch: int
    hidden: int
    activations: Sequence[str]
    gates: str = ""
    """Products of all steps' inputs with the weights: (steps x batch, gates x hidden units)."""
    state: str = ""
    cell: str = ""

    def activated(self, number: int, text: str) -> str:
        """Activation number `number` of an expression, which is clipped if the layer demands it."""
        if clip := self.at.node.attributes.get("clip"):
            text = f"min(max({text}, -{clip!r}), {clip!r})"
        return self.activations[number].replace("{x}", f"({text})")

    def cut(self, index: int, first: int, rows: int) -> str:
        """`rows` rows of this direction's weights, or as many of its biases, from `first` on."""
        shape = self.at.shape(index)
        extents = (rows, *shape[2:])
        terms = ((), *(((d, 1),) for d in range(len(extents))))
        place = Access(shape, terms, (self.direction, first, 0)[: len(shape)])
        op = Definition(extents, straight(extents), (place,), dtype=self.at.dtype)
        return self.at.step(op, self.at.operand(index), suffix=f"_cut{index}_{first}")

    def product(self, x: str, weights: str, first: int) -> str:
        """Rows times transposed weights, plus the biases of gates from `first` on."""
        (rows, depth), count = self.at.builder.shape(x), self.at.builder.shape(weights)[0]
        op = gemm(rows, count, depth, transpose_b=True, dtype=self.at.dtype)
        result = self.at.step(op, x, weights)
        if not self.at.node.has_input(3):
            return result
        biases = self.cut(3, first * self.hidden, count)
        return self.at.step(Bias(op.out_shape, dtype=self.at.dtype), result, biases)

    def initial(self, index: int) -> str:
        """The state before the first step; zeros if the node has none."""
        own, by_batch = _Map(self), self.at.node.flag("layout")
        if not self.at.node.has_input(index):
            x = own.part(self.gates)
            return own.made(f"0 if {x} == {x} else 0", "_zeros")
        terms: list[tuple[tuple[int, int], ...]] = [((0, 1),), ((1, 1),)]
        place = [0, 0]
        terms.insert(int(by_batch), ())
        place.insert(int(by_batch), self.direction)
        return own.made(own.read(self.at.operand(index), terms, tuple(place)), "_initial")

    def within(self, step: int, new: str, old: str) -> str:
        """The new state, or `old` (zeros if empty) for sequences that have ended."""
        if not self.at.node.has_input(4) or not new:
            return new
        own = _Map(self)
        a, lengths = own.part(new), own.part(self.at.operand(4, ("i32",)))
        return own.made(
            f"{a} if {step} < {lengths} else {own.part(old) if old else '0'}", "_within"
        )

    def unrolled(self, kind: _Kind, *, backward: bool) -> list[str]:
        """The states after each step; zeros beyond the end of a sequence."""
        self.state = self.initial(5)
        self.cell = self.initial(6) if self.at.node.kind == "LSTM" else ""
        weights = [self.cut(2, a * self.hidden, n * self.hidden) for a, n in kind.weights]
        found = []
        for step in range(self.steps)[:: -1 if backward else 1]:
            state, cell = kind.step(self, step, weights)
            found.append(self.within(step, state, ""))
            self.state = self.within(step, state, self.state)
            self.cell = self.within(step, cell, self.cell)
        return found[::-1] if backward else found


Step = Callable[[_Layer, int, Sequence[str]], tuple[str, str]]
"""Maps a layer, the number of a step and the state's weights to the next state and cell."""


def _lstm(layer: _Layer, step: int, weights: Sequence[str]) -> tuple[str, str]:
    i, o, f, c = range(4)
    product, own = layer.product(layer.state, weights[0], 4), _Map(layer)
    old = own.part(layer.cell)
    gate_in = layer.activated(0, own.gate(step, product, i, i) + own.peephole(0, old))
    forget = f"(1 - {gate_in})"
    if not layer.at.node.flag("input_forget"):
        forget = layer.activated(0, own.gate(step, product, f, f) + own.peephole(2, old))
    new = layer.activated(1, own.gate(step, product, c, c))
    cell = own.made(f"({forget}) * {old} + ({gate_in}) * ({new})", "_cell")
    own = _Map(layer)
    x = own.part(cell)
    out = layer.activated(0, own.gate(step, product, o, o) + own.peephole(1, x))
    return own.made(f"({out}) * ({layer.activated(2, x)})", "_state"), cell


def _gru(layer: _Layer, step: int, weights: Sequence[str]) -> tuple[str, str]:
    z, r, h = range(3)
    product, own = layer.product(layer.state, weights[0], 3), _Map(layer)
    reset = layer.activated(0, own.gate(step, product, r, r))
    if layer.at.node.flag("linear_before_reset"):
        first = own.part(layer.gates, step * layer.batch, h * layer.hidden)
        text = f"{first} + ({reset}) * {own.part(layer.product(layer.state, weights[1], 5))}"
    else:
        kept = own.made(f"({reset}) * {own.part(layer.state)}", "_reset")
        own = _Map(layer)
        text = own.gate(step, layer.product(kept, weights[1], 5), h, 0)
    new = own.made(layer.activated(1, text), "_new")
    own = _Map(layer)
    update = layer.activated(0, own.gate(step, product, z, z))
    a, b = own.part(new), own.part(layer.state)
    return own.made(f"{a} + ({update}) * ({b} - {a})", "_state"), ""


def _rnn(layer: _Layer, step: int, weights: Sequence[str]) -> tuple[str, str]:
    product, own = layer.product(layer.state, weights[0], 1), _Map(layer)
    return own.made(layer.activated(0, own.gate(step, product, 0, 0)), "_state"), ""


@dataclass(frozen=True)
class _Kind:
    """A kind of recurrent layer: its default activations, the first gate and the number of gates of
    each of the state's weights, and its step.
    """

    activations: tuple[str, ...]
    weights: tuple[tuple[int, int], ...]
    step: Step

    def translate(self, at: Importer) -> None:
        """Append the layer, direction by direction."""
        x, by_batch = at.operand(0), at.node.flag("layout")
        shape, weights = at.shape(0), at.shape(2)
        if len(shape) != 3 or shape[int(by_batch)] > _MOST_STEPS or len(weights) != 3:
            raise at.wrong(
                f"takes sequences of three dimensions and at most {_MOST_STEPS} "
                f"steps, found {show_shape(shape)}"
            )
        if by_batch:
            x = at.step(Transpose(shape, (1, 0, 2), at.dtype), x, suffix="_steps")
        steps, batch, depth = at.builder.shape(x)
        x = at.reshaped(x, (steps * batch, depth))
        hidden, directions = weights[2], _DIRECTIONS[at.node.text("direction")]
        if at.node.attributes.get("hidden_size", hidden) != hidden:
            raise at.wrong(f"hidden_size contradicts its weights of {hidden}")
        every, count = self._activations(at, len(directions)), len(self.activations)
        layers, states = [], []
        for d, backward in enumerate(directions):
            layer = _Layer(at, d, steps, batch, hidden, every[d * count : (d + 1) * count])
            layer.gates = layer.product(x, layer.cut(1, 0, at.shape(1)[1]), 0)
            states.append(layer.unrolled(self, backward=backward))
            layers.append(layer)
        whole = (steps, len(layers), batch, hidden)
        rows = [name for step in zip(*states, strict=True) for name in step]
        _concat(at, 0, rows, whole, (2, 0, 1, 3) if by_batch else ())
        for output, names in ((1, [x.state for x in layers]), (2, [x.cell for x in layers])):
            _concat(at, output, names, whole[1:], (1, 0, 2) if by_batch else ())

    def _activations(self, at: Importer, directions: int) -> list[str]:
        """Expressions over {x}; each that has an alpha or beta consumes the next given one."""
        count, found = directions * len(self.activations), []
        given = at.node.texts("activations") or self.activations * directions
        numbers = {n[0]: list(at.node.numbers(f"activation_{n}")) for n in ("alpha", "beta")}
        if len(given) != count:
            raise at.wrong(f"{count} activations are needed, found {len(given)}")

        def number(match: re.Match[str]) -> str:
            own = numbers[match[1]]
            return f"({own.pop(0) if own else match[2]})"

        for name in given:
            if name.lower() not in _ACTIVATIONS:
                raise at.wrong(f"the activation {name!r} is not supported")
            found.append(re.sub(r"\{([ab]):(.*?)\}", number, _ACTIVATIONS[name.lower()]))
        return found


def _concat(at: Importer, output: int, names: Sequence[str], shape: Shape, order: Shape) -> None:
    """Append an output of concatenated matrices, reshaped, and transposed if there is an order."""
    if output >= len(at.node.outputs) or not at.node.outputs[output]:
        return
    shapes = tuple(at.builder.shape(name) for name in names)
    made = at.step(Concat(shapes, 0, at.dtype), *names, suffix=f"_output{output}")
    op: Op = Reshape(at.builder.shape(made), shape, at.dtype)
    if order:
        made = at.step(op, made, suffix=f"_shape{output}")
        op = Transpose(shape, order, at.dtype)
    at.give(at.node.outputs[output], op, made, suffix=f"_{output}")


_ONLY = {"direction": tuple(_DIRECTIONS)}
_LSTM = _Kind(("Sigmoid", "Tanh", "Tanh"), ((0, 4),), _lstm)
_GRU = _Kind(("Sigmoid", "Tanh"), ((0, 2), (2, 1)), _gru)
_RNN = _Kind(("Tanh",), ((0, 1),), _rnn)

READ = (
    Operator("GRU", _GRU.translate, only=_ONLY, usual={"direction": "forward"}, many=True),
    Operator("LSTM", _LSTM.translate, only=_ONLY, many=True),
    Operator("RNN", _RNN.translate, only=_ONLY, usual={"activations": None}, many=True),
)
