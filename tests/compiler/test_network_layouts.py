"""Layouts are chosen for the whole network on this computer, too: what neighbours have counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from tilewright.common.dtypes import F32
from tilewright.common.progress import silent
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.graph import Network
from tilewright.ir.scalar import parse_scalar
from tilewright.machine import load_machine
from tilewright.machine.sections import VectorPrimitive
from tilewright.network.build import build_plan
from tilewright.network.planning.epilogues import Epilogue
from tilewright.network.planning.form import Form, StoredDim, canonical
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.layouts import NodeChain, WholeNetwork
from tilewright.network.planning.products import Ranked
from tilewright.network.planning.variants import Variant, as_it_stands
from tilewright.network.plans import Search
from tilewright.ops import Conv2d, Op, add, conv2d, relu
from tilewright.ops.definition import Definition
from tilewright.seeds.space import seeds_for
from tilewright.targets.host.network.planner import HostPlanner, ranked_kernels
from tilewright.targets.host.vectors.expressions import vector_operations
from tilewright.tune.candidate import Candidate
from tilewright.tune.refills import Refills

SHAPE = (1, 32, 28, 28)
CHANNEL, NONE = 1, (0,) * 4
HOST = load_machine("host_avx2")


def form(*order: int) -> Form:
    return canonical(SHAPE, [StoredDim(axis, 1, SHAPE[axis]) for axis in order], (0,) * 4)


PIXELS, CHANNELS = FORMS = form(1, 2, 3), form(2, 3, 1)


def layer(kernel: int) -> Conv2d:
    return conv2d(
        batch=1, in_channels=32, out_channels=32, height=28, width=28, kernel=kernel,
        padding=kernel // 2, dtype="f32",
    )  # fmt: skip


def chain() -> Network:
    net = NetworkBuilder("chain", "f32")
    x = net.input("x", SHAPE)
    for number, kernel in enumerate((1, 3, 5)):
        op = layer(kernel)
        x = net.apply(op, x, net.weight(f"w{number}", op.input_shapes[1]), name=f"c{number}")
    return net.build((x,))


@dataclass(frozen=True, eq=False, kw_only=True)
class Priced(Candidate):
    """A candidate at a price, all of whose tensors lie in one form."""

    form: Form
    price: float

    @property
    def cycles(self) -> float:
        return self.price


def whole_network(
    variant: Variant, ranked: Ranked, planner: HostPlanner, refills: Refills
) -> WholeNetwork:
    return WholeNetwork(variant.network, variant.chains, ranked, {}, planner, HOST, refills)


class OneForm(Forms):
    def of(self, candidate: Candidate, *, constants: bool = True) -> dict[str, Form]:
        del constants
        assert isinstance(candidate, Priced)
        return {"x": candidate.form, "y": candidate.form}


def priced(op: Conv2d, prices: Mapping[Form, float]) -> tuple[Candidate, ...]:
    (seed,) = seeds_for(op, "implicit")
    return tuple(Priced(op, seed, (), form=f, price=cycles) for f, cycles in prices.items())


@pytest.mark.parametrize(("gain", "middle"), [(1e2, CHANNELS), (1e9, PIXELS)])
def test_a_product_between_others_takes_their_layout_unless_its_own_gains_more(
    gain: float, middle: Form
) -> None:
    variant, planner = as_it_stands(chain()), HostPlanner(HOST)
    planner.forms = OneForm()
    outer = {CHANNELS: 1e6, PIXELS: 1e12}
    candidates = {layer(kernel): priced(layer(kernel), outer) for kernel in (1, 5)}
    candidates[layer(3)] = priced(layer(3), {PIXELS: 1e6, CHANNELS: 1e6 + gain})
    ranked = Ranked(candidates)
    whole = whole_network(variant, ranked, planner, Refills(HOST))
    found = whole.cheapest()
    assert found.choice is not None
    assert found.choice.proven
    taken = found.products["c1"]
    assert isinstance(taken, Priced)
    assert taken.form == middle


class Refilling(Refills):
    """Adds a cycle to some candidates, and notes which were `asked` for."""

    def __init__(self, some: tuple[Candidate, ...]) -> None:
        super().__init__(HOST)
        self._some, self.asked = some, list[Candidate]()

    def added(self, candidate: Candidate, plain: Candidate | None = None) -> Candidate:
        self.asked.append(candidate)
        return replace(candidate, refill_cycles=float(candidate in self._some))


def test_ways_are_found_again_only_where_refills_were_priced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variant, planner, asked = as_it_stands(chain()), HostPlanner(HOST), list[str]()
    planner.forms = OneForm()
    candidates = {layer(k): priced(layer(k), {PIXELS: 1e6}) for k in (1, 3, 5)}
    refills = Refilling(candidates[layer(3)])
    whole = whole_network(variant, Ranked(candidates), planner, refills)
    ways = whole._ways

    def counted(own: NodeChain) -> object:
        asked.append(own.first.name)
        return ways(own)

    monkeypatch.setattr(whole, "_ways", counted)
    whole.cheapest()
    assert asked == ["c0", "c1", "c2", "c1"]


def test_refills_are_priced_of_products_that_would_be_taken_alone() -> None:
    variant, planner = as_it_stands(chain()), HostPlanner(HOST)
    planner.forms = OneForm()
    candidates = {layer(k): priced(layer(k), {PIXELS: 1e6}) for k in (1, 5)}
    near, far = (priced(layer(3), {PIXELS: 1e6 + more})[0] for more in (0.5, 2.0))
    best = priced(layer(3), {PIXELS: 1e6})[0]
    ranked = Ranked({**candidates, layer(3): (best, near, far)})
    refills = Refilling((best,))
    assert whole_network(variant, ranked, planner, refills).cheapest().products["c1"] is near
    assert [c for c in refills.asked if c.op == layer(3)] == [best, near]


def between(op: Op) -> Network:
    net = NetworkBuilder("two", "f32")
    x, product = net.input("x", SHAPE), layer(3)
    w = net.weight("w", product.input_shapes[1])
    y = net.apply(op, net.apply(product, x, w, name="c"), name="f")
    return net.build((net.apply(product, y, w, name="d"),))


@pytest.mark.parametrize("expression", ["relu", "round(sin)"])
def test_only_what_a_kernel_cannot_finish_costs_a_pass(expression: str) -> None:
    rounded = define("y[n,c,h,w] = round(sin(x[n,c,h,w]))", dtype="f32", x=SHAPE)
    assert isinstance(rounded, Definition)
    network = between(relu(SHAPE, dtype="f32") if expression == "relu" else rounded)
    ranked = ranked_kernels(network, HOST, Search("direct", keep=1), silent)
    plan = build_plan(network, HOST, ranked=ranked, planner=HostPlanner(HOST))
    passes = [stage.scheduled.cycles for stage in plan.stages if stage.work == "elementwise"]
    ways = (HOST.dma.get, HOST.dma.put)
    copy = 4 * math.prod(SHAPE) * sum(HOST.clock_hz / way.peak_bytes_per_second for way in ways)
    if expression == "relu":
        assert passes == []
    else:
        (cycles,) = passes
        assert cycles > copy  # a function costs its operations where these take longer


@pytest.mark.parametrize(("name", "units"), [("host", 1), ("host_zen5", 2), ("host_avx2", 2)])
def test_each_unit_for_multiply_adds_takes_an_operation_of_a_function_a_cycle(
    name: str, units: int
) -> None:
    machine = load_machine(name)
    lanes = machine.core.lanes("f32")
    operations = vector_operations(parse_scalar("tanh(x0)"), F32, lanes)
    found = HostPlanner(machine).arithmetic_cycles(layer(1), Epilogue("tanh(x0)", (), ()))
    assert found == math.prod(SHAPE) / lanes * operations / units


@pytest.mark.parametrize(("channels", "lanes"), [(6, 8), (8, 8), (12, 16)])
def test_a_vector_of_channels_takes_as_long_where_it_is_not_full(channels: int, lanes: int) -> None:
    """In a kernel, and in a pass that adds a bias to channels side by side; with pixels side by
    side all vectors of 28 x 28 are full.
    """
    net, op = NetworkBuilder("alone", "f32"), replace(layer(3), out_channels=channels)
    weight = net.weight("w", op.input_shapes[1])
    network = net.build((net.apply(op, net.input("x", SHAPE), weight, name="c"),))
    ranked = ranked_kernels(network, HOST, Search("direct", keep=1), silent)
    request = op, Epilogue("tanh(x0 + x1)", (("channels",),), (((CHANNEL,), False),))
    planner = HostPlanner(HOST)
    every = planner.arithmetic_cycles(*request)
    pixels, side_by_side = (
        canonical(op.out_shape, [StoredDim(axis, 1, op.out_shape[axis]) for axis in order], NONE)
        for order in ((1, 2, 3), (2, 3, 1))
    )
    assert planner.arithmetic_cycles(*request, pixels) == every
    filled = pytest.approx(every * lanes / channels)
    assert planner.arithmetic_cycles(*request, side_by_side) == filled
    (fused,) = planner.epilogues([request], ranked)[request]
    stored = 28 * 28 * lanes / 8 * HOST.section(VectorPrimitive).load_cycles
    assert fused.cycles - ranked.candidates[op][0].cycles + stored == filled


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_pass_behind_a_product_reads_its_result_and_what_is_beside_it(others: int) -> None:
    """Half a pass for each other tensor; against the grain arithmetic is not hidden."""
    net = NetworkBuilder("pass", "f32")
    x, *beside = (net.input(f"x{number}", SHAPE) for number in range(1 + others))
    weight = net.weight("w", layer(1).input_shapes[1])
    y = net.apply(layer(1), x, weight, name="c")
    for name in beside:
        y = net.apply(add(SHAPE, dtype="f32"), y, name, name=f"add_{name}")
    y = net.apply(relu(SHAPE, dtype="f32"), y, name="relu")
    v = net.weight("v", layer(3).input_shapes[1])
    network = net.build((net.apply(layer(3), y, v, name="d"),))
    variant, planner = as_it_stands(network), HostPlanner(HOST)
    planner.forms = OneForm()
    candidates = {
        layer(1): priced(layer(1), {PIXELS: 1e6}),
        layer(3): priced(layer(3), dict.fromkeys(FORMS, 1e6)),
    }
    refills = Refilling(candidates[layer(3)])
    whole = whole_network(variant, Ranked(candidates), planner, refills)
    first = variant.chains[0]
    found = {way.form: way.cycles - 1e6 for way in whole._ways(first)}
    directions = (HOST.dma.get, HOST.dma.put)
    moved = 4 * math.prod(SHAPE) * sum(HOST.clock_hz / d.peak_bytes_per_second for d in directions)
    moved += 2 * HOST.dma.latency_cycles
    assert first.request is not None
    computed = planner.arithmetic_cycles(*first.request)
    assert 0 < computed < moved
    assert found[PIXELS] == pytest.approx(moved * (1 + others / 2))
    assert found[CHANNELS] == pytest.approx(moved * (4 + others / 2) + computed)


def test_a_kernel_takes_what_it_adds_in_the_form_of_its_result() -> None:
    net = NetworkBuilder("residual", "f32")
    x, z = net.input("x", SHAPE), net.input("z", SHAPE)
    y = net.apply(layer(1), x, net.weight("w", layer(1).input_shapes[1]), name="c")
    network = net.build((net.apply(add(SHAPE, dtype="f32"), y, z, name="sum"),))
    (own,), planner = as_it_stands(network).chains, HostPlanner(HOST)
    planner.forms = OneForm()
    assert own.request is not None
    ready = {own.request: priced(layer(1), {CHANNELS: 1e6})}
    ranked = Ranked({layer(1): priced(layer(1), {PIXELS: 1e6})})
    whole = WholeNetwork(network, [own], ranked, ready, planner, HOST, Refills(HOST))
    fused = [way for way in whole._ways(own) if way.fused]
    assert [(way.form, way.takes) for way in fused] == [(CHANNELS, dict.fromkeys("xz", CHANNELS))]
