"""swDNN Fig. 2 and Eq. 5: bandwidths required and available for direct accesses and registers.

Computed from the program of the image-aware plan of Table III's first line. The level between main
memory and scratchpad, which depends on the plan, is in Table III itself.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tilewright.cost.roofline import Roofline, roofline
from tilewright.machine import Machine, load_machine
from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Findings, Kind, Row, compare
from tilewright.papers.swdnn.fixed_plans import layer, swdnn_plan

TITLE = "the three-level model: direct accesses, and between scratchpad and registers"
_GIGA = 1e9


class Quantity(Struct, frozen=True):
    """One number of the figure."""

    quantity: str
    value: float
    unit: str


def run(lab: Lab) -> Findings:
    """Each quantity from the program's roofline."""
    table = lab.published("swdnn", "figure2", Quantity)
    machine = load_machine("sw26010_cg")
    roof = _roofline(machine)
    return Findings(
        rows=tuple(_row(quantity, roof, machine) for quantity in table.rows),
        summary={
            "plain roofline of direct accesses, Gflop/s": round(
                roof.direct.roofline_flops / _GIGA, 3
            )
        },
        notes=(
            f"published: {table.source}",
            "139.2 GB/s = 3 vectors x 32 bytes x 1.45 GHz is what one core asks for, and is"
            " compared with the 8 GB/s of a whole group, which asks for"
            f" {roof.direct.required_bytes_per_second / _GIGA:.1f}",
            "23.2 GB/s counts each replicated scalar as a vector, as Eq. 5 does; with loads that"
            " read its 8 bytes alone the registers ask for 14.5 GB/s",
        ),
    )


def _roofline(machine: Machine) -> Roofline:
    op = layer(batch=128, channels=(128, 128), rows=64, cols=64, kernel=3)
    plan = swdnn_plan(op, "img", machine, promoted=False, tiles={"out_col_tile": 16})
    if plan is None:
        raise ExperimentError("the plan of Table III's first line does not fit")
    return roofline(plan.program(machine), machine)


_Formula = Callable[[Roofline, Machine], float]
_QUANTITIES: dict[str, tuple[_Formula, Kind, str]] = {
    "direct required": (
        lambda roof, machine: roof.direct.required_bytes_per_second / machine.cores / _GIGA,
        "model",
        "of one core",
    ),
    "direct available": (
        lambda roof, machine: roof.direct.available_bytes_per_second / _GIGA,
        "published",
        "of the whole group; taken from here into the machine's description",
    ),
    "direct utilization": (
        lambda roof, machine: 100 * (roof.direct.share * machine.cores) ** 2,
        "exact",
        "(8 / 139.2)^2 = 0.330 %",
    ),
    "registers required": (
        lambda roof, machine: (
            roof.levels[1].streams[0].required_bytes_per_second / machine.cores / _GIGA
        ),
        "model",
        "Eq. 5: loads of factors; loads and stores of results come on top",
    ),
    "registers available": (
        lambda roof, machine: (
            roof.levels[1].streams[0].available_bytes_per_second / machine.cores / _GIGA
        ),
        "model",
        "one vector in each cycle",
    ),
}


def _row(quantity: Quantity, roof: Roofline, machine: Machine) -> Row:
    if quantity.quantity not in _QUANTITIES:
        raise ExperimentError(
            f"nothing is computed for {quantity.quantity!r}",
            where="swdnn/figure2",
            fix=f"the quantities are {', '.join(_QUANTITIES)}",
        )
    formula, kind, note = _QUANTITIES[quantity.quantity]
    ours = formula(roof, machine)
    return compare(quantity.quantity, quantity.value, ours, kind, note=note, unit=quantity.unit)
