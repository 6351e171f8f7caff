"""ONNX's recurrent layers: one product of all steps with the weights, then step after step.

A step is a product of the state and maps over the gates, so that a layer is products and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer, types_text
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Bias, Concat, Reshape, Transpose, gemm
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.op import Op, Shape, show_shape

_ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "affine": ("{a} * {x} + {b}", 1.0, 0.0),
    "elu": ("elu({x}, {a})", 1.0, None),
    "hardsigmoid": ("min(max({a} * {x} + {b}, 0), 1)", 0.2, 0.5),
    "leakyrelu": ("leaky_relu({x}, {a})", 0.01, None),
    "relu": ("relu({x})", None, None),
    "scaledtanh": ("{a} * tanh({b} * {x})", 1.0, 1.0),
    "sigmoid": ("sigmoid({x})", None, None),
    "softplus": ("softplus({x})", None, None),
    "softsign": ("softsign({x})", None, None),
    "tanh": ("tanh({x})", None, None),
    "thresholdedrelu": ("thresholded_relu({x}, {a})", 1.0, None),
}
"""Expression of each activation, and alpha and beta where the file gives none."""

_MOST_STEPS = 4096
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass
class _Map:
    """An expression over parts of tensors, rows of a batch times hidden units, being written."""

    shape: Shape
    importer: Importer
    names: list[str] = field(default_factory=list)
    places: list[Access] = field(default_factory=list)

    def part(self, name: str, row: int = 0, column: int = 0) -> str:
        """Rows and columns from these on; a tensor of one dimension holds a number for a row."""
        shape = self.importer.builder.shape(name)
        terms = (((0, 1),), ((1, 1),))[: len(shape)]
        return self.read(name, Access(shape, terms, (row, column)[: len(shape)]))

    def row(self, name: str, row: int, column: int) -> str:
        """Columns of one row, for each row of the batch."""
        shape = self.importer.builder.shape(name)
        return self.read(name, Access(shape, ((), ((1, 1),)), (row, column)))

    def read(self, name: str, place: Access) -> str:
        """An operand of the expression."""
        self.names.append(name)
        self.places.append(place)
        return f"x{len(self.names) - 1}"

    def definition(self, body: str) -> Definition:
        """The map with this body."""
        kinds = [self.importer.builder.element_type(name) for name in self.names]
        types = types_text(kinds, self.importer.dtype, self.importer.dtype)
        return Definition(self.shape, straight(self.shape), tuple(self.places), body, dtype=types)


@dataclass
class _Layer:
    """One direction of a layer while it is unrolled: its state, and what a step makes of it."""

    importer: Importer
    node: OnnxNode
    direction: int
    steps: int
    batch: int
    hidden: int
    activations: Sequence[str]
    gates: str = ""
    """Products of all steps with the weights: steps times batch, gates times hidden units."""
    state: str = ""
    cell: str = ""

    def map(self) -> _Map:
        """A map over the batch and the hidden units."""
        return _Map((self.batch, self.hidden), self.importer)

    def made(self, own: _Map, body: str, suffix: str) -> str:
        """The result of a map."""
        return self.importer.step(self.node, own.definition(body), *own.names, suffix=suffix)

    def activated(self, number: int, text: str) -> str:
        """An activation of a text; its operand is clipped where the layer says so."""
        clip = self.node.attributes.get("clip")
        if clip:
            text = f"min(max({text}, -{clip!r}), {clip!r})"
        return self.activations[number].replace("{x}", f"({text})")

    def gate(self, own: _Map, step: int, product: str, gate: int, column: int) -> str:
        """The sum of both products for one gate."""
        first = own.part(self.gates, step * self.batch, gate * self.hidden)
        return f"{first} + {own.part(product, 0, column * self.hidden)}"

    def weights(self, index: int, first: int = 0, count: int = 0) -> str:
        """Rows of the weights of this direction, all of them without a count."""
        name, shape = self.importer.operand(self.node, index), self.importer.shape(self.node, index)
        rows = count * self.hidden or shape[1]
        terms = ((), ((0, 1),), ((1, 1),))
        place = Access(shape, terms, (self.direction, first * self.hidden, 0))
        extents = (rows, shape[2])
        op = Definition(extents, straight(extents), (place,), dtype=self.importer.dtype)
        return self.importer.step(self.node, op, name, suffix=f"_weights{index}_{first}")

    def product(self, x: str, weights: str, first: int) -> str:
        """Rows times transposed weights, plus the biases from the number `first` on."""
        importer, kind = self.importer, self.importer.dtype
        (rows, depth), count = importer.builder.shape(x), importer.builder.shape(weights)[0]
        op = gemm(rows, count, depth, transpose_b=True, dtype=kind)
        result = importer.step(self.node, op, x, weights)
        if not self.node.has_input(3):
            return result
        shape = importer.shape(self.node, 3)
        place = Access(shape, ((), ((0, 1),)), (self.direction, first))
        own = Definition((count,), straight((count,)), (place,), dtype=kind)
        biases = importer.step(self.node, own, importer.operand(self.node, 3), suffix="_biases")
        return importer.step(self.node, Bias(op.out_shape, dtype=kind), result, biases)

    def initial(self, index: int) -> str:
        """The state before the first step, zeros where none is given."""
        own = self.map()
        if not self.node.has_input(index):
            x = own.part(self.gates)
            return self.made(own, f"0 if {x} == {x} else 0", "_zeros")
        shape = self.importer.shape(self.node, index)
        rows, columns, at = ((0, 1),), ((1, 1),), self.direction
        place = Access(shape, ((), rows, columns), (at, 0, 0))
        if self.node.attributes.get("layout"):
            place = Access(shape, (rows, (), columns), (0, at, 0))
        name = own.read(self.importer.operand(self.node, index), place)
        return self.made(own, name, "_initial")

    def within(self, step: int, new: str, old: str) -> str:
        """The new state, or the old one for sequences that have ended."""
        if not self.node.has_input(4):
            return new
        own = self.map()
        a, lengths = own.part(new), own.part(self.importer.operand(self.node, 4, ("i32",)))
        other = own.part(old) if old else "0"
        return self.made(own, f"{a} if {step} < {lengths} else {other}", "_within")


Step = Callable[[_Layer, int, Sequence[str]], tuple[str, str]]
"""From a layer, the number of a step and weights of the state to the next state and cell."""


def _lstm(layer: _Layer, step: int, weights: Sequence[str]) -> tuple[str, str]:
    i, o, f, c = range(4)
    product = layer.product(layer.state, weights[0], 4 * layer.hidden)
    own = layer.map()
    old = own.part(layer.cell)
    gate_in = layer.activated(
        0, layer.gate(own, step, product, i, i) + _peephole(layer, own, 0, old)
    )
    forget = f"(1 - {gate_in})"
    if not layer.node.integer("input_forget"):
        text = layer.gate(own, step, product, f, f) + _peephole(layer, own, 2, old)
        forget = layer.activated(0, text)
    new = layer.activated(1, layer.gate(own, step, product, c, c))
    cell = layer.made(own, f"({forget}) * {old} + ({gate_in}) * ({new})", "_cell")
    own = layer.map()
    x = own.part(cell)
    out = layer.activated(0, layer.gate(own, step, product, o, o) + _peephole(layer, own, 1, x))
    return layer.made(own, f"({out}) * ({layer.activated(2, x)})", "_state"), cell


def _peephole(layer: _Layer, own: _Map, gate: int, cell: str) -> str:
    """The cell times its weights, as a term of a gate; empty without peepholes."""
    if not layer.node.has_input(7):
        return ""
    weights = layer.importer.operand(layer.node, 7)
    return f" + {own.row(weights, layer.direction, gate * layer.hidden)} * {cell}"


def _gru(layer: _Layer, step: int, weights: Sequence[str]) -> tuple[str, str]:
    z, r, h = range(3)
    hidden = layer.hidden
    product = layer.product(layer.state, weights[0], 3 * hidden)
    own = layer.map()
    if layer.node.attributes.get("linear_before_reset"):
        reset = layer.activated(0, layer.gate(own, step, product, r, r))
        first = own.part(layer.gates, step * layer.batch, h * hidden)
        inner = own.part(layer.product(layer.state, weights[1], 5 * hidden))
        text = f"{first} + ({reset}) * {inner}"
    else:
        reset = layer.activated(0, layer.gate(own, step, product, r, r))
        kept = layer.made(own, f"({reset}) * {own.part(layer.state)}", "_reset")
        own = layer.map()
        text = layer.gate(own, step, layer.product(kept, weights[1], 5 * hidden), h, 0)
    new = layer.made(own, layer.activated(1, text), "_new")
    own = layer.map()
    update = layer.activated(0, layer.gate(own, step, product, z, z))
    a, b = own.part(new), own.part(layer.state)
    return layer.made(own, f"{a} + ({update}) * ({b} - {a})", "_state"), ""


def _rnn(layer: _Layer, step: int, weights: Sequence[str]) -> tuple[str, str]:
    product, own = layer.product(layer.state, weights[0], layer.hidden), layer.map()
    text = layer.gate(own, step, product, 0, 0)
    return layer.made(own, layer.activated(0, text), "_state"), ""


@dataclass(frozen=True)
class _Kind:
    """A recurrent layer: activations by default, gates of each weight of the state, its step."""

    activations: tuple[str, ...]
    weights: tuple[tuple[int, int], ...]
    step: Step

    def translate(self, importer: Importer, node: OnnxNode) -> None:
        """Append the layer, direction by direction."""
        x, by_batch = importer.operand(node, 0), bool(node.attributes.get("layout"))
        if by_batch:
            op = Transpose(importer.shape(node, 0), (1, 0, 2), importer.dtype)
            x = importer.step(node, op, x, suffix="_steps")
        shape = importer.builder.shape(x)
        if len(shape) != 3 or shape[0] > _MOST_STEPS:
            raise GraphError(
                f"{node.title()}: takes sequences of three dimensions and at most {_MOST_STEPS} "
                f"steps, found {show_shape(shape)}"
            )
        steps, batch, depth = shape
        x = importer.step(node, Reshape(shape, (steps * batch, depth), importer.dtype), x)
        directions = _DIRECTIONS[node.text("direction")]
        hidden = importer.shape(node, 2)[2]
        if node.attributes.get("hidden_size", hidden) != hidden:
            raise GraphError(f"{node.title()}: hidden_size contradicts its weights of {hidden}")
        every = self._activations(node, len(directions))
        count = len(self.activations)
        layers, states = [], []
        for d, backward in enumerate(directions):
            own = every[d * count : (d + 1) * count]
            layer = _Layer(importer, node, d, steps, batch, hidden, own)
            layer.gates = layer.product(x, layer.weights(1), 0)
            states.append(self._unrolled(layer, backward=backward))
            layers.append(layer)
        _outputs(layers, states, by_batch=by_batch)

    def _unrolled(self, layer: _Layer, *, backward: bool) -> list[str]:
        """The states of all steps, zeros beyond the end of a sequence."""
        layer.state = layer.initial(5)
        layer.cell = layer.initial(6) if layer.node.kind == "LSTM" else ""
        weights = [layer.weights(2, first, count) for first, count in self.weights]
        found = []
        order = range(layer.steps)
        for step in reversed(order) if backward else order:
            state, cell = self.step(layer, step, weights)
            found.append(layer.within(step, state, ""))
            layer.state = layer.within(step, state, layer.state)
            layer.cell = layer.within(step, cell, layer.cell) if cell else ""
        return found[::-1] if backward else found

    def _activations(self, node: OnnxNode, directions: int) -> list[str]:
        """Expressions over {x}; alphas and betas are taken by those that have one."""
        given = node.texts("activations") or self.activations * directions
        numbers = [list(node.numbers(f"activation_{name}")) for name in ("alpha", "beta")]
        if len(given) != directions * len(self.activations):
            raise GraphError(
                f"{node.title()}: {directions * len(self.activations)} activations are needed, "
                f"found {len(given)}"
            )
        found = []
        for name in given:
            if name.lower() not in _ACTIVATIONS:
                raise GraphError(f"{node.title()}: the activation {name!r} is not supported")
            text, *usual = _ACTIVATIONS[name.lower()]
            for letter, number, own in zip("ab", usual, numbers, strict=True):
                if number is not None:
                    text = text.replace(f"{{{letter}}}", f"({own.pop(0) if own else number!r})")
            found.append(text)
        return found


def _outputs(layers: Sequence[_Layer], states: Sequence[Sequence[str]], *, by_batch: bool) -> None:
    """All states, and the last state and cell, of all directions."""
    first, several = layers[0], len(layers)
    every = [name for step in zip(*states, strict=True) for name in step]
    shape = (first.steps, several, first.batch, first.hidden)
    _joined(first, 0, every, shape, (2, 0, 1, 3) if by_batch else ())
    for output, names in ((1, [x.state for x in layers]), (2, [x.cell for x in layers])):
        _joined(first, output, names, shape[1:], (1, 0, 2) if by_batch else ())


def _joined(layer: _Layer, output: int, names: Sequence[str], shape: Shape, order: Shape) -> None:
    """Matrices one after the other as an output of this shape, or with its axes in this order."""
    importer, node, kind = layer.importer, layer.node, layer.importer.dtype
    if output >= len(node.outputs) or not node.outputs[output]:
        return
    shapes = tuple(importer.builder.shape(name) for name in names)
    made = importer.step(node, Concat(shapes, 0, kind), *names, suffix=f"_output{output}")
    op: Op = Reshape(importer.builder.shape(made), shape, kind)
    if order:
        made = importer.step(node, op, made, suffix=f"_shape{output}")
        op = Transpose(shape, order, kind)
    importer.give(node.outputs[output], node, op, made, suffix=f"_{output}")


_LSTM = _Kind(("Sigmoid", "Tanh", "Tanh"), ((0, 4),), _lstm)
_GRU = _Kind(("Sigmoid", "Tanh"), ((0, 2), (2, 1)), _gru)
_RNN = _Kind(("Tanh",), ((0, 1),), _rnn)


def _operator(kind: str, versions: tuple[int, ...], layer: _Kind, *more: Attribute) -> Operator:
    last = ("initial_c", "P") if kind == "LSTM" else ()
    return Operator(
        kind,
        versions,
        (
            X,
            Input("W"),
            Input("R"),
            Input("B", optional=True),
            Input("sequence_lens", elements="integer", optional=True),
            *(Input(name, optional=True) for name in ("initial_h", *last)),
        ),
        (
            Attribute("activation_alpha", "numbers"),
            Attribute("activation_beta", "numbers"),
            Attribute("activations", "texts"),
            Attribute("clip", "number"),
            Attribute("direction", "text", "forward", tuple(_DIRECTIONS)),
            Attribute("hidden_size", "integer"),
            Attribute("layout", "integer", 0, (0, 1), since=14),
            *more,
        ),
        layer.translate,
        many=True,
    )


_SEQUENCE = Attribute("output_sequence", "integer", 0, until=6)
RECURRENT = (
    _operator(
        "GRU",
        (1, 3, 7, 14, 22),
        _GRU,
        Attribute("linear_before_reset", "integer", 0, (0, 1), since=3),
        _SEQUENCE,
    ),
    _operator(
        "LSTM", (1, 7, 14, 22), _LSTM, Attribute("input_forget", "integer", 0, (0, 1)), _SEQUENCE
    ),
    _operator("RNN", (1, 7, 14, 22), _RNN, _SEQUENCE),
)
