"""PyTorch's eager operators on channels-last images: a secondary reference only.

Every call reorders the weights, which other contenders do once: ratios over it mean little.
"""

from __future__ import annotations

from dataclasses import dataclass

from host.contest import Missing, Prepared, Workload
from tilewright.ops import Gemm

try:
    import torch
except ImportError as error:
    torch, _why = None, str(error)


def find_torch(threads: int) -> Torch | Missing:
    """The package, or a `Missing` if it is not installed."""
    if torch is None:
        return Missing("torch", _why, "pip install torch")
    torch.set_num_threads(threads)
    return Torch(torch.__version__)


@dataclass(frozen=True)
class Torch:
    """Eager operators without gradients."""

    version: str
    name: str = "torch"

    def prepare(self, workload: Workload) -> list[Prepared]:
        """torch.mm, or conv2d in channels-last."""
        x, w = (torch.from_numpy(a) for a in workload.inputs)
        op = workload.op
        if isinstance(op, Gemm):
            result = torch.empty(op.out_shape)

            def run(calls: int) -> None:
                for _ in range(calls):
                    torch.mm(x, w, out=result)

            return [Prepared(run, result.numpy, "mm")]
        top, left, bottom, right = op.padding
        if (top, left) != (bottom, right):
            return []
        x, w = (a.contiguous(memory_format=torch.channels_last) for a in (x, w))
        outputs = {}

        def convolve(calls: int) -> None:
            shape = (op.stride, (top, left), op.dilation, op.groups)
            with torch.inference_mode():
                for _ in range(calls):
                    outputs["y"] = torch.conv2d(x, w, None, *shape)

        return [Prepared(convolve, lambda: outputs["y"].numpy(), "channels last")]
