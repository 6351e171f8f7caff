"""Modules of torch against what torch computes, and what is refused of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.common.errors import GraphError, ToolError

try:
    import torch
except ImportError:
    torch: Any = None  # type: ignore[no-redef]

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own of what it will remove


def _difference(module: Any, *inputs: Any) -> float:
    """The largest difference in parts of the largest magnitude of an output."""
    network = tw.load(module, inputs)
    given = {t.name: x.numpy() for t, x in zip(network.inputs, inputs, strict=True)}
    found = network.evaluate(given)
    with torch.no_grad():
        wanted = module.eval()(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    ours = [found[name] for name in network.outputs]
    assert [(x.shape, x.dtype) for x in ours] == [(x.shape, x.numpy().dtype) for x in wanted]
    return max(
        float(np.abs(a - b.numpy()).max() / np.abs(b.numpy()).max())
        for a, b in zip(ours, wanted, strict=True)
    )


def _module(function: Any, *parts: Any) -> Any:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(parts)

        def forward(self, *inputs: Any) -> Any:
            return function(*self.parts, *inputs)

    return Module()


@needs_torch
def test_convolutions_normalisation_and_pools() -> None:
    nn = torch.nn
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(inplace=True), nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.GroupNorm(2, 8), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5), nn.Softmax(1),
    )  # fmt: skip
    layers[1].running_mean.normal_()
    assert _difference(nn.Sequential(*layers), torch.randn(2, 3, 16, 16)) < 1e-5


@needs_torch
def test_attention_with_places_and_masks() -> None:
    torch.manual_seed(1)

    def seen(table: Any, norm: Any, ids: Any, mask: Any) -> Any:
        x = norm(table(ids) + table(torch.arange(ids.shape[1])))
        heads = x.view(*x.shape[:2], 2, -1).transpose(1, 2)
        attend = torch.nn.functional.scaled_dot_product_attention
        causal = attend(heads, heads, heads, is_causal=True)
        masked = attend(heads, heads, heads, attn_mask=mask.bool()[:, None, None])
        return (causal + masked).transpose(1, 2).flatten(2)

    module = _module(seen, torch.nn.Embedding(10, 8), torch.nn.LayerNorm(8))
    ids, mask = torch.randint(0, 10, (2, 5)), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    assert _difference(module, ids, mask) < 1e-5


@needs_torch
def test_layers_of_an_lstm_both_ways_with_its_last_states() -> None:
    torch.manual_seed(2)
    lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    module = _module(lambda own, x: (own(x)[0], *own(x)[1]), lstm)
    assert _difference(module, torch.randn(2, 5, 3)) < 1e-5


@needs_torch
def test_changes_in_place_are_seen_by_what_reads_the_tensor_later() -> None:
    def changed(x: Any) -> Any:
        y = x * 2
        y.add_(1)
        y[:, 0] = 3.0
        return y.roll((1,), (1,)), torch.where(y > 1, y, -y), x

    assert _difference(_module(changed), torch.randn(2, 4)) < 1e-6


@needs_torch
def test_integers_and_floats_meet_in_the_type_that_torch_computes_in() -> None:
    def mixed(n: Any, x: Any) -> Any:
        return n * 0.5 + x, n / 2, n + 2, (n > 0.5) & (x < 1), n.float().mean(1, True) - n

    n = torch.tensor([[0, 1], [2, 3]])
    assert _difference(_module(lambda *a: mixed(*a)[:3]), n, torch.randn(2, 2)) < 1e-6
    assert _difference(_module(lambda *a: mixed(*a)[4]), n, torch.randn(2, 2)) < 1e-6


@needs_torch
def test_masks_and_tables_of_places_become_constants() -> None:
    def places(x: Any) -> Any:
        mask = torch.ones(4, 4, dtype=torch.bool).tril() & (torch.arange(4) != 2)
        return x.masked_fill(mask, 0.0) + torch.zeros_like(x)

    x = torch.randn(4, 4)
    assert _difference(_module(places), x) < 1e-6
    names = [node.name for node in tw.load(_module(places), x).nodes]
    assert names == ["node_masked_fill", "node_add"]


@needs_torch
def test_a_module_stays_as_it_was() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    assert _difference(module, torch.randn(1, 2)) < 1e-6
    module.train()
    tw.load(module, torch.randn(1, 2))
    assert module.training
    assert module[1].training


@needs_torch
def test_an_operator_that_torch_does_not_translate_is_named() -> None:
    with pytest.raises(GraphError) as raised:
        tw.load(_module(lambda x: torch.linalg.inv(x)), torch.eye(3))
    assert str(raised.value).startswith(
        "the module module: torch.onnx does not translate it: No ONNX function found for "
        "<OpOverload(op='aten.linalg_inv_ex', overload='default')>"
    )


@needs_torch
def test_an_operator_that_is_not_read_is_named_with_its_nodes() -> None:
    with pytest.raises(GraphError) as raised:
        tw.load(_module(lambda x: torch.nonzero(x) + torch.linalg.det(x)), torch.eye(3))
    text = str(raised.value)
    assert "Det: is not an operator that is read (node '" in text
    assert "NonZero: " in text


@needs_torch
def test_what_torch_does_not_trace() -> None:
    def branching(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(GraphError, match=r"^the module module: torch\.export does not trace it: "):
        tw.load(_module(branching), torch.ones(2))


@needs_torch
def test_upper_halves() -> None:
    module = torch.nn.Linear(8, 4).bfloat16()
    x = torch.randn(3, 8).bfloat16()
    found = tw.load(module, x).evaluate({"input": x.float().numpy().astype("bfloat16")})
    wanted = module(x).detach().float().numpy()
    assert np.abs(next(iter(found.values())).astype(np.float32) - wanted).max() < 2**-7


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None,), {}, "the example of a module is a tensor, or a tuple of tensors"),
        ((1,), {}, "the example of a module is a tensor, or a tuple of tensors"),
        (
            (torch and torch.ones(2, dtype=torch.complex64),),
            {},
            "the example of a module holds complex numbers; a network has real ones",
        ),
        ((1,), {"batch": 2}, "the shapes of a module are those of its example"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        tw.load(torch.nn.Identity(), *arguments, **options)
    assert str(raised.value) == message


def test_an_example_is_for_modules() -> None:
    with pytest.raises(GraphError) as raised:
        tw.load("vgg16", 1)
    assert str(raised.value) == "an example is a module's, found 'vgg16'"


@pytest.mark.skipif(torch is not None, reason="torch is installed")
def test_without_torch_the_way_out_is_named() -> None:
    with pytest.raises(ToolError) as raised:
        tw.load(object(), None)
    assert str(raised.value) == (
        "reading a module of torch needs torch, which is not installed; "
        "pip install 'tilewright[torch]'"
    )
