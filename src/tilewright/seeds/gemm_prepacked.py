"""Matrix multiplication by a matrix that is known beforehand, as the weights of a network are.

The same loops as `gemm`, with B a constant that products read where it lies: packed once, ahead of
all calls, if that is by vectors. For machines whose cores address main memory. Only who knows that
B does not change may ask for it, hence by name alone.
"""

from __future__ import annotations

from tilewright.ops import Gemm
from tilewright.seeds.gemm import gemm_seed
from tilewright.seeds.space import Seed, seed


@seed("gemm", name="prepacked", baseline=True)
def prepacked(op: Gemm) -> Seed:
    """C = alpha A B + beta C with a constant B."""
    return gemm_seed("prepacked", "constant", op.transpose_a, op.transpose_b, op.alpha, op.beta)
