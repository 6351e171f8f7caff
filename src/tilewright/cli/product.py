"""`tilewright check gemm --tile`: a product on any machine, also on one without a family."""

from __future__ import annotations

import re
from dataclasses import fields

from tilewright.cli.options import OperatorOptions
from tilewright.cli.output import UsageProblem
from tilewright.common.errors import TilewrightError
from tilewright.cost.product_bounds import (
    Product,
    ProductRoofline,
    Tile,
    product_roofline,
    require_tile,
)
from tilewright.machine import Machine
from tilewright.report.findings import Finding

_TILE = re.compile(r"(?:(?P<memory>[A-Za-z0-9_-]{1,64}):)?(?P<sizes>[a-z]=[0-9]+(,[a-z]=[0-9]+)*)")
_EXTENTS = ("m", "n", "k")

Tiles = dict[str | None, Tile]


def check_product(
    options: OperatorOptions, texts: list[str], machine: Machine
) -> tuple[tuple[Finding, ...], ProductRoofline]:
    """What is found about each tile, and the roofline with all of them."""
    product, tiles = _product(options, machine), dict(map(_tile, texts))
    findings = tuple(_finding(memory, tile, product, machine) for memory, tile in tiles.items())
    return findings, product_roofline(product, machine, tiles)


def roofline_lines(found: ProductRoofline) -> list[str]:
    """The roofline as text."""
    peak = found.peak_flops_per_second
    rows = [f"{'compute':32} {found.compute_cycles:14,.0f} cycles, {peak / 1e9:,.1f} Gop/s peak"]
    for level in found.levels:
        way = f"{level.engine}: {level.reads} -> {level.writes}"
        rows.append(
            f"{way:32} {level.cycles:14,.0f} cycles, {level.bytes:,} bytes at "
            f"{level.bytes_per_cycle:,.1f} a cycle"
        )
    rate, share = found.flops_per_second / 1e9, found.flops_per_second / peak
    rows.append(f"bound by {found.bound}: {rate:,.1f} Gop/s, {100 * share:.1f} % of the peak")
    return rows


def _product(options: OperatorOptions, machine: Machine) -> Product:
    given = {f.name for f in fields(options) if getattr(options, f.name) not in (None, False)}
    for name in _EXTENTS:
        if name not in given:
            raise UsageProblem(f"gemm needs --{name}")
    others = sorted(given - {*_EXTENTS, "dtype"})
    if others:
        raise UsageProblem(f"--tile goes with --m, --n, --k and --dtype, not with --{others[0]}")
    element = options.dtype or machine.core.usual_type
    return Product(options.m or 0, options.n or 0, options.k or 0, element)


def _tile(text: str) -> tuple[str | None, Tile]:
    match = _TILE.fullmatch(text)
    sizes = dict(part.split("=") for part in match["sizes"].split(",")) if match else {}
    if match is None or set(sizes) != set(_EXTENTS) or not all(map(int, sizes.values())):
        raise UsageProblem(f"--tile takes [MEMORY:]m=M,n=N,k=K, found {text!r}")
    return match["memory"], Tile(*(int(sizes[name]) for name in _EXTENTS))


def _finding(memory: str | None, tile: Tile, product: Product, machine: Machine) -> Finding:
    subject = f"tile {tile}"
    rule = f"fits memory {memory!r}" if memory else "fits the memories of a core"
    try:
        require_tile(machine, product.element, tile, memory)
    except TilewrightError as error:
        return Finding(subject, rule, "refused", error.message, error.fix)
    return Finding(subject, rule, "ok")
