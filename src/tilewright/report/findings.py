"""Findings of `check`, as values."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from tilewright.cost.product_bounds import ProductRoofline


class Finding(Struct, frozen=True):
    """One thing that was checked: `status` is ok, note or refused."""

    subject: str
    rule: str
    status: str
    message: str = ""
    fix: str = ""


class CheckReport(Struct, frozen=True):
    """The `--json` form of `check`; `roofline` where tiles of a product were asked for."""

    machine: str
    findings: tuple[Finding, ...]
    refused: int
    roofline: ProductRoofline | UnsetType = UNSET
