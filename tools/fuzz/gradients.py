"""Gradients of random operators against central differences, and gradients of these gradients.

    PYTHONPATH=tests:tools python -m fuzz.gradients [COUNT [SEED [AGAIN]]]

Each case is an operator of any kind, followed by a weighted sum. Every tenth case, or one in AGAIN,
is differentiated twice: the gradient of the sum of its gradient with respect to one operand. If
torch is installed, convolutions and products are compared with its autograd, too. Prints what
differs.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from support.gradients import SMOOTH, differences, drawn
from tilewright.common.errors import GraphError
from tilewright.graph.gradient import with_gradients
from tilewright.graph.graph import Network
from tilewright.ops import Conv2d, Gemm

try:
    import torch
except ImportError:
    torch = None

AGAIN = 10


def check(number: int, again: int = AGAIN) -> None:
    """Raise AssertionError if a gradient differs, or, in one case of `again`, a second one."""
    rng = np.random.default_rng(number)
    network, inputs, feeds = drawn(rng, SMOOTH[number % len(SMOOTH)])
    inputs = [name for name in inputs if _matters(network, name, feeds)]
    whole, named = with_gradients(network, "loss", inputs)
    found = whole.evaluate(feeds)
    for name in inputs:
        _require(found[named[name]], differences(network, feeds, name), name)
    if torch is not None:
        for name, expected in by_autograd(network, feeds):
            if name not in named:
                continue
            _require(found[named[name]], expected, f"{name} by torch")
    if number % again == 0:
        _check_again(whole, named, inputs, feeds)


def _matters(network: Network, name: str, feeds: dict[str, Any]) -> bool:
    """False if an operand is refused as one without influence, which differences confirm."""
    try:
        with_gradients(network, "loss", [name])
    except GraphError as error:
        if "does not depend" not in str(error):
            raise
        assert not differences(network, feeds, name).any(), f"{name} matters"
        return False
    return True


def _check_again(
    once: Network, named: dict[str, str], inputs: list[str], feeds: dict[str, Any]
) -> None:
    """Compare gradients of gradients, where these depend on the first operand."""
    for name in inputs:
        try:
            twice, again = with_gradients(once, named[name], inputs[:1])
        except GraphError as error:
            if "does not depend" not in str(error):
                raise
            continue
        expected = differences(once, feeds, inputs[0], named[name])
        _require(twice.evaluate(feeds)[again[inputs[0]]], expected, f"{name}, again")


def _require(found: Any, expected: Any, name: str) -> None:
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5), (
        f"{name}: {np.abs(found - expected).max():.2e} apart"
    )


def by_autograd(network: Network, feeds: dict[str, Any]) -> list[tuple[str, Any]]:
    """Gradients by torch for a convolution or product, none for other operators."""
    op = network.nodes[0].op
    if not isinstance(op, Conv2d | Gemm):
        return []
    x, w, *_ = (torch.tensor(feeds[n], requires_grad=True) for n in network.nodes[0].inputs)
    if isinstance(op, Conv2d) and op.padding[:2] == op.padding[2:]:
        y = torch.nn.functional.conv2d(
            x, w, None, op.stride, op.padding[:2], op.dilation, op.groups
        )
    elif isinstance(op, Gemm) and op.beta == 0:
        a, b = (x.T if op.transpose_a else x), (w.T if op.transpose_b else w)
        y = op.alpha * (a @ b)
    else:
        return []
    (y * torch.tensor(feeds["g"])).sum().backward()
    return [(n, t.grad.numpy()) for n, t in zip(network.nodes[0].inputs, (x, w), strict=False)]


def main() -> int:
    """Check the cases; the exit code is 1 if one failed."""
    given = [int(x) for x in sys.argv[1:]]
    count, first, again = (*given, *(5000, 0, AGAIN)[len(given) :])
    failed = 0
    for number in range(first, first + count):
        try:
            check(number, again)
        except Exception as error:  # every failure is shown, and the next one tried
            failed += 1
            print(f"case {number}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    beside = "" if torch is None else f", beside torch {torch.__version__}"
    print(f"{count} operators, one of {again} twice, {failed} failed{beside}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
