"""Prices of calls and transfers of a Duo."""

from __future__ import annotations

from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.prices import Prices
from tilewright.cost.timing import TransferShape, transfer_cycles
from tilewright.ir.nodes import Direction
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright_duo.sections import Port, Product


def product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """The start, then a cycle for each vector of multiply-adds; the last vector may be short."""
    product, dims = call.primitive, call.dims
    vectors = -(-dims[product.along] // machine.core.lanes("i16"))
    steps = vectors * dims[product.across] * dims["k"]
    return steps + machine.section(Product).start_cycles


COSTS: Costs = {MatrixProduct: product_cycles, **elementwise_costs(LoopForm())}


class DuoPrices(Prices):
    """The usual prices, with the core's own product and a port that turns before each transfer."""

    costs = COSTS

    def service_cycles(
        self,
        machine: Machine,
        direction: Direction,
        shape: TransferShape,
        tensor_bytes: Value,
        *,
        shared: bool,
    ) -> Value:
        """As if every transfer found the port turned to another memory: never too little."""
        turn = (shape.requests > 0) * machine.section(Port).turn_cycles
        return transfer_cycles(machine, direction, shape, shared=shared) + turn


PRICES = DuoPrices()
