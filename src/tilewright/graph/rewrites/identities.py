"""Removes identities: readers of the result read the operand."""

from __future__ import annotations

from tilewright.graph.graph import Network
from tilewright.graph.rewriting import reading_instead
from tilewright.ops import Op
from tilewright.ops.definitions import pointwise


def without_identities(network: Network) -> Network:
    """The network without identities, except for outputs."""
    idle = {
        node.output: node.inputs[0]
        for node in network.nodes
        if is_identity(node.op) and node.output not in network.outputs
    }
    return reading_instead(network, idle)


def is_identity(op: Op) -> bool:
    """True if the result equals the first operand, in value and shape."""
    if op.reshapes:
        return op.input_shapes == (op.out_shape,)
    if op.kind == "identity" or (op.kind == "concat" and len(op.input_shapes) == 1):
        return True
    own = pointwise(op)
    whole = own is not None and own.operands == (own.result,) and own.body == own.finish == "x0"
    return whole and op.operand_dtypes == (op.out_dtype,)


REWRITE = without_identities
