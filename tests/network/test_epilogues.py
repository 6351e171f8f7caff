"""Epilogues: steps behind a product, computed on its tiles."""

from dataclasses import replace
from math import prod
from types import SimpleNamespace

import pytest

from support.plans import GROUP, ONE_WAY
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.network.build import rank_network
from tilewright.network.planning.epilogues import (
    _PATIENCE,
    Epilogue,
    Rankings,
    Request,
    _saved,
    ranked_epilogues,
)
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.products import Ranked
from tilewright.network.planning.variants import variants
from tilewright.network.waits import moving_cycles
from tilewright.ops import Bias, Conv2d, Unary, conv2d, gemm, max_pool2d, relu
from tilewright.ops.op import Op
from tilewright.seeds.convolution.winograd import applies
from tilewright.seeds.pooling import windows_of
from tilewright.tune.candidate import Candidate
from tilewright.tune.refills import with_refills


def with_bias(op: Conv2d, behind: Op) -> Network:
    net = NetworkBuilder("n", "f64")
    y = net.input("x", op.input_shapes[0])
    y = net.apply(op, y, net.weight("w", op.input_shapes[1]), name="conv")
    y = net.apply(Bias(op.out_shape), y, net.weight("shift", op.out_shape[1:2]), name="bias")
    return net.build((net.apply(behind, y, name="behind"),))


def request_of(whole: Network) -> Request:
    (variant,) = variants(whole, applies, fuse=True)
    (request,) = [chain.request for chain in variant.chains]
    assert request is not None
    return request


def epilogues(request: Request, ranked: Ranked, known: Rankings) -> tuple[Candidate, ...]:
    return ranked_epilogues([request], ranked, GROUP, known, lambda op, epilogue: 0.0, Forms())[
        request
    ]


def test_a_product_with_its_epilogue_is_ranked_once_for_all_drafts(monkeypatch):
    op = conv2d(batch=1, in_channels=16, out_channels=32, height=6, width=6, kernel=1)
    whole = with_bias(op, relu(op.out_shape))
    ranked, known = rank_network(whole, GROUP, ONE_WAY), Rankings()
    first = epilogues(request_of(whole), ranked, known)
    assert first, "it pays"
    monkeypatch.setattr("tilewright.network.planning.epilogues.kept_rankings", None)
    assert epilogues(request_of(whole), ranked, known) == first


def test_where_no_schedule_of_the_best_plain_products_pays_others_that_may_are_ranked():
    op = conv2d(batch=8, in_channels=1, out_channels=6, height=32, width=32, kernel=5)
    whole = with_bias(op, Unary("tanh", op.out_shape))
    request, ranked = request_of(whole), rank_network(whole, GROUP)
    assert epilogues(request, replace(ranked, floors={}), Rankings()) == ()
    best, *_ = epilogues(request, ranked, Rankings())
    plain = ranked.best(op)
    structures = {c.nests[0].structure.steps for c in ranked.candidates[op]}
    assert best.seed.name == plain.seed.name == "direct_vectors"
    assert best.nests[0].structure.steps not in structures
    assert plain.cycles < best.cycles < 1.3 * plain.cycles


class Asked(Rankings):
    """Keeps the choices that it is asked for, and knows no seed with them."""

    def __init__(self) -> None:
        super().__init__()
        self.choices: dict[Epilogue, set[tuple[object, ...]]] = {}

    def seed(self, plain, choices, epilogue):
        self.choices.setdefault(epilogue, set()).add((plain.name, *choices))


def test_products_that_pool_their_results_lend_their_schedules_to_others():
    """Of two products with a bias and a rectifier the second one tries the first one's schedules,
    whether that pools or not.
    """
    ops = [
        conv2d(batch=1, in_channels=16, out_channels=n, height=6, width=6, kernel=1)
        for n in (32, 48)
    ]
    net = NetworkBuilder("n", "f64")
    x = net.input("x", ops[0].input_shapes[0])
    made = [
        net.apply(op, x, net.weight(f"w{i}", op.input_shapes[1]), name=f"y{i}")
        for i, op in enumerate(ops)
    ]
    every = rank_network(net.build(tuple(made)), GROUP).candidates
    ranked = Ranked({ops[0]: every[ops[0]], ops[1]: every[ops[1]][:1]})
    (_, epilogue), second = (request_of(with_bias(op, relu(op.out_shape))) for op in ops)
    pooled = replace(epilogue, windows=windows_of(max_pool2d(ops[0].out_shape, 2, stride=2)))
    found = []
    for own in (epilogue, pooled):
        known = Asked()
        ranked_epilogues([(ops[0], own), second], ranked, GROUP, known, lambda *_: 0.0, Forms())
        found.append(known.choices[epilogue])
    assert second[1] == epilogue
    assert found[1] <= found[0]


def test_among_products_with_an_epilogue_are_some_whose_routines_share_the_cache():
    """A fully connected layer of five outputs, a part of LeNet-5's last one."""
    net = NetworkBuilder("n", "f64")
    op = gemm(1, 5, 84, transpose_b=True)
    y = net.apply(op, net.input("x", (1, 84)), net.weight("w", (5, 84)), name="output")
    y = net.apply(Bias(op.out_shape), y, net.weight("shift", (5,)), name="bias")
    whole = net.build((y,))
    ranked = rank_network(whole, GROUP)
    found = [with_refills(c, GROUP) for c in epilogues(request_of(whole), ranked, Rankings())]
    best = min(found, key=lambda c: c.cycles)
    assert found[0].refill_cycles > 0.3 * found[0].cycles
    assert best.refill_cycles == 0
    assert best.cycles < 0.7 * found[0].cycles


def test_an_epilogue_saves_the_pass_that_would_read_what_it_reads_whole():
    """The pass moves the result twice, and as much again for a tensor of its shape."""
    op = conv2d(batch=8, in_channels=8, out_channels=64, height=32, width=32, kernel=1)
    ranked = SimpleNamespace(groups=1)
    adds = Epilogue("x0 + x1", (), (("r", True),))
    saved = [
        _saved(op, epilogue, ranked, GROUP)
        for epilogue in (Epilogue("x0", (), ()), replace(adds, beside=(("r", False),)), adds)
    ]
    size = 8 * prod(op.out_shape)
    more = moving_cycles(GROUP, 2 * size, size, 1) - moving_cycles(GROUP, size, size, 1)
    assert saved[0] == 0 < saved[1]
    assert saved[2] - saved[1] == pytest.approx(_PATIENCE * more)
