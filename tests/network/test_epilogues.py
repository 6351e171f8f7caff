"""Epilogues: steps behind a product, computed on its tiles."""

from support.plans import GROUP, ONE_WAY
from tilewright.graph.builder import NetworkBuilder
from tilewright.network.build import rank_network
from tilewright.network.planning.epilogues import Rankings, ranked_epilogues
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.variants import variants
from tilewright.ops import Bias, conv2d, relu


def test_a_product_with_its_epilogue_is_ranked_once_for_all_drafts(monkeypatch):
    op = conv2d(batch=1, in_channels=16, out_channels=32, height=6, width=6, kernel=1)
    net = NetworkBuilder("n", "f64")
    y = net.input("x", op.input_shapes[0])
    y = net.apply(op, y, net.weight("w", op.input_shapes[1]), name="conv")
    y = net.apply(Bias(op.out_shape), y, net.weight("shift", (32,)), name="bias")
    whole = net.build((net.apply(relu(op.out_shape), y, name="relu"),))
    ranked = rank_network(whole, GROUP, ONE_WAY)
    (variant,) = variants(whole, fuse=True)
    (request,) = [chain.request for chain in variant.chains]
    assert request is not None
    known = Rankings()
    forms = Forms()
    first = ranked_epilogues([request], ranked, GROUP, known, lambda op, epilogue: 0.0, forms)
    assert first[request], "it pays"
    monkeypatch.setattr("tilewright.network.planning.epilogues.kept_rankings", None)
    (variant,) = variants(whole, fuse=True)
    again = ranked_epilogues(
        [variant.chains[0].request], ranked, GROUP, known, lambda op, epilogue: 0.0, forms
    )
    assert again == first
