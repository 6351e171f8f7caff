"""Matrix multiplication by a constant matrix, such as the weights of a network.

The same loops as `gemm`, with B a constant that products read in place. It is packed once, ahead of
all calls, if it is read by vectors. For machines whose cores address main memory. Only callers that
know B to be constant may use it, so it is chosen by name alone.
"""

from __future__ import annotations

from tilewright.ops import Gemm
from tilewright.seeds.gemm import gemm_seed
from tilewright.seeds.space import Seed, seed


@seed("gemm", name="prepacked", baseline=True)
def prepacked(op: Gemm) -> Seed:
    """C = alpha A B + beta C with a constant B."""
    return gemm_seed("prepacked", "constant", op.transpose_a, op.transpose_b, op.alpha, op.beta)
