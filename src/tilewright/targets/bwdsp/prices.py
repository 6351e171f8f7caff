"""Costs of calls on a BWDSP core: four clusters of four multipliers."""

from __future__ import annotations

from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.prices import Prices
from tilewright.ir.primitives import MatrixProduct, WinogradTransform
from tilewright.machine import Machine
from tilewright.targets.bwdsp.sections import ProductRates


def _product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """Sums stay in registers while terms are added; the last vector may be short."""
    product, dims = machine.section(ProductRates), call.dims
    vectors = -(-dims[call.primitive.along] // machine.core.lanes(call.dtype))
    each = dims["k"] + product.sums_cycles
    return product.start_cycles + vectors * dims[call.primitive.across] * each


_LOOPS = elementwise_costs(LoopForm(overlapped=True))
COSTS: Costs = {
    MatrixProduct: _product_cycles,
    **{kind: cost for kind, cost in _LOOPS.items() if not issubclass(kind, WinogradTransform)},
}
"""Weights are used untransformed: Winograd's transformed ones would be more values to move."""


class BwdspPrices(Prices):
    """The default prices with the core's product; loads overlap arithmetic, as on any VLIW."""

    costs = COSTS


PRICES = BwdspPrices()
